"""Cache: an earlier run at the output, and whether it was made from what is asked for now."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from palestra.doctor.checking import Looked
from palestra.doctor.faults import finding_of
from palestra.doctor.findings import Finding, Quote, quote
from palestra.errors import InputDataError, PalestraError
from palestra.rollouts import CollectSettings, PreparedRun, RunPaths, StaleRun, discard

Plan = Callable[[CollectSettings], PreparedRun]
"""Plans a run as `collect` does. Raises InputDataError."""


def over_earlier(
    planned: Plan,
    settings: CollectSettings,
    error: InputDataError,
    finding: Finding,
) -> tuple[PreparedRun | None, Looked]:
    """The rows all the same, and what could be done about the run that is there."""
    if not isinstance(error, StaleRun):
        finding = _exists(planned, settings, finding)
    else:
        finding = replace(finding, evidence=(*finding.evidence, *_times(settings)))
    afresh = replace(settings, overwrite=True, resume_from_cache=False, on_stale="error")
    try:
        return planned(afresh), Looked("in the way", (finding,))
    except PalestraError:
        return None, Looked("in the way", (finding,))


def _exists(planned: Plan, settings: CollectSettings, finding: Finding) -> Finding:
    """Whether the run that is there could be continued."""
    again = replace(settings, resume_from_cache=True, overwrite=False)
    try:
        run = planned(again)
    except StaleRun as stale:
        found = finding_of(stale)
        return replace(
            found,
            symptom=f"{finding.symptom.partition(' exists')[0]} exists, and was made from "
            "something else",
            evidence=(*found.evidence, *_times(settings)),
        )
    except PalestraError:
        return finding
    continued = run.notices[-1]
    discard(run)
    return replace(finding, evidence=(*finding.evidence, quote("manifest", continued)))


def _times(settings: CollectSettings) -> tuple[Quote, ...]:
    """When the materialized inputs and what they were made from were last changed."""
    paths = RunPaths(settings.output_jsonl_fpath)
    sources = [source.path for source in settings.inputs]
    if settings.prompt_config:
        sources.append(settings.prompt_config)
    return tuple(
        quote(path, f"changed {_moment(path)}")
        for path in (paths.materialized_inputs, *sources)
        if path.exists()
    )


def _moment(path: Path) -> str:
    changed = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
    return changed.isoformat(sep=" ", timespec="seconds")

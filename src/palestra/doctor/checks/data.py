"""Data checks: plan the run, which reads every row, and check the rows against models and tools.

Cache check: is there an earlier run at the output, and was it made from the same inputs?
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from palestra.datasets import BadRows, DoorKeeper, RowProblems
from palestra.doctor.checking import Looked
from palestra.doctor.checks.rows import bad_rows
from palestra.doctor.faults import finding_of
from palestra.doctor.findings import Finding, Quote, quote
from palestra.doctor.survey import Survey, survey
from palestra.doctor.tabled import tabled
from palestra.doctor.tool_schemas import check_tool_schemas
from palestra.errors import InputDataError, Layer, PalestraError
from palestra.rollouts import (
    AgentRoute,
    PreparedRun,
    StaleRun,
    check_rows,
    discard,
    doors_behind,
    plan,
    unserved_tools,
)
from palestra.schema import AGENT_REF, JsonObject, RunPaths, read_jsonl
from palestra.settings import CollectSettings
from palestra.transport import ServerClient


@dataclass(frozen=True, slots=True)
class Planned:
    """The result of planning. `run` is None when the run cannot be planned."""

    run: PreparedRun | None
    survey: Survey | None
    rows: Looked
    cache: Looked


def plan_run(
    settings: CollectSettings,
    *,
    agents: Collection[str],
    semantics: JsonObject,
    version: str,
) -> Planned:
    """Plan the run as `collect` does. The caller must discard the plan."""

    def planned(settings_asked: CollectSettings) -> PreparedRun:
        return plan(settings_asked, agents=agents, semantics=semantics, version=version)

    cache = Looked("no earlier run at the output")
    try:
        run = planned(settings)
        if run.resumes:
            cache = Looked(run.notices[-1])
        elif run.found:
            cache = Looked("an earlier run there is moved to .bak")
    except BadRows as error:
        return Planned(None, None, _rows_looked(error, settings), cache)
    except InputDataError as error:
        finding = finding_of(error)
        if finding.layer is not Layer.CACHE:
            return Planned(None, None, Looked("not usable", (finding,)), cache)
        afresh, cache = _over_earlier(planned, settings, error, finding)
        if afresh is None:
            return Planned(None, None, Looked("not looked at", skipped=True), cache)
        run = afresh
    surveyed = survey(run)
    summary = f"{run.manifest.tasks:,} tasks, {run.manifest.requested:,} rollouts"
    return Planned(run, surveyed, Looked(summary), cache)


def _rows_looked(error: BadRows, settings: CollectSettings) -> Looked:
    count = sum(len(lines) for _, _, lines in error.rows.found())
    findings = bad_rows(error.rows, hint=error.hint)
    several = "" if len(settings.inputs) == 1 else f" of {len(settings.inputs)} files"
    return Looked(f"{count} problems of rows{several}", findings)


async def check_request_models(
    run: PreparedRun, client: ServerClient, routes: Iterable[AgentRoute]
) -> Looked:
    """Check whether every row passes the request models of its agent and its environment."""
    try:
        await check_rows(run, client, routes)
    except BadRows as error:
        return Looked("refused", bad_rows(error.rows))
    return Looked("every row passes")


async def check_offered_tools(
    run: PreparedRun, client: ServerClient, routes: Iterable[AgentRoute]
) -> Looked:
    """Check whether the environments run the tools that their rows offer, as far as that is known."""
    unserved = await unserved_tools(run, client, routes)
    findings = [
        tabled(
            "data.tool-unserved",
            str(tool),
            *(quote(path, f"offers {tool.name}", line=line) for path, line in tool.places),
        )
        for tool in unserved
    ]
    summary = f"{len(unserved)} that no server runs" if unserved else "none that no server runs"
    return Looked(summary, tuple(findings))


async def check_good_rows(
    settings: CollectSettings, client: ServerClient, routes: Iterable[AgentRoute]
) -> Looked:
    """Check the JSON object rows of an input that also has bad rows against the request models."""
    doors = await doors_behind(client, routes)
    keepers = {agent: DoorKeeper(agent_doors) for agent, agent_doors in doors.items()}

    def check_rows() -> RowProblems:
        problems = RowProblems()
        for source in settings.inputs:
            if not source.path.is_file():
                continue  # told already
            default = source.agent or settings.agent_name
            for line in read_jsonl(source.path):
                row = line.row
                if not isinstance(row, dict):
                    continue
                ref = row.get(AGENT_REF)
                agent_name = ref.get("name") if isinstance(ref, dict) else None
                keeper = keepers.get(str(agent_name or default))
                for problem in keeper.problems(row) if keeper else ():
                    problems.add(source.path, line.number, problem)
        return problems

    problems = await asyncio.to_thread(check_rows)
    return Looked("the rows that are JSON", bad_rows(problems))


def check_tools(settings: CollectSettings) -> Looked:
    """Check every distinct tool of the input, by rules and by compiling its grammar."""
    findings: list[Finding] = []
    tools = 0
    for source in settings.inputs:
        if not source.path.is_file():
            continue
        checked = check_tool_schemas(read_jsonl(source.path), source=source.path)
        tools += checked.tools
        findings += checked.findings()
    return Looked(f"{tools} different tools", tuple(findings))


Plan = Callable[[CollectSettings], PreparedRun]
"""Plans a run as `collect` does. Raises InputDataError."""


def _over_earlier(
    planned: Plan,
    settings: CollectSettings,
    error: InputDataError,
    finding: Finding,
) -> tuple[PreparedRun | None, Looked]:
    """Plan the rows although an earlier run exists, and return a finding about the earlier run."""
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
    """Return the finding about an earlier run, extended with whether the run can be continued."""
    resumed = replace(settings, resume_from_cache=True, overwrite=False)
    try:
        run = planned(resumed)
    except StaleRun as stale:
        stale_finding = finding_of(stale)
        return replace(
            stale_finding,
            symptom=f"{finding.symptom.partition(' exists')[0]} exists, and was made from "
            "something else",
            evidence=(*stale_finding.evidence, *_times(settings)),
        )
    except PalestraError:
        return finding
    continued = run.notices[-1]
    discard(run)
    return replace(finding, evidence=(*finding.evidence, quote("manifest", continued)))


def _times(settings: CollectSettings) -> tuple[Quote, ...]:
    """Quote when the materialized inputs and their source files were last changed."""
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

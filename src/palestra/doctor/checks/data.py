"""Data and cache: every row, the request models it meets, and an earlier run at the output."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from palestra.datasets import BadRows, DoorKeeper, RowProblems
from palestra.doctor.checking import Looked
from palestra.doctor.faults import finding_of
from palestra.doctor.findings import Finding, Quote, Severity, quote
from palestra.doctor.quoting import line_of, quote_line
from palestra.doctor.survey import Survey, survey
from palestra.doctor.tool_schemas import check_tool_schemas
from palestra.errors import InputDataError, Layer, PalestraError
from palestra.rollouts import (
    CollectSettings,
    PreparedRun,
    RunPaths,
    StaleRun,
    check_rows,
    discard,
    doors_behind,
    plan,
)
from palestra.schema import AGENT_REF, read_jsonl
from palestra.transport import ServerClient

MOST_KINDS: Final = 20
"""Kinds of problems that are told one by one."""
QUOTED: Final = 3
"""Rows that are quoted of each kind."""
DESCRIBED: Final = 120
"""Characters of a row that are quoted."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What came of planning; `run` is None when a run cannot be planned."""

    run: PreparedRun | None
    survey: Survey | None
    rows: Looked
    cache: Looked


def plan_run(
    settings: CollectSettings,
    *,
    agents: Collection[str],
    semantics: Mapping[str, Any],
    version: str,
) -> Planned:
    """Plan the run as `collect` does; whoever asked discards it."""

    def planned(asked: CollectSettings) -> PreparedRun:
        return plan(asked, agents=agents, semantics=semantics, version=version)

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
    found = survey(run)
    said = f"{run.manifest.tasks:,} tasks, {run.manifest.requested:,} rollouts"
    notes = tuple(_notice(text) for text in run.notices if text.startswith("warning: "))
    return Planned(run, found, Looked(said, notes), cache)


def _over_earlier(
    planned: Callable[[CollectSettings], PreparedRun],
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


def _exists(
    planned: Callable[[CollectSettings], PreparedRun], settings: CollectSettings, finding: Finding
) -> Finding:
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
            next_action="--overwrite moves that run to .bak and starts afresh; or give back what "
            "was changed and --resume it",
            evidence=(*found.evidence, *_times(settings)),
        )
    except PalestraError:
        return replace(finding, next_action="--overwrite moves it to .bak, or choose another one")
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


def _notice(text: str) -> Finding:
    """What may be a mistake and runs all the same."""
    return Finding(
        layer=Layer.DATA,
        cause="data.suspicious",
        symptom=text.removeprefix("warning: "),
        likely_cause="a misspelt parameter, which endpoints ignore or refuse",
        next_action="correct its name, if it is one of ours",
        severity=Severity.WARNING,
    )


# Rows


def _rows_looked(error: BadRows, settings: CollectSettings) -> Looked:
    count = sum(len(lines) for _, _, lines in error.rows.found())
    findings = bad_rows(error.rows, hint=error.hint)
    several = "" if len(settings.inputs) == 1 else f" of {len(settings.inputs)} files"
    return Looked(f"{count} problems of rows{several}", findings)


def bad_rows(rows: RowProblems, *, hint: str = "") -> tuple[Finding, ...]:
    """A finding for each kind of problem, with the first rows that have it."""
    found = list(rows.found())
    findings = []
    for path, what, lines in found[:MOST_KINDS]:
        numbers = [number for first, last in lines.ranges() for number in range(first, last + 1)]
        pointer = _pointer_of(what)
        layer, cause, why, action = _kind_of(what)
        findings.append(
            Finding(
                layer=layer,
                cause=cause,
                symptom=f"{path}: {_lines(str(lines), len(numbers))}: {what}",
                likely_cause=why,
                next_action=hint or action,
                evidence=tuple(
                    quote_row(path, number, pointer=pointer) for number in numbers[:QUOTED]
                ),
            )
        )
    if len(found) > MOST_KINDS:
        findings.append(_rest(found[MOST_KINDS:]))
    return tuple(findings)


def _lines(text: str, count: int) -> str:
    return f"line {text}" if count == 1 else f"lines {text}"


def quote_row(path: Path, number: int, *, pointer: str = "") -> Quote:
    """The beginning of a row, and where it stands."""
    text = line_of(path, number)
    shown = text if len(text) <= DESCRIBED else f"{text[:DESCRIBED]} …"
    return quote_line(path, number, pointer=pointer, text=shown)


def _pointer_of(what: str) -> str:
    """The JSON pointer at the beginning of a problem; empty where it has none."""
    pointer = what.split(" ", 1)[0].rstrip(":")
    return pointer if pointer.startswith("/") else ""


def _kind_of(what: str) -> tuple[Layer, str, str, str]:
    """Layer, cause, likely cause and action of one problem of a row."""
    if what.startswith("agent "):
        return (
            Layer.CONFIG,
            "config.missing-agent",
            "the rows name an agent of another configuration",
            "add the config file that defines this agent, or correct the rows' agent_ref",
        )
    if what.startswith("no agent_ref"):
        return (
            Layer.CONFIG,
            "config.no-agent-named",
            "rows of this file do not say who runs them",
            "name the agent: --agent NAME (agent_name)",
        )
    if what.startswith(("not JSON", "not a JSON object", "the file is")):
        return (
            Layer.DATA,
            "data.not-json",
            "the file was cut, edited by hand, or is of another format",
            "write the line as one JSON object, or remove it",
        )
    if "(asked by " in what:
        return (
            Layer.DATA,
            "data.row-refused",
            "the row lacks what the server's request model asks for, or has another type",
            "mend the field at that pointer, or the request model of that server",
        )
    return (
        Layer.DATA,
        "data.bad-request",
        "the row is not a task: responses_create_params must be a request of the Responses API",
        "mend the field at that pointer",
    )


def _rest(kinds: Collection[tuple[Path, str, Any]]) -> Finding:
    return Finding(
        layer=Layer.DATA,
        cause="data.bad-rows",
        symptom=f"{len(kinds)} more kinds of problems of rows",
        likely_cause="the file is of another format",
        next_action="mend those above first",
        evidence=tuple(quote(path, what) for path, what, _ in list(kinds)[:QUOTED]),
    )


async def check_request_models(
    run: PreparedRun,
    client: ServerClient,
    environments: Mapping[str, tuple[str, ...]],
    *,
    forwarding: Collection[str],
) -> Looked:
    """Whether every row passes the request models of its agent and its environment."""
    try:
        await check_rows(run, client, environments, forwarding=forwarding)
    except BadRows as error:
        return Looked("refused", bad_rows(error.rows))
    return Looked("every row passes")


async def check_good_rows(
    settings: CollectSettings,
    client: ServerClient,
    environments: Mapping[str, tuple[str, ...]],
    *,
    forwarding: Collection[str],
) -> Looked:
    """As `check_request_models`, of a file with bad rows: of those that are rows at all."""
    doors = await doors_behind(client, environments, forwarding=forwarding)
    keepers = {agent: DoorKeeper(found) for agent, found in doors.items()}

    def look() -> RowProblems:
        problems = RowProblems()
        for source in settings.inputs:
            default = source.agent or settings.agent_name
            for line in read_jsonl(source.path):
                row = line.row
                if not isinstance(row, dict):
                    continue
                ref = row.get(AGENT_REF)
                named = ref.get("name") if isinstance(ref, dict) else None
                keeper = keepers.get(str(named or default))
                for problem in keeper.problems(row) if keeper else ():
                    problems.add(source.path, line.number, problem)
        return problems

    problems = await asyncio.to_thread(look)
    return Looked("the rows that are JSON", bad_rows(problems))


def check_tools(settings: CollectSettings) -> Looked:
    """Every distinct tool of the input, by rules and by compiling its grammar."""
    findings: list[Finding] = []
    tools = 0
    for source in settings.inputs:
        if not source.path.is_file():
            continue
        found = check_tool_schemas(read_jsonl(source.path), source=source.path)
        tools += found.tools
        findings += found.findings()
    return Looked(f"{tools} different tools", tuple(findings))

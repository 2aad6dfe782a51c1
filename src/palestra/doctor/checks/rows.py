"""Data: rows that cannot be used, as findings with the lines and pointers of their problems."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from palestra.datasets import RowProblems
from palestra.doctor.findings import Finding, Quote, quote
from palestra.doctor.quoting import line_of, quote_line
from palestra.errors import Layer

MOST_KINDS: Final = 20
"""Kinds of problems that are told one by one."""
QUOTED: Final = 3
"""Rows that are quoted of each kind."""
DESCRIBED: Final = 120
"""Characters of a row that are quoted."""


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

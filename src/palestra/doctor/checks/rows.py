"""Data: rows that cannot be used, as findings with the lines and pointers of their problems."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from palestra.datasets import RowProblems
from palestra.doctor.findings import Finding, Quote, quote
from palestra.doctor.quoting import line_of, quote_line
from palestra.doctor.signatures import Signature, SignatureTable
from palestra.doctor.tabled import tabled
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
        known = _kind_of(what)
        findings.append(
            Finding(
                layer=known.layer,
                cause=known.cause,
                symptom=f"{path}: {_lines(str(lines), len(numbers))}: {what}",
                likely_cause=known.why,
                next_action=hint or known.do_of(what),
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


def _kind_of(what: str) -> Signature:
    """Which entry of the table a problem of a row is."""
    table = SignatureTable.load()
    if what.startswith(("agent ", "no agent_ref")):
        return table.by_cause["config.missing-agent"]
    if what.startswith(("not JSON", "not a JSON object", "the file is")):
        return table.by_cause["data.not-json"]
    if "prompt" in what and (matched := table.match(what)) and matched[0].layer is Layer.DATA:
        return matched[0]
    return table.by_cause["data.row-refused" if "(asked by " in what else "data.bad-request"]


def _rest(kinds: Collection[tuple[Path, str, Any]]) -> Finding:
    return tabled(
        "data.bad-rows",
        f"{len(kinds)} more kinds of problems of rows",
        *(quote(path, what) for path, what, _ in list(kinds)[:QUOTED]),
    )

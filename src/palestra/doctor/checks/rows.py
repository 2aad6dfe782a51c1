"""Data checks: findings for unusable rows, with the lines and JSON pointers of the problems."""

import shlex
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from palestra.causes import Signature, SignatureTable
from palestra.datasets import RowProblems
from palestra.doctor.findings import Finding, Quote, quote
from palestra.doctor.quoting import line_of, quote_line
from palestra.doctor.tabled import tabled
from palestra.errors import Layer
from palestra.system import shown

MOST_KINDS: Final = 20
"""Largest number of kinds of problems that get a finding of their own."""
QUOTED: Final = 3
"""Number of rows quoted for each kind of problem."""
MOST_NUMBERS: Final = 10
"""Largest number of non-JSON lines whose numbers are listed."""
DESCRIBED: Final = 120
"""Number of characters of a row that are quoted."""


def bad_rows(rows: RowProblems, *, hint: str = "") -> tuple[Finding, ...]:
    """Return a finding for each kind of problem, with the first rows that have it."""
    kinds = list(_kinds(rows))
    findings = [_finding(*kind, hint) for kind in kinds[:MOST_KINDS]]
    if len(kinds) > MOST_KINDS:
        findings.append(_further_rows(kinds[MOST_KINDS:]))
    return tuple(findings)


def _kinds(rows: RowProblems) -> Iterator[tuple[Path, str, str, list[int]]]:
    """Yield for each kind of problem: file, problem, its lines as text, and the line numbers.

    All lines that are not JSON count as one kind: in a file that is not JSONL at all (one document,
    a table), each line has a different error.
    """
    torn: dict[Path, tuple[str, list[int]]] = {}
    for path, what, lines in rows.found():
        numbers = [number for first, last in lines.ranges() for number in range(first, last + 1)]
        if not what.startswith("not JSON"):
            yield path, what, str(lines), numbers
        elif path in torn:
            torn[path][1].extend(numbers)
        else:
            torn[path] = what, numbers
    for path, (what, numbers) in torn.items():
        numbers.sort()
        # What is said is of the first line; the others are wrong in their own ways.
        numbers_text = ", ".join(map(str, numbers[:MOST_NUMBERS]))
        yield path, what, numbers_text + ", …" * (len(numbers) > MOST_NUMBERS), numbers


def _finding(path: Path, what: str, lines: str, numbers: list[int], hint: str) -> Finding:
    kind = _kind_of(what)
    pointer = _pointer_of(what)
    finding = tabled(
        kind.cause,
        f"{path}: {'line' if len(numbers) == 1 else 'lines'} {lines}: {what}",
        *(quote_row(path, number, pointer=pointer) for number in numbers[:QUOTED]),
    )
    fields = {**kind.fields_in(what), "file": shlex.quote(shown(path))}
    return replace(finding, next_action=hint or kind.do_with(fields))


def quote_row(path: Path, number: int, *, pointer: str = "") -> Quote:
    """Quote the beginning of a row, with its file and line."""
    text = line_of(path, number)
    described = text if len(text) <= DESCRIBED else f"{text[:DESCRIBED]} …"
    return quote_line(path, number, pointer=pointer, text=described)


def _pointer_of(what: str) -> str:
    """Return the JSON pointer at the beginning of a problem; empty when there is none."""
    pointer = what.split(" ", 1)[0].rstrip(":")
    return pointer if pointer.startswith("/") else ""


def _kind_of(what: str) -> Signature:
    """Return the entry of the signature table for a row's problem."""
    table = SignatureTable.load()
    if what.startswith("agent "):
        return table.by_cause["config.missing-agent"]
    if what.startswith("no agent_ref"):
        return table.by_cause["data.no-agent-ref"]
    if what.startswith(("not JSON", "not a JSON object", "the file is")):
        return table.by_cause["data.not-json"]
    if "prompt" in what and (matched := table.match(what)) and matched[0].layer is Layer.DATA:
        return matched[0]
    return table.by_cause["data.row-refused" if "(required by " in what else "data.bad-request"]


def _further_rows(kinds: Collection[tuple[Path, str, str, list[int]]]) -> Finding:
    return tabled(
        "data.bad-rows",
        f"{len(kinds)} more kinds of problems of rows",
        *(quote(path, what) for path, what, _, _ in list(kinds)[:QUOTED]),
    )

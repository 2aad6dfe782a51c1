"""Data: rows that cannot be used, as findings with the lines and pointers of their problems."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

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
MOST_NUMBERS: Final = 10
"""Lines that are named of those that are no JSON."""
DESCRIBED: Final = 120
"""Characters of a row that are quoted."""


def bad_rows(rows: RowProblems, *, hint: str = "") -> tuple[Finding, ...]:
    """A finding for each kind of problem, with the first rows that have it."""
    kinds = list(_kinds(rows))
    findings = [_finding(*kind, hint) for kind in kinds[:MOST_KINDS]]
    if len(kinds) > MOST_KINDS:
        findings.append(_rest(kinds[MOST_KINDS:]))
    return tuple(findings)


def _kinds(rows: RowProblems) -> Iterator[tuple[Path, str, str, list[int]]]:
    """File, problem, its lines as text, and their numbers. Lines that are no JSON are one kind.

    Of a file that is no JSONL at all (one document, a table), each line is wrong in its own way.
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
    return replace(finding, next_action=hint or kind.do_of(what))


def quote_row(path: Path, number: int, *, pointer: str = "") -> Quote:
    """The beginning of a row, and where it stands."""
    text = line_of(path, number)
    described = text if len(text) <= DESCRIBED else f"{text[:DESCRIBED]} …"
    return quote_line(path, number, pointer=pointer, text=described)


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


def _rest(kinds: Collection[tuple[Path, str, str, list[int]]]) -> Finding:
    return tabled(
        "data.bad-rows",
        f"{len(kinds)} more kinds of problems of rows",
        *(quote(path, what) for path, what, _, _ in list(kinds)[:QUOTED]),
    )

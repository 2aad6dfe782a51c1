"""Check whether the tools of rows can be served: by rules, and by compiling their grammars.

Rows of a dataset repeat the same few tools thousands of times, so every distinct tool is checked
once. A list of tools is recognized by its bytes, and so is each tool in it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

import orjson

from palestra.causes import Severity
from palestra.doctor.findings import Finding, in_order, quote
from palestra.doctor.grammars import Compile, installed_compilers
from palestra.doctor.tabled import tabled
from palestra.doctor.tool_rules import SHAPE, broken_tool, digest_of, name_of
from palestra.schema import CREATE_PARAMS, JsonObject, Line

TWICE: Final = "data.tool-twice"
_SHOWN: Final = 5
"""Largest number of places quoted in one finding; the others are counted."""


@dataclass(slots=True)
class ToolProblem:
    """A problem of one distinct tool. `pointer` is a JSON pointer within the row in line `line`."""

    cause: str
    severity: Severity
    tool: str
    message: str
    line: int
    pointer: str
    rows: int = 0
    """The number of rows that have this tool."""


@dataclass(slots=True)
class SchemaGroup:
    """The rows with one value of the summary key."""

    rows: int = 0
    rows_with_errors: int = 0
    problems: Counter[Severity] = field(default_factory=Counter)
    """The number of distinct problems, by severity."""


@dataclass(frozen=True, slots=True)
class ToolCheck:
    """The result of checking the tools of all rows."""

    source: str
    rows: int
    tools: int
    """The number of distinct tools."""
    compilers: tuple[str, ...]
    problems: tuple[ToolProblem, ...]
    groups: Mapping[str, SchemaGroup]

    def count(self, severity: Severity) -> int:
        """Return the number of problems with this severity."""
        return sum(problem.severity is severity for problem in self.problems)

    def findings(self) -> tuple[Finding, ...]:
        """Return one finding for each cause and severity, with the first places where it occurs."""
        kinds: dict[tuple[str, Severity], list[ToolProblem]] = {}
        for problem in self.problems:
            kinds.setdefault((problem.cause, problem.severity), []).append(problem)
        return in_order(
            self._finding(cause, severity, problems)
            for (cause, severity), problems in kinds.items()
        )

    def _finding(self, cause: str, severity: Severity, problems: Sequence[ToolProblem]) -> Finding:
        tools = list(dict.fromkeys(problem.tool for problem in problems))
        tool_names = ", ".join(tools[:_SHOWN]) + (", …" if len(tools) > _SHOWN else "")
        first, further = problems[0], len(problems) - 1
        others = (
            f" (and {further} more of this kind)" if further else f"; rows with it: {first.rows}"
        )
        return tabled(
            cause,
            f"tool {tool_names}: {first.message}{others}",
            *(
                quote(self.source, f"{p.tool}: {p.message}", line=p.line, pointer=p.pointer)
                for p in problems[:_SHOWN]
            ),
            severity=severity,
        )


def check_tool_schemas(
    lines: Iterable[Line],
    *,
    source: Path | str,
    compilers: Mapping[str, Compile] | None = None,
    summary_key: str = "",
) -> ToolCheck:
    """Check every distinct tool of the rows in `lines`, which come from `source`.

    Lines that are not rows are skipped, because another check reports them. `compilers`: default
    are the installed ones. `summary_key`: a field of the rows; a dotted path for an inner field.
    """
    check = _Check(installed_compilers() if compilers is None else compilers, summary_key)
    for line in lines:
        if isinstance(line.row, dict):
            check.row(line.number, line.row)
    return check.done(str(source))


@dataclass(slots=True)
class _Tools:
    """One distinct list of tools: the problems of its tools, and the number of rows that have it."""

    problems: list[ToolProblem]
    rows: int = 0
    groups: Counter[str] = field(default_factory=Counter)


@final
class _Check:
    def __init__(self, compilers: Mapping[str, Compile], summary_key: str) -> None:
        self._compilers = compilers
        self._key = summary_key.split(".") if summary_key else []
        self._lists: dict[bytes, _Tools] = {}
        self._known: dict[bytes, list[ToolProblem]] = {}
        self._groups: dict[str, SchemaGroup] = {}
        self._rows = 0

    def row(self, number: int, row: JsonObject) -> None:
        self._rows += 1
        at, tools = _tools_of(row)
        digest = orjson.dumps(tools)
        list_known = self._lists.get(digest)
        if list_known is None:
            list_known = self._lists[digest] = _Tools(list(self._of_list(number, at, tools)))
        list_known.rows += 1
        if self._key:
            list_known.groups[_value(row, self._key)] += 1

    def _of_list(self, number: int, at: str, tools: Any) -> Iterator[ToolProblem]:
        if tools is None:
            return
        if not isinstance(tools, list):
            message = f"tools should be a list, and is {type(tools).__name__}"
            yield ToolProblem(SHAPE, Severity.ERROR, "?", message, number, at)
            return
        names: set[str] = set()
        for index, tool in enumerate(tools):
            digest = digest_of(tool)
            if digest not in self._known:
                self._known[digest] = list(self._of_tool(number, f"{at}/{index}", tool))
            yield from self._known[digest]
            name = name_of(tool)
            if name in names:
                message = "a second tool of this name: only one of them can be called"
                yield ToolProblem(
                    TWICE, Severity.ERROR, name, message, number, f"{at}/{index}/name"
                )
            names |= {name} - {"?"}

    def _of_tool(self, number: int, at: str, tool: Any) -> Iterator[ToolProblem]:
        for broken in broken_tool(tool, self._compilers):
            name = name_of(tool)
            yield ToolProblem(
                broken.cause, broken.severity, name, broken.message, number, at + broken.pointer
            )

    def done(self, source: str) -> ToolCheck:
        problems_found: dict[int, ToolProblem] = {}
        for tools in self._lists.values():
            self._count(tools)
            for problem in tools.problems:
                problem.rows += tools.rows
                problems_found[id(problem)] = problem
        return ToolCheck(
            source=source,
            rows=self._rows,
            tools=len(self._known),
            compilers=tuple(self._compilers),
            problems=tuple(problems_found.values()),
            groups=self._summed(),
        )

    def _count(self, tools: _Tools) -> None:
        wrong = any(problem.severity is Severity.ERROR for problem in tools.problems)
        for value, rows in tools.groups.items():
            group = self._groups.setdefault(value, SchemaGroup())
            group.rows += rows
            group.rows_with_errors += rows * wrong

    def _summed(self) -> dict[str, SchemaGroup]:
        distinct: dict[str, dict[int, Severity]] = {}
        for tools in self._lists.values():
            for value in tools.groups:
                severities = distinct.setdefault(value, {})
                severities.update({id(problem): problem.severity for problem in tools.problems})
        for value, problems in distinct.items():
            self._groups[value].problems.update(problems.values())
        return dict(sorted(self._groups.items()))


def _tools_of(row: JsonObject) -> tuple[str, Any]:
    """Return the JSON pointer and the value of a row's tools. A row may also be a Chat Completions
    body.
    """
    params = row.get(CREATE_PARAMS)
    if isinstance(params, dict):
        return f"/{CREATE_PARAMS}/tools", params.get("tools")
    return "/tools", row.get("tools")


def _value(row: Any, key: Sequence[str]) -> str:
    for name in key:
        row = row.get(name) if isinstance(row, dict) else None
    return row if isinstance(row, str) else orjson.dumps(row).decode()

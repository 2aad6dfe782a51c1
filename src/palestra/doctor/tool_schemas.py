"""Whether the tools of rows can be served: by rules, and by really compiling their grammars.

Rows of a dataset repeat the same few tools thousands of times, so everything is done once per
distinct tool. A list of tools is known by its bytes, then a tool by its own.

What counts as an error is what no server takes, or what says something else than its author
meant. A schema that vLLM's default compiler refuses and another takes is a warning: vLLM may go
on with that one, or answer 400 when its backend is pinned.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

import orjson

from palestra.doctor.findings import Finding, Severity, in_order, quote
from palestra.doctor.grammars import OUTLINES, Compile, installed_compilers
from palestra.doctor.schema_rules import NOT_A_SCHEMA, REF, Broken, broken_rules, nodes_of
from palestra.errors import Layer
from palestra.schema import CREATE_PARAMS, Line

NAME: Final = "data.tool-name"
TWICE: Final = "data.tool-twice"
SHAPE: Final = "data.tool-shape"
GRAMMAR: Final = "data.tool-grammar"
FALLBACK: Final = "data.tool-grammar-fallback"

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SHOWN: Final = 5
"""Places of one finding that are quoted; the others are counted."""

_NEXT: Final[Mapping[str, str]] = {
    NAME: "rename the tool, in the rows and in the environment that answers it",
    TWICE: "keep one of the two",
    SHAPE: 'write it as {"type": "function", "name": …, "parameters": {"type": "object", …}}',
    GRAMMAR: "mend the schema where the compilers say",
    FALLBACK: "leave out what the compiler refuses, or choose the other one in vLLM "
    "(--structured-outputs-config.backend)",
    "data.tool-top-type": 'add "type": "object" at the top of the parameters',
    NOT_A_SCHEMA: "write a schema there, as JSON Schema says",
    "data.tool-boolean-schema": "write a schema with a type instead, or leave the entry out",
    "data.tool-format": "leave `format` out and say it in the description",
    "data.tool-keyword": "leave the keyword out and say it in the description",
    REF: "put what it refers to under `$defs` of the same parameters, or write it in place",
    "data.tool-ref-cycle": "write the schema out to the depth that is needed",
}


@dataclass(slots=True)
class ToolProblem:
    """What is wrong with one distinct tool. `pointer` is one within the row `line`."""

    cause: str
    severity: Severity
    tool: str
    message: str
    line: int
    pointer: str
    rows: int = 0
    """How many rows have this tool."""


@dataclass(slots=True)
class Group:
    """The rows that share a value of the summary key."""

    rows: int = 0
    rows_with_errors: int = 0
    problems: Counter[Severity] = field(default_factory=Counter)
    """Distinct ones, by severity."""


@dataclass(frozen=True, slots=True)
class ToolCheck:
    """What a check of rows has found."""

    source: str
    rows: int
    tools: int
    """Distinct ones."""
    compilers: tuple[str, ...]
    problems: tuple[ToolProblem, ...]
    groups: Mapping[str, Group]

    def count(self, severity: Severity) -> int:
        """How many problems are so bad."""
        return sum(problem.severity is severity for problem in self.problems)

    def findings(self) -> tuple[Finding, ...]:
        """One finding for each cause, with the first places where it shows."""
        kinds: dict[tuple[str, Severity], list[ToolProblem]] = {}
        for problem in self.problems:
            kinds.setdefault((problem.cause, problem.severity), []).append(problem)
        return in_order(
            self._finding(cause, severity, problems)
            for (cause, severity), problems in kinds.items()
        )

    def _finding(self, cause: str, severity: Severity, problems: Sequence[ToolProblem]) -> Finding:
        tools = list(dict.fromkeys(problem.tool for problem in problems))
        named = ", ".join(tools[:_SHOWN]) + (", …" if len(tools) > _SHOWN else "")
        first, more = problems[0], len(problems) - 1
        others = f" (and {more} more of this kind)" if more else f"; rows with it: {first.rows}"
        return Finding(
            layer=Layer.DATA,
            cause=cause,
            severity=severity,
            symptom=f"tool {named}: {first.message}{others}",
            likely_cause="",
            next_action=_NEXT[cause],
            evidence=tuple(
                quote(self.source, f"{p.tool}: {p.message}", line=p.line, pointer=p.pointer)
                for p in problems[:_SHOWN]
            ),
        )


def check_tool_schemas(
    lines: Iterable[Line],
    *,
    source: Path | str,
    compilers: Mapping[str, Compile] | None = None,
    summary_key: str = "",
) -> ToolCheck:
    """Check every distinct tool of the rows in `lines`, which come from `source`.

    Lines that are no rows are passed over: telling of them is another check's. `compilers`: those
    installed, unless given. `summary_key`: a field of the rows, dotted where it is an inner one.
    """
    check = _Check(installed_compilers() if compilers is None else compilers, summary_key)
    for line in lines:
        if isinstance(line.row, dict):
            check.row(line.number, line.row)
    return check.done(str(source))


@dataclass(slots=True)
class _Tools:
    """One distinct list of tools: what is wrong with its members, and in how many rows it is."""

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
        self._groups: dict[str, Group] = {}
        self._rows = 0

    def row(self, number: int, row: Mapping[str, Any]) -> None:
        self._rows += 1
        at, tools = _tools_of(row)
        digest = orjson.dumps(tools)
        known = self._lists.get(digest)
        if known is None:
            known = self._lists[digest] = _Tools(list(self._of_list(number, at, tools)))
        known.rows += 1
        if self._key:
            known.groups[_value(row, self._key)] += 1

    def _of_list(self, number: int, at: str, tools: Any) -> Iterator[ToolProblem]:
        if tools is None:
            return
        if not isinstance(tools, list):
            message = f"tools should be a list, and is {type(tools).__name__}"
            yield ToolProblem(SHAPE, Severity.ERROR, "?", message, number, at)
            return
        names: set[str] = set()
        for index, tool in enumerate(tools):
            digest = _digest(tool)
            if digest not in self._known:
                self._known[digest] = list(self._of_tool(number, f"{at}/{index}", tool))
            yield from self._known[digest]
            name = _name_of(tool)
            if name in names:
                message = "a second tool of this name: only one of them can be called"
                yield ToolProblem(
                    TWICE, Severity.ERROR, name, message, number, f"{at}/{index}/name"
                )
            names |= {name} - {"?"}

    def _of_tool(self, number: int, at: str, tool: Any) -> Iterator[ToolProblem]:
        for broken in _broken_tool(tool, self._compilers):
            name = _name_of(tool)
            yield ToolProblem(
                broken.cause, broken.severity, name, broken.message, number, at + broken.pointer
            )

    def done(self, source: str) -> ToolCheck:
        found: dict[int, ToolProblem] = {}
        for tools in self._lists.values():
            self._count(tools)
            for problem in tools.problems:
                problem.rows += tools.rows
                found[id(problem)] = problem
        return ToolCheck(
            source=source,
            rows=self._rows,
            tools=len(self._known),
            compilers=tuple(self._compilers),
            problems=tuple(found.values()),
            groups=self._summed(),
        )

    def _count(self, tools: _Tools) -> None:
        wrong = any(problem.severity is Severity.ERROR for problem in tools.problems)
        for value, rows in tools.groups.items():
            group = self._groups.setdefault(value, Group())
            group.rows += rows
            group.rows_with_errors += rows * wrong

    def _summed(self) -> dict[str, Group]:
        distinct: dict[str, dict[int, Severity]] = {}
        for tools in self._lists.values():
            for value in tools.groups:
                seen = distinct.setdefault(value, {})
                seen.update({id(problem): problem.severity for problem in tools.problems})
        for value, problems in distinct.items():
            self._groups[value].problems.update(problems.values())
        return dict(sorted(self._groups.items()))


def _tools_of(row: Mapping[str, Any]) -> tuple[str, Any]:
    """The tools of a row, and where they stand; those of a Chat Completions body as well."""
    params = row.get(CREATE_PARAMS)
    if isinstance(params, dict):
        return f"/{CREATE_PARAMS}/tools", params.get("tools")
    return "/tools", row.get("tools")


def _value(row: Any, key: Sequence[str]) -> str:
    for name in key:
        row = row.get(name) if isinstance(row, dict) else None
    return row if isinstance(row, str) else orjson.dumps(row).decode()


def _digest(tool: Any) -> bytes:
    """What tools that differ in their description alone have in common."""
    if isinstance(tool, dict):
        tool = {name: value for name, value in tool.items() if name != "description"}
    return orjson.dumps(tool)


def _name_of(tool: Any) -> str:
    inner = tool.get("function") if isinstance(tool, dict) else None
    held = inner if isinstance(inner, dict) else tool
    name = held.get("name") if isinstance(held, dict) else None
    return name if isinstance(name, str) and name else "?"


def _broken_tool(tool: Any, compilers: Mapping[str, Compile]) -> Iterator[Broken]:
    if not isinstance(tool, dict):
        yield Broken(SHAPE, "", f"a tool should be an object, and is {type(tool).__name__}")
        return
    if tool.get("type", "function") != "function":
        return  # a tool of the provider's own: it has no schema
    inner = tool.get("function")
    held, at = (inner, "/function") if isinstance(inner, dict) else (tool, "")
    name = held.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield Broken(
            NAME,
            f"{at}/name",
            f"the name is {name!r}: it must be 1 to 64 letters, digits, '_' or '-'",
        )
    parameters = held.get("parameters")
    at += "/parameters"
    if parameters is None:
        return  # it takes none
    if not isinstance(parameters, dict):
        kind = type(parameters).__name__
        yield Broken(SHAPE, at, f"parameters should be an object, and is {kind}: {parameters!r}")
        return
    rules = list(broken_rules(parameters))
    for broken in (*rules, *_compiled(rules, parameters, compilers)):
        yield Broken(broken.cause, at + broken.pointer, broken.message, broken.severity)


def _compiled(
    rules: Sequence[Broken], parameters: Mapping[str, Any], compilers: Mapping[str, Compile]
) -> Iterator[Broken]:
    """What the compilers say, unless a rule has said it with the place where it is."""
    if any(b.cause in {NOT_A_SCHEMA, REF} and b.severity is Severity.ERROR for b in rules):
        return
    refused: dict[str, str] = {}
    taken = ""
    for name, compile_ in compilers.items():
        if name == OUTLINES and taken:
            break  # vLLM's last resort, and a slow one
        if why := compile_(_text(parameters)):
            refused[name] = why
        else:
            taken = taken or name
    said = "; ".join(f"{name} says: {why}" for name, why in refused.items())
    first = next(iter(refused), "")
    if refused and not taken:
        at = _blamed(parameters, compilers[first])
        yield Broken(GRAMMAR, at, f"no grammar compiler takes it. {said}")
    elif refused and first == next(iter(compilers)):
        at = _blamed(parameters, compilers[first])
        yield Broken(FALLBACK, at, f"{said}; {taken} takes it", Severity.WARNING)


def _blamed(parameters: Mapping[str, Any], compile_: Compile) -> str:
    """The innermost node that is refused by itself, too; the root where that is none."""
    nodes = [(at, node) for at, node in nodes_of(parameters) if isinstance(node, dict | bool)]
    for at, node in sorted(nodes, key=lambda item: -item[0].count("/")):
        text = _text(node)
        # By itself, a reference leads nowhere.
        if '"$ref"' not in text and compile_(text):
            return at
    return ""


def _text(schema: Any) -> str:
    return orjson.dumps(schema).decode()

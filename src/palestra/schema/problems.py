"""Describe what a request model rejects, as JSON pointers into the given value.

Messages quote only an excerpt of a bad value, because a row may be very long. Objects are not
quoted at all, because their repr shows internal types rather than the row.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import orjson
from pydantic import BaseModel, ValidationError

from palestra.schema.json_types import JsonObject

LONGEST_QUOTE = 60
"""The maximum number of characters of a bad value that a message quotes."""

LISTED = 5
"""The maximum number of rejected fields in a message; the others are only counted."""

_FLAT: Final = (
    "; this is a tool of Chat Completions, and a tool of Responses is flat: write what is under "
    "`function` one level up, beside `type`"
)


class Rejection(Protocol):
    """A validation error of pydantic or of FastAPI."""

    def errors(self) -> Sequence[Any]:
        """Return one mapping with `type`, `loc`, `msg` and `input` for each problem."""


class RejectedField(NamedTuple):
    """One field that a model rejects. `found`: a short description of the given value."""

    pointer: str
    expected: str
    found: str = ""

    @property
    def sentence(self) -> str:
        """A text with the expected and the given value."""
        return f"{self.expected}, got {self.found}" if self.found else self.expected


def rejected_fields(value: Any, error: Rejection) -> list[RejectedField]:
    """Return the rejected fields of `value`, once for each different reason."""
    rejected = dict.fromkeys(_rejected(value, problem) for problem in error.errors())
    # That a list is no text says nothing when something is wrong inside of the list.
    outer = _outer(field.pointer for field in rejected)
    return [field for field in rejected if field.pointer not in outer]


def _outer(pointers: Iterable[str]) -> set[str]:
    """Return all proper prefixes of the pointers: the containers of other rejected fields. It is
    fast even for thousands of fields.
    """
    outer: set[str] = set()
    for pointer in pointers:
        ancestor = pointer
        while ancestor:
            ancestor = ancestor.rpartition("/")[0]
            if ancestor in outer:
                break
            outer.add(ancestor)
    return outer


def _rejected(value: Any, problem: JsonObject) -> RejectedField:
    missing, rejected_value = problem["type"] == "missing", problem.get("input")
    expected = str(problem["msg"])
    if missing and _is_chat_form(rejected_value):
        expected += _FLAT
    return RejectedField(
        _pointer(value, problem["loc"], rejected_value, missing=missing),
        expected,
        "" if missing else in_short(rejected_value),
    )


def _is_chat_form(tool: Any) -> bool:
    """Whether a rejected object is a function tool of Chat Completions."""
    if not isinstance(tool, Mapping) or tool.get("type") != "function" or "name" in tool:
        return False
    function = tool.get("function")
    return isinstance(function, Mapping) and "name" in function


def rejection_text(fields: Sequence[RejectedField]) -> str:
    """Return all rejections as one line of text."""
    listed = "; ".join(f"{f.pointer or 'the whole'}: {f.sentence}" for f in fields[:LISTED])
    return listed + (f" (and {len(fields) - LISTED} more)" if len(fields) > LISTED else "")


def why_unreadable(body: bytes, error: Exception) -> str:
    """Return one line that explains why `body` could not be decoded."""
    if not isinstance(error, ValidationError):
        return str(error)
    return rejection_text(rejected_fields(orjson.loads(body), error))


def in_short(value: Any) -> str:
    """Return a short description of a value: a scalar itself, or the kind of a larger value."""
    if isinstance(value, str | int | float) or value is None:
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, Mapping | BaseModel):
        return "an object"
    return f"a {type(value).__name__}"


def _pointer(
    value: Any, steps: tuple[int | str, ...], rejected_value: Any, *, missing: bool
) -> str:
    """Return the JSON pointer into `value` for pydantic's `steps`, which lead to `rejected_value`, or
    to a field that it lacks. Steps that only name a tried type are left out.
    """
    present, lacking = (steps[:-1], steps[-1:]) if missing else (steps, ())
    # A type may have the name of a field that is there, such as `function` of a tool.
    path = next(_paths(value, present, rejected_value), None)
    if path is None:  # a validator has changed the value before it was rejected
        path = _longest_path(value, present)
    return "".join(
        "/" + str(step).replace("~", "~0").replace("/", "~1") for step in (*path, *lacking)
    )


def _paths(
    value: Any, steps: tuple[int | str, ...], target: Any
) -> Iterator[tuple[int | str, ...]]:
    """Yield the parts of `steps` that lead from `value` to `target`, those with more steps first."""
    if not steps:
        if value is target or value == target:
            yield ()
        return
    step, inner = steps[0], steps[1:]
    if _leads_on(value, step):
        yield from ((step, *path) for path in _paths(_inside(value, step), inner, target))
    yield from _paths(value, inner, target)


def _longest_path(value: Any, steps: tuple[int | str, ...]) -> tuple[int | str, ...]:
    path: tuple[int | str, ...] = ()
    for step in steps:
        if _leads_on(value, step):
            value, path = _inside(value, step), (*path, step)
    return path


def _inside(value: Any, step: int | str) -> Any:
    return getattr(value, str(step)) if isinstance(value, BaseModel) else value[step]


def _leads_on(value: Any, step: int | str) -> bool:
    if isinstance(value, Mapping):
        return step in value
    if isinstance(value, BaseModel):
        return isinstance(step, str) and hasattr(value, step)
    return isinstance(value, list) and isinstance(step, int) and step < len(value)

"""What a request model rejects, as JSON pointers into the value that was given.

Only an excerpt of a bad value is quoted: a row may hold a whole book, and an object's repr says
more about us than about the row.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import orjson
from pydantic import BaseModel, ValidationError

from palestra.schema.json_types import JsonObject

LONGEST_QUOTE = 60
"""Characters of a bad value that a message repeats."""

LISTED = 5
"""Rejected fields that a sentence names; the others are counted."""


class Rejection(Protocol):
    """A validation error of pydantic or of FastAPI."""

    def errors(self) -> Sequence[Any]:
        """One mapping with `type`, `loc`, `msg` and `input` for each problem."""


class RejectedField(NamedTuple):
    """One field that a model does not take. `found` describes what was there, in a few words."""

    pointer: str
    expected: str
    found: str = ""

    @property
    def sentence(self) -> str:
        """What was expected, and what was there instead."""
        return f"{self.expected}, got {self.found}" if self.found else self.expected


def rejected_fields(value: Any, error: Rejection) -> list[RejectedField]:
    """Each field of `value` that `error` is about, once for each reason."""
    rejected = dict.fromkeys(_rejected(value, problem) for problem in error.errors())
    # That a list is no text says nothing when something is wrong inside of the list.
    outer = _outer(field.pointer for field in rejected)
    return [field for field in rejected if field.pointer not in outer]


def _outer(pointers: Iterable[str]) -> set[str]:
    """The places that hold others. A model may write thousands of fields that nobody knows."""
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
    missing = problem["type"] == "missing"
    return RejectedField(
        _pointer(value, problem["loc"], missing=missing),
        str(problem["msg"]),
        "" if missing else in_short(problem.get("input")),
    )


def rejection_text(fields: Sequence[RejectedField]) -> str:
    """All that is wrong, in one line."""
    listed = "; ".join(f"{f.pointer or 'the whole'}: {f.sentence}" for f in fields[:LISTED])
    return listed + (f" (and {len(fields) - LISTED} more)" if len(fields) > LISTED else "")


def why_unreadable(body: bytes, error: Exception) -> str:
    """Why `body` could not be read as what was wanted, in one line."""
    if not isinstance(error, ValidationError):
        return str(error)
    return rejection_text(rejected_fields(orjson.loads(body), error))


def in_short(value: Any) -> str:
    """A value in a few words: a scalar itself, of anything bigger only what it is."""
    if isinstance(value, str | int | float) or value is None:
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, Mapping | BaseModel):
        return "an object"
    return f"a {type(value).__name__}"


def _pointer(value: Any, steps: tuple[int | str, ...], *, missing: bool) -> str:
    """The place in `value`. pydantic's steps also name the types it tried, which are left out."""
    pointer = ""
    for number, step in enumerate(steps, start=1):
        if _leads_on(value, step):
            value = getattr(value, str(step)) if isinstance(value, BaseModel) else value[step]
        elif not (missing and number == len(steps)):
            continue
        pointer += "/" + str(step).replace("~", "~0").replace("/", "~1")
    return pointer


def _leads_on(value: Any, step: int | str) -> bool:
    if isinstance(value, Mapping):
        return step in value
    if isinstance(value, BaseModel):
        return isinstance(step, str) and hasattr(value, step)
    return isinstance(value, list) and isinstance(step, int) and step < len(value)

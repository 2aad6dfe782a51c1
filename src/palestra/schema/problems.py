"""Describe what a request model rejects, as JSON pointers into the given value.

Messages quote only an excerpt of a bad value, because a row may be very long. Objects are not
quoted at all, because their repr shows internal types rather than the row.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import orjson
from pydantic import BaseModel, ValidationError

from palestra.schema.json_types import JsonObject

LONGEST_QUOTE = 60
"""The maximum number of characters of a bad value that a message quotes."""

LISTED = 5
"""The maximum number of rejected fields in a message; the others are only counted."""


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
    missing = problem["type"] == "missing"
    return RejectedField(
        _pointer(value, problem["loc"], missing=missing),
        str(problem["msg"]),
        "" if missing else in_short(problem.get("input")),
    )


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


def _pointer(value: Any, steps: tuple[int | str, ...], *, missing: bool) -> str:
    """Return the JSON pointer into `value` for pydantic's `steps`. Steps that only name a tried
    type are left out.
    """
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

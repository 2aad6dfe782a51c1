"""Compare function calls: the names must be equal, and the arguments equal by value."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import orjson
from pydantic import Field

from palestra.schema import FunctionCall, JsonDict, JsonObject, WireModel

DEEPEST = 200
"""The nesting depth that orjson can always write. It fails to write at 255 levels, to read at
1,025."""

_LONG: Final = re.compile(r"\d{19}")
"""Matches 19 digits in a row, as in integers that may not fit into 64 bits."""
LARGEST_KEPT: Final = 2**64
"""Rows hold integers of this size or more as floats, because a usual JSON parser has read them."""


class ExpectedCall(WireModel):
    """A call that the right answer contains, as rows state it."""

    name: str = Field(min_length=1)
    arguments: JsonDict = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Called:
    """A call that the model made. `arguments` is None when they are not a JSON object."""

    name: str

    arguments: JsonObject | None
    """The arguments for reports: integers of more than 64 bits have become floats."""

    exact: JsonObject | None
    """The arguments for comparison: every integer is exact."""

    @classmethod
    def of(cls, call: FunctionCall) -> "Called":
        """Build a `Called` from a function call item of a trajectory."""
        text = call.arguments
        return cls(call.name, json_object(text), exact_object(text))

    def is_call(self, name: str, arguments: JsonObject) -> bool:
        """Whether the model called the tool `name` with exactly these arguments."""
        if self.exact is None:
            return False
        return self.name == name and same_value(arguments, self.exact)


def json_object(text: str) -> JsonObject | None:
    """Parse `text` as a JSON object; None when it is anything else. Empty text counts as `{}`.

    Also None when the object is nested so deeply that it can be read but not written again.
    """
    try:
        value = orjson.loads(text or "{}")
        if text.count("[") + text.count("{") > DEEPEST:
            orjson.dumps(value)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    return value if isinstance(value, dict) else None


def exact_object(text: str) -> JsonObject | None:
    """Parse `text` as `json_object` does, but keep every integer exact, even over 64 bits."""
    value = json_object(text)
    if value is None or not _LONG.search(text):
        return value
    exact: JsonObject = json.loads(text)
    return exact


def same_value(expected: Any, actual: Any) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0 but not true. Order matters in lists only.

    The recursion goes no deeper than `expected`, so a model's arguments cannot exhaust the stack.
    """
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and expected.keys() == actual.keys()
            and all(same_value(value, actual[name]) for name, value in expected.items())
        )
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(expected) == len(actual)
            and all(map(same_value, expected, actual))
        )
    if isinstance(expected, float) and isinstance(actual, int) and abs(actual) >= LARGEST_KEPT:
        return expected == float(actual)
    return not isinstance(actual, dict | list) and bool(expected == actual)

"""Function calls as environments compare them: name, and arguments by value."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import orjson
from pydantic import Field

from palestra.schema import FunctionCall, JsonDict, JsonObject, WireModel

DEEPEST = 200
"""Levels that the encoder surely writes; it gives up at 255, the decoder at 1,025."""

_LONG: Final = re.compile(r"\d{19}")
"""What an integer has that does not fit into 64 bits, and others may have."""
LARGEST_KEPT: Final = 2**64
"""Integers from here on are floats in rows, which have been read as JSON is read everywhere."""


class ExpectedCall(WireModel):
    """A call that belongs to the answer, as rows write it."""

    name: str = Field(min_length=1)
    arguments: JsonDict = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Called:
    """A call as the model made it. `arguments` is None when they are no JSON object."""

    name: str

    arguments: JsonObject | None
    """To be reported: integers of more than 64 bits have become floats."""

    exact: JsonObject | None
    """To be compared: every integer digit for digit."""

    @classmethod
    def of(cls, call: FunctionCall) -> "Called":
        """What an item of a trajectory says."""
        text = call.arguments
        return cls(call.name, json_object(text), exact_object(text))

    def is_call(self, name: str, arguments: JsonObject) -> bool:
        """Whether it is that call: the same tool with the same arguments."""
        if self.exact is None:
            return False
        return self.name == name and same_value(arguments, self.exact)


def json_object(text: str) -> JsonObject | None:
    """The object that `text` is as JSON; None when it is anything else. Empty text is `{}`.

    None too when it is nested so deeply that it could be read but not reported.
    """
    try:
        value = orjson.loads(text or "{}")
        if text.count("[") + text.count("{") > DEEPEST:
            orjson.dumps(value)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    return value if isinstance(value, dict) else None


def exact_object(text: str) -> JsonObject | None:
    """`json_object` with every integer as it is written; they may have more than 64 bits."""
    value = json_object(text)
    if value is None or not _LONG.search(text):
        return value
    exact: JsonObject = json.loads(text)
    return exact


def same_value(expected: Any, given: Any) -> bool:
    """JSON equality: 1 is 1.0 and not true; order matters in lists and not in objects.

    It goes no deeper than `expected`, so nothing that a model writes can exhaust the stack.
    """
    if isinstance(expected, bool) or isinstance(given, bool):
        return expected is given
    if isinstance(expected, dict):
        return (
            isinstance(given, dict)
            and expected.keys() == given.keys()
            and all(same_value(value, given[name]) for name, value in expected.items())
        )
    if isinstance(expected, list):
        return (
            isinstance(given, list)
            and len(expected) == len(given)
            and all(map(same_value, expected, given))
        )
    if isinstance(expected, float) and isinstance(given, int) and abs(given) >= LARGEST_KEPT:
        return expected == float(given)
    return not isinstance(given, dict | list) and bool(expected == given)

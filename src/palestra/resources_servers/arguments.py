"""Function calls as environments compare them: name, and arguments by value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from palestra.schema import FunctionCall

DEEPEST = 200
"""Levels that the encoder surely writes; it gives up at 255, the decoder at 1,025."""


@dataclass(frozen=True, slots=True)
class Called:
    """A call as the model made it. `arguments` is None when they are no JSON object."""

    name: str
    arguments: Mapping[str, Any] | None

    @classmethod
    def of(cls, call: FunctionCall) -> "Called":
        """What an item of a trajectory says."""
        return cls(call.name, json_object(call.arguments))

    def is_call(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether it is that call: the same tool with the same arguments."""
        if self.arguments is None:
            return False
        return self.name == name and same_value(arguments, self.arguments)


def json_object(text: str) -> Mapping[str, Any] | None:
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
    return not isinstance(given, dict | list) and bool(expected == given)

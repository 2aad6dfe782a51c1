"""The schema that a prompt states, for rows that have none beside it.

Rollouts recorded by early versions keep no field of their rows but the prompt, whose text ends
with the schema, or with its properties alone.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from palestra.schema import Message, ResponseCreateParams

_SCHEMA: Final = re.compile("schema", re.IGNORECASE)
_MOST_TRIES: Final = 50
_KEYWORDS: Final = frozenset({"$ref", "anyOf", "allOf", "oneOf", "properties", "items"})


def schema_in_prompt(params: ResponseCreateParams) -> dict[str, JsonValue] | None:
    """The last schema that follows the word in one of the messages; None when there is none.

    Properties that stand alone are those of an object that needs all of them and takes no other.
    """
    for text in reversed(list(_texts(params))):
        for start in _starts(text):
            found = _object_at(text, start)
            if found is not None and _is_schema(found):
                return found
            if found and all(
                isinstance(each, dict) and _is_schema(each) for each in found.values()
            ):
                names: list[JsonValue] = list(found)
                return {
                    "type": "object",
                    "properties": found,
                    "required": names,
                    "additionalProperties": False,
                }
    return None


def _texts(params: ResponseCreateParams) -> Iterator[str]:
    if isinstance(params.input, str):
        yield params.input
        return
    for item in params.input:
        if isinstance(item, Message):
            yield item.text


def _starts(text: str) -> list[int]:
    """Where an object may start that the word announces, the last first."""
    places = (text.find("{", match.end()) for match in _SCHEMA.finditer(text))
    return sorted({place for place in places if place >= 0}, reverse=True)[:_MOST_TRIES]


def _object_at(text: str, start: int) -> dict[str, JsonValue] | None:
    try:
        found, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_schema(found: dict[str, JsonValue]) -> bool:
    return isinstance(found.get("type"), str | list) or not _KEYWORDS.isdisjoint(found)

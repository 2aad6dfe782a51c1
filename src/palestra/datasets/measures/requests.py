"""What is counted in a row's request: words of its JSON, users' turns, and who equals whom.

The words are those of `json.dumps`, without making that text: it has one blank after each comma and
each colon between values, and otherwise only the blanks that its strings hold.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

_CACHED: Final = 256
"""Different lists of tools that are remembered. Most datasets have one."""


class Walk:
    """Words and digests of JSON values, in one go. Remembers those of tools seen before."""

    def __init__(self) -> None:
        self._tools: dict[bytes, tuple[int, int]] = {}

    def of_request(self, params: Mapping[str, Any]) -> tuple[int, int]:
        """The words of a request's JSON text, and a digest that equal requests share."""
        gaps, parts = max(2 * len(params) - 1, 0), []
        for key, value in params.items():
            inner, digest = self._of_tools(value) if key == "tools" else measured(value)
            gaps += inner + (_gaps_in(key) if " " in key else 0)
            parts.append((key, digest))
        return 1 + gaps, hash(frozenset(parts))

    def _of_tools(self, tools: Any) -> tuple[int, int]:
        if not tools:
            return measured(tools)
        text = orjson.dumps(tools)
        found = self._tools.get(text)
        if found is None:
            if len(self._tools) >= _CACHED:
                self._tools.clear()
            found = self._tools[text] = measured(tools)
        return found


def measured(value: Any) -> tuple[int, int]:
    """The blanks within a value's JSON text, each run as one; and a digest of the value.

    The order of an object's keys does not matter to the digest. A number, a truth value and a text
    are never the same.
    """
    kind = type(value)
    if kind is str:
        return (_gaps_in(value) if " " in value else 0), hash(value)
    if kind is dict:
        gaps, parts = max(2 * len(value) - 1, 0), []
        for key, held in value.items():
            inner, digest = measured(held)
            gaps += inner + (_gaps_in(key) if " " in key else 0)
            parts.append((key, digest))
        return gaps, hash(frozenset(parts))
    if kind is list:
        gaps, digests = max(len(value) - 1, 0), []
        for held in value:
            inner, digest = measured(held)
            gaps += inner
            digests.append(digest)
        return gaps, hash(("list", *digests))
    return 0, hash((kind.__name__, value))


def _gaps_in(text: str) -> int:
    """Runs of blanks. No other white space is left in JSON text: it is written as an escape."""
    while "  " in text:
        text = text.replace("  ", " ")
    return text.count(" ")


def user_texts(params: Mapping[str, Any]) -> Iterator[Any]:
    """What users say in a request: texts, or what stands for them."""
    given = params.get("input", "")
    if isinstance(given, str):
        yield given
        return
    for item in given:
        if isinstance(item, Mapping) and item.get("role") == "user":
            content = item.get("content")
            yield content if isinstance(content, str) else measured(content)


def all_text(params: Mapping[str, Any]) -> str:
    """What a model reads of a request: instructions, and the texts of its messages."""
    return "\n".join(filter(None, [params.get("instructions"), *_texts(params.get("input"))]))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Mapping):
        for name in ("content", "text", "arguments", "output", "summary"):
            yield from _texts(value.get(name))

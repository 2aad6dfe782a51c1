"""Finds a key that a JSON object has twice. Decoders keep the last value, and drop the others without
a word.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import orjson

_ESCAPED_COLONS: Final = (b"\\u003a", b"\\u003A")
"""Where one of these is, colons cannot be counted."""


def repeated_key(text: bytes, value: Any) -> str:
    """Return the JSON pointer of a key that is twice in one object of `text`; empty when there is none.

    `value`: what `text` is decoded to. A text in which no key is repeated has as many colons as its
    value, written again: this takes about as long as decoding. Only a text with more is searched.
    """
    try:
        written = orjson.dumps(value)
    except orjson.JSONEncodeError:  # deeper than it is written
        written = b""
    is_countable = not any(escape in text for escape in _ESCAPED_COLONS)
    if is_countable and text.count(b":") == written.count(b":"):
        return ""
    return next(_pointers(_decoded(text)), "")


class _Repeated(dict[str, Any]):
    """An object with a key that is there twice: `key`."""

    key = ""


def _decoded(text: bytes) -> Any:
    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) == len(pairs):
            return fields
        names = [name for name, _ in pairs]
        repeated = _Repeated(fields)
        repeated.key = next(name for name in names if names.count(name) > 1)
        return repeated

    try:
        return json.loads(text, object_pairs_hook=made)
    except (ValueError, RecursionError):
        return None


def _pointers(value: Any, pointer: str = "") -> Iterator[str]:
    """Yield the pointer of each repeated key."""
    if isinstance(value, _Repeated):
        yield f"{pointer}/{value.key}"
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, item in items:
        yield from _pointers(item, f"{pointer}/{step}")

"""The text of a recorded failure, in which the table looks: the way of the call, and what the
innermost server said.
"""

import ast
import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from palestra.schema import JsonObject

DEEPEST: Final = 20
"""Largest number of quoting layers that are removed."""


def one_line(text: str) -> str:
    """Return `text` without line breaks."""
    return " ".join(text.split())


_INNER: Final = re.compile(r"calling an inner server: (b?)(['\"])(.*)\2", re.DOTALL)
_SAYING: Final = ("error", "detail", "message", "msg")


def innermost(text: str) -> str:
    """Return the innermost text of a message that quotes other messages.

    Some servers respond with the body of the server that they called, as a literal within JSON
    within a literal. Of a JSON error only the message is returned.
    """
    for _ in range(DEEPEST):
        inner = _unwrapped(text)
        if inner is None or inner == text:
            break
        text = inner
    return one_line(text)


def _unwrapped(text: str) -> str | None:
    """Return `text` without one layer of quoting; None when there is none."""
    if match := _INNER.search(text):
        literal = f"{match[1]}{match[2]}{match[3]}{match[2]}"
        try:
            value = ast.literal_eval(literal)
        except (SyntaxError, ValueError):
            return match[3]
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    stripped = text.strip()
    if not stripped.startswith(("{", "[", '"')):
        return None
    try:
        return _sentence(orjson.loads(stripped))
    except orjson.JSONDecodeError:
        return None


def _sentence(value: Any) -> str | None:
    """Return the message in the body of an error; None when there is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        return _sentence(value[0])
    if isinstance(value, Mapping):
        sentences = (_sentence(value[name]) for name in _SAYING if value.get(name))
        return next(filter(None, sentences), None)
    return None


def failure_text(hops: Any, message: str) -> str:
    """Return a recorded failure in one line: the servers that the call passed, and what the
    innermost said. `hops`: as recorded.
    """
    recorded = hops if isinstance(hops, list) else []
    passed = [hop for hop in recorded if isinstance(hop, Mapping)]
    return ": ".join(filter(None, [chain(passed), innermost(message)]))


def chain(hops: list[JsonObject]) -> str:
    """Return the servers of a failed call: `agent/run > environment/verify > judge/v1/responses`.

    The endpoint behind a model server is not included: the message names it.
    """
    names: list[str] = []
    servers: set[str] = set()
    for hop in hops:
        server, url = str(hop.get("server", "")), str(hop.get("url", ""))
        path = "/" + url.split("://", 1)[-1].partition("/")[2]
        if server in servers and names[-1].startswith(f"{server}/"):
            continue
        servers.add(server)
        names.append(f"{server}{path}")
    return " > ".join(names)

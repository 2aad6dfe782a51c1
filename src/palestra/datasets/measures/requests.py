"""What is counted in a row's request: words of its JSON, users' turns, and who equals whom.

The words are those of `json.dumps`, without making that text: it has one blank after each comma and
each colon between values, and otherwise only the blanks that its strings hold. Those of many
requests are counted at once.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

_CACHED: Final = 256
"""Different lists of tools that are remembered. Most datasets have one."""
_BLOCK: Final = 64
_BLANK: Final = ord(" ")


class Requests:
    """Requests of one batch: taken one by one, counted together."""

    def __init__(self, tools: "KnownTools") -> None:
        self._tools = tools
        self._texts: list[bytes] = []
        self._gaps: list[int] = []
        self.digests: list[int] = []
        """One for each, shared by equal ones: keys in any order, `true` as 1."""

    def add(self, params: Mapping[str, Any]) -> None:
        """Take one request."""
        tools = params.get("tools")
        if tools:
            known = self._tools.of(tools)
            params = {**params, "tools": known.digest}
        texts: list[str] = []
        gaps, digest = _measured(params, texts)
        self._gaps.append(gaps + known.gaps if tools else gaps)
        self.digests.append(digest)
        text = "\0".join(texts).encode()
        # Whole blocks, which end in something that is no blank.
        self._texts.append(text.ljust((len(text) // _BLOCK + 1) * _BLOCK, b"\0"))

    def words(self) -> list[int]:
        """The words of each request's JSON text."""
        if not self._texts:
            return []
        counts = _gaps_within(self._texts) + np.asarray(self._gaps) + 1
        return list(map(int, counts))


class _Tools:
    """What one list of tools adds to every request that has it."""

    __slots__ = ("digest", "gaps")

    def __init__(self, tools: Any) -> None:
        texts: list[str] = []
        gaps, self.digest = _measured([tools], texts)
        self.gaps = gaps + sum(_gaps_in(text) for text in texts)


class KnownTools:
    """Lists of tools that came by already."""

    def __init__(self) -> None:
        self._known: dict[bytes, _Tools] = {}

    def of(self, tools: Any) -> _Tools:
        """Its measures."""
        text = orjson.dumps(tools)
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            found = self._known[text] = _Tools(tools)
        return found


def _measured(value: Any, texts: list[str]) -> tuple[int, int]:
    """The blanks between the values in an object or list, and a digest. Its texts go to `texts`."""
    nested: dict[Any, int] = {}
    if isinstance(value, list):
        gaps = len(value) - 1 if value else 0
        items: Any = enumerate(value)
    else:
        gaps = 2 * len(value) - 1 if value else 0
        items = value.items()
    for key, held in items:
        kind = type(held)
        if kind is str:
            texts.append(held)
        elif kind is dict or kind is list:
            inner, nested[key] = _measured(held, texts)
            gaps += inner
    if isinstance(value, list):
        return gaps, hash(("list", *(nested.get(at, held) for at, held in enumerate(value))))
    texts += [key for key in value if " " in key]
    return gaps, hash(frozenset(({**value, **nested} if nested else value).items()))


def digest_of(value: Any) -> int:
    """A digest that equal JSON values share."""
    return _measured([value], [])[1]


def _gaps_in(text: str) -> int:
    """Runs of blanks. No other white space is left in JSON text: it is written as an escape."""
    while "  " in text:
        text = text.replace("  ", " ")
    return text.count(" ")


def _gaps_within(texts: list[bytes]) -> npt.NDArray[np.int64]:
    """`_gaps_in` of each of them; they consist of whole blocks."""
    blanks = np.frombuffer(b"".join(texts), np.uint8) == _BLANK
    begins = blanks.copy()
    begins[1:] &= ~blanks[:-1]
    in_blocks = np.bitwise_count(np.packbits(begins).view(np.uint64))
    blocks = np.fromiter(map(len, texts), np.int64) // _BLOCK
    return np.add.reduceat(in_blocks, np.cumsum(blocks) - blocks, dtype=np.int64)


def user_texts(params: Mapping[str, Any]) -> Iterator[Any]:
    """What users say in a request: texts, or what stands for them."""
    given = params.get("input", "")
    if isinstance(given, str):
        yield given
        return
    for item in given:
        if isinstance(item, Mapping) and item.get("role") == "user":
            content = item.get("content")
            yield content if isinstance(content, str) else digest_of(content)


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

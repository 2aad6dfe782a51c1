"""What is counted in a row's request: words of its JSON, users' turns, and who equals whom.

The words are those of `json.dumps`, without making that text: it has one blank after each comma and
each colon between values, and otherwise only the blanks that its strings hold. Those of many
requests are counted at once.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
from xxhash import xxh3_64_intdigest

_BLOCK: Final = 64
_BLANK: Final = ord(" ")


class Requests:
    """Requests of one batch: taken one by one, counted together."""

    def __init__(self) -> None:
        self._strings: list[bytes] = []
        self._gaps: list[int] = []
        self.digests: list[int] = []
        """One for each, shared by equal ones, whatever the order of their keys."""

    def add(self, params: Mapping[str, Any]) -> None:
        """Take one request."""
        text = _compact(params)
        self.digests.append(xxh3_64_intdigest(text))
        if b"\\" in text:
            # Of an escape nothing counts, and a quote must not seem to end its string.
            text = text.replace(b"\\\\", b"xx").replace(b'\\"', b"xx")
        pieces = text.split(b'"')
        between = b"".join(pieces[::2])
        self._gaps.append(between.count(b",") + between.count(b":"))
        strings = b"\0".join(pieces[1::2])
        # Whole blocks, which end in something that is no blank.
        self._strings.append(strings.ljust((len(strings) // _BLOCK + 1) * _BLOCK, b"\0"))

    def words(self) -> list[int]:
        """The words of each request's JSON text."""
        if not self._strings:
            return []
        counts = _gaps_within(self._strings) + np.asarray(self._gaps) + 1
        found: list[int] = counts.tolist()
        return found


def _compact(value: Any) -> bytes:
    """JSON without a blank between values, which equal values share."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # nested deeper than it goes, or a number out of its range
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.encode()


def _gaps_within(texts: list[bytes]) -> npt.NDArray[np.int64]:
    """The runs of blanks in each of them; they consist of whole blocks.

    No other white space is left in JSON text: it is written as an escape.
    """
    blanks = np.frombuffer(b"".join(texts), np.uint8) == _BLANK
    begins = np.empty_like(blanks)
    begins[0] = blanks[0]
    np.greater(blanks[1:], blanks[:-1], out=begins[1:])
    in_blocks = np.bitwise_count(np.packbits(begins).view(np.uint64))
    blocks = np.fromiter(map(len, texts), np.int64) // _BLOCK
    return np.add.reduceat(in_blocks, np.cumsum(blocks) - blocks, dtype=np.int64)


def user_texts(params: Mapping[str, Any]) -> list[str]:
    """What users say in a request: texts, or what stands for them."""
    given = params.get("input", "")
    if isinstance(given, str):
        return [given]
    return [
        content if type(content := item.get("content")) is str else _compact(content).decode()
        for item in given
        if type(item) is dict and item.get("role") == "user"
    ]


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

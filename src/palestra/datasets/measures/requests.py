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

from palestra.schema import JsonObject

Bits = npt.NDArray[np.uint64]
"""One bit for each byte of a text, the first byte's the lowest."""

_BLOCK: Final = 64
_ENDINGS: Final = [b"\0" * ((-size - 1) % _BLOCK + 1) for size in range(_BLOCK)]
"""What makes whole blocks of a text, by its length modulo 64: a byte that is no blank at least."""
_TOP: Final = np.uint64(_BLOCK - 1)
_ONE: Final = np.uint64(1)


class RequestBatch:
    """RequestBatch of one batch: taken one by one, counted together."""

    def __init__(self) -> None:
        self._texts: list[bytes] = []
        self._blocks: list[int] = []
        self.digests: list[int] = []
        """One for each, shared by equal ones, whatever the order of their keys."""

    def add(self, params: JsonObject) -> None:
        """Take one request."""
        text = _compact(params)
        self.digests.append(xxh3_64_intdigest(text))
        if b"\\" in text:
            # Of an escape nothing counts, and a quote must not seem to end its string.
            text = text.replace(b"\\\\", b"xx").replace(b'\\"', b"xx")
        self._texts += text, _ENDINGS[len(text) % _BLOCK]
        self._blocks.append(len(text) // _BLOCK + 1)

    def words(self) -> list[int]:
        """The words of each request's JSON text."""
        if not self._blocks:
            return []
        gaps = np.bitwise_count(_gaps(np.frombuffer(b"".join(self._texts), np.uint8)))
        blocks = np.array(self._blocks, np.int64)
        counts = np.add.reduceat(gaps, np.cumsum(blocks) - blocks, dtype=np.int64) + 1
        found: list[int] = counts.tolist()
        return found


def _compact(value: Any) -> bytes:
    """JSON without a blank between values, which equal values share."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # nested deeper than it goes, or a number out of its range
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.encode()


def _gaps(text: npt.NDArray[np.uint8]) -> Bits:
    """Where a word of the JSON text ends: once for each comma, colon and run of blanks.

    Within strings only blanks count, and only there are any: no other white space is left in JSON
    text, it is written as an escape.
    """
    blanks = _bits(text == ord(" "))
    separators = _bits((text == ord(",")) | (text == ord(":")))
    return (separators & ~_within_strings(_bits(text == ord('"')))) | (blanks & ~_after(blanks))


def _bits(where: npt.NDArray[np.bool_]) -> Bits:
    return np.packbits(where, bitorder="little").view("<u8")


def _after(bits: Bits) -> Bits:
    """The bytes that follow one of `bits`."""
    following = bits << _ONE
    following[1:] |= bits[:-1] >> _TOP
    return following


def _within_strings(quotes: Bits) -> Bits:
    """The bytes from an opening quote on, to before the closing one."""
    inside = quotes.copy()
    for shift in (1, 2, 4, 8, 16, 32):  # each bit becomes the parity of those up to it
        inside ^= inside << np.uint64(shift)
    open_at_end = np.bitwise_xor.accumulate(inside >> _TOP)
    inside[1:] ^= np.uint64(0) - open_at_end[:-1]
    return inside


def user_texts(params: JsonObject) -> list[str]:
    """What users say in a request: texts, or what stands for them."""
    given = params.get("input", "")
    if isinstance(given, str):
        return [given]
    return [
        content if type(content := item.get("content")) is str else _compact(content).decode()
        for item in given
        if type(item) is dict and item.get("role") == "user"
    ]


def all_text(params: JsonObject) -> str:
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

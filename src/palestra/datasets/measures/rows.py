"""Measures of task rows: their requests, and every other field."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from palestra.datasets.measures.digests import as_array
from palestra.datasets.measures.fields import Field, Numbers, Texts
from palestra.schema import CREATE_PARAMS, JsonDict, JsonObject

Bits = npt.NDArray[np.uint64]
"""One bit for each byte of a text; the first byte has the lowest bit."""

_BLOCK: Final = 64
_ENDINGS: Final = [b"\0" * ((-size - 1) % _BLOCK + 1) for size in range(_BLOCK)]
"""The padding that fills a text up to whole blocks, indexed by the text's length modulo 64. It has
at least one byte and contains no space."""
_TOP: Final = np.uint64(_BLOCK - 1)
_ONE: Final = np.uint64(1)


class RequestBatch:
    """A batch of requests. They are added one by one; the words of all are counted in one
    vectorized pass.
    """

    def __init__(self) -> None:
        self._texts: list[bytes] = []
        self._blocks: list[int] = []
        self.digests: list[int] = []
        """One for each, shared by equal ones, whatever the order of their keys."""

    def add(self, params: JsonObject) -> None:
        """Add one request."""
        text = _compact(params)
        self.digests.append(hash(text))
        if b"\\" in text:
            # Of an escape nothing counts, and a quote must not seem to end its string.
            text = text.replace(b"\\\\", b"xx").replace(b'\\"', b"xx")
        self._texts += text, _ENDINGS[len(text) % _BLOCK]
        self._blocks.append(len(text) // _BLOCK + 1)

    def words(self) -> list[int]:
        """Return the number of words in each request's JSON text."""
        if not self._blocks:
            return []
        gaps = np.bitwise_count(_gaps(np.frombuffer(b"".join(self._texts), np.uint8)))
        blocks = np.array(self._blocks, np.int64)
        counts = np.add.reduceat(gaps, np.cumsum(blocks) - blocks, dtype=np.int64) + 1
        word_counts: list[int] = counts.tolist()
        return word_counts


def _compact(value: Any) -> bytes:
    """Return the JSON text without spaces between values and with sorted keys, so equal values give
    equal texts.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # nested deeper than it goes, or a number out of its range
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.encode()


def _gaps(text: npt.NDArray[np.uint8]) -> Bits:
    """Return the word ends in a JSON text: one bit for each comma, each colon, and each run of
    spaces.

    Inside strings only spaces count. JSON text has no spaces outside of strings here, and other
    white space inside strings is escaped.
    """
    blanks = _bits(text == ord(" "))
    separators = _bits((text == ord(",")) | (text == ord(":")))
    return (separators & ~_within_strings(_bits(text == ord('"')))) | (blanks & ~_after(blanks))


def _bits(where: npt.NDArray[np.bool_]) -> Bits:
    return np.packbits(where, bitorder="little").view("<u8")


def _after(bits: Bits) -> Bits:
    """Return the bits of the bytes that follow a byte in `bits`."""
    following = bits << _ONE
    following[1:] |= bits[:-1] >> _TOP
    return following


def _within_strings(quotes: Bits) -> Bits:
    """Return the bits of all bytes inside strings: from the opening quote up to just before the
    closing one.
    """
    inside = quotes.copy()
    for shift in (1, 2, 4, 8, 16, 32):  # each bit becomes the parity of those up to it
        inside ^= inside << np.uint64(shift)
    open_at_end = np.bitwise_xor.accumulate(inside >> _TOP)
    inside[1:] ^= np.uint64(0) - open_at_end[:-1]
    return inside


def user_texts(params: JsonObject) -> list[str]:
    """Return the contents of the user messages in a request. Content that is not text is returned
    as JSON text.
    """
    conversation = params.get("input", "")
    if isinstance(conversation, str):
        return [conversation]
    return [
        content if type(content := item.get("content")) is str else _compact(content).decode()
        for item in conversation
        if type(item) is dict and item.get("role") == "user"
    ]


def all_text(params: JsonObject) -> str:
    """Return the text that a model reads in a request: the instructions and all text of the
    messages.
    """
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


EXAMPLES: Final = "Number of examples"
TOOLS: Final = "Number of tools"
WORDS: Final = "Json-dumped number of words (proxy for token count)"
TURNS: Final = "Number of turns"
TEMPERATURE: Final = "Temperature"
TOKENS: Final = "Number of tokens"
SAMPLING: Final = "Sampling parameters"
REQUESTS: Final = "Unique create params"
USERS: Final = "Unique user messages"
OURS: Final = frozenset({TOKENS, SAMPLING, REQUESTS, USERS})
"""The measures that NeMo Gym's metrics files do not contain."""

_SAMPLED_BY: Final = ("top_p", "top_logprobs", "max_output_tokens", "max_tool_calls")


class RowMeasures:
    """All measures of a set of rows. `count_tokens`: returns the number of tokens of a text; None:
    tokens are not counted.
    """

    def __init__(self, count_tokens: Callable[[str], int] | None = None) -> None:
        self._count_tokens = count_tokens
        self.examples = 0
        self.requests = {name: Numbers() for name in (TOOLS, WORDS, TURNS, TEMPERATURE)}
        self.tokens = Numbers()
        self.sampling: dict[str, Numbers] = {}
        self.params = Texts()
        self.users = Texts()
        self.fields: dict[str, Field] = {}

    def add(self, rows: Sequence[JsonObject]) -> None:
        """Add rows to the measures. Batches of a few thousand rows are fastest."""
        self.examples += len(rows)
        self._add_requests([row.get(CREATE_PARAMS) or {} for row in rows])
        for name, values in _columns(rows).items():
            if name != CREATE_PARAMS:
                self._field(name).add(values)

    def _add_requests(self, requests: Sequence[JsonObject]) -> None:
        batch = RequestBatch()
        users: list[str] = []
        turns: list[int] = []
        for params in requests:
            batch.add(params)
            texts = user_texts(params)
            users += texts
            turns.append(len(texts))
        self.params.add_digests(as_array(batch.digests))
        self.users.add(users)
        self.requests[WORDS].add(batch.words())
        self.requests[TURNS].add(turns)
        tools = [params["tools"] for params in requests if "tools" in params]
        self.requests[TOOLS].add(
            len(tool_list) for tool_list in tools if isinstance(tool_list, list)
        )
        self.requests[TEMPERATURE].add(_numbers(requests, "temperature"))
        if self._count_tokens is not None:
            self.tokens.add([self._count_tokens(all_text(params)) for params in requests])
        for name in _SAMPLED_BY:
            if numbers := _numbers(requests, name):
                self.sampling.setdefault(name, Numbers()).add(numbers)

    def _field(self, name: str) -> Field:
        return self.fields.setdefault(name, Field())

    def merge(self, added: "RowMeasures") -> None:
        """Add the measures of `added`."""
        self.examples += added.examples
        for name, numbers in added.requests.items():
            self.requests[name].merge(numbers)
        for name, numbers in added.sampling.items():
            self.sampling.setdefault(name, Numbers()).merge(numbers)
        self.tokens.merge(added.tokens)
        self.params.merge(added.params)
        self.users.merge(added.users)
        for name, field in added.fields.items():
            self._field(name).merge(field)

    def summary(self) -> JsonDict:
        """Return the measures in the format of metrics files."""
        sampling = {name: self.sampling[name] for name in _SAMPLED_BY if name in self.sampling}
        return {
            EXAMPLES: self.examples,
            **{name: numbers.summary() for name, numbers in self.requests.items()},
            **({TOKENS: self.tokens.summary()} if self.tokens.count else {}),
            SAMPLING: {name: numbers.summary() for name, numbers in sampling.items()},
            REQUESTS: self.params.summary(),
            USERS: self.users.summary(),
            **{name: field.summary() for name, field in self.fields.items() if field},
        }


def _numbers(requests: Iterable[JsonObject], name: str) -> list[float]:
    values = [params[name] for params in requests if name in params]
    return [value for value in values if isinstance(value, int | float)]


def _columns(rows: Sequence[JsonObject]) -> Mapping[str, list[Any]]:
    """Return, for each field name, the list of the rows' values."""
    names = rows[0].keys() if rows else ()
    if all(row.keys() == names for row in rows):
        return {name: [row[name] for row in rows] for name in names}
    columns: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        for name, value in row.items():
            columns[name].append(value)
    return columns

"""Task rows in numbers: their requests, and every further field that they have."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from palestra.datasets.measures.digests import as_array
from palestra.datasets.measures.fields import Field, Texts
from palestra.datasets.measures.numbers import Numbers
from palestra.datasets.measures.requests import RequestBatch, all_text, user_texts
from palestra.schema import CREATE_PARAMS, JsonDict, JsonObject

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
"""What the field's metrics files do not have."""

_SAMPLED_BY: Final = ("top_p", "top_logprobs", "max_output_tokens", "max_tool_calls")


class RowMeasures:
    """All measures of some rows. `count_tokens`: of a text, by the tokenizer that is wanted."""

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
        """Take rows; a few thousand at once is fastest."""
        self.examples += len(rows)
        self._add_requests([row.get(CREATE_PARAMS) or {} for row in rows])
        for name, values in _columns(rows).items():
            if name != CREATE_PARAMS:
                self._field(name).add(values)

    def _add_requests(self, requests: Sequence[JsonObject]) -> None:
        taken = RequestBatch()
        users: list[str] = []
        turns: list[int] = []
        for params in requests:
            taken.add(params)
            said = user_texts(params)
            users += said
            turns.append(len(said))
        self.params.add_digests(as_array(taken.digests))
        self.users.add(users)
        self.requests[WORDS].add(taken.words())
        self.requests[TURNS].add(turns)
        tools = [params["tools"] for params in requests if "tools" in params]
        self.requests[TOOLS].add(len(given) for given in tools if isinstance(given, list))
        self.requests[TEMPERATURE].add(_numbers(requests, "temperature"))
        if self._count_tokens is not None:
            self.tokens.add([self._count_tokens(all_text(params)) for params in requests])
        for name in _SAMPLED_BY:
            if found := _numbers(requests, name):
                self.sampling.setdefault(name, Numbers()).add(found)

    def _field(self, name: str) -> Field:
        return self.fields.setdefault(name, Field())

    def merge(self, other: "RowMeasures") -> None:
        """Take all that `other` has taken."""
        self.examples += other.examples
        for name, numbers in other.requests.items():
            self.requests[name].merge(numbers)
        for name, numbers in other.sampling.items():
            self.sampling.setdefault(name, Numbers()).merge(numbers)
        self.tokens.merge(other.tokens)
        self.params.merge(other.params)
        self.users.merge(other.users)
        for name, field in other.fields.items():
            self._field(name).merge(field)

    def summary(self) -> JsonDict:
        """As metrics files hold it."""
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
    """What the rows hold under each name."""
    names = rows[0].keys() if rows else ()
    if all(row.keys() == names for row in rows):
        return {name: [row[name] for row in rows] for name in names}
    columns: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        for name, value in row.items():
            columns[name].append(value)
    return columns

"""A dataset in numbers, as `example_metrics.json` and its like hold them.

The layout is the field's: `Number of examples`, four statistics of the requests, then one entry
per further field of the rows. Texts are counted, numbers summed up, lists flattened; objects are
left out.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import Any, Final

from palestra.schema import CREATE_PARAMS

TOOLS: Final = "Number of tools"
WORDS: Final = "Json-dumped number of words (proxy for token count)"
TURNS: Final = "Number of turns"
TEMPERATURE: Final = "Temperature"
EXAMPLES: Final = "Number of examples"

LARGE_TOLERANCE: Final = 5e-3
"""For numbers from 1 on; they are rounded to 2 places."""
SMALL_TOLERANCE: Final = 5e-4
"""For smaller ones; they are rounded to 3."""

DatasetMetrics = dict[str, Any]


@dataclass(slots=True)
class _Field:
    """The values of one field over all rows."""

    numbers: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, value: Any) -> None:
        for leaf in _leaves(value):
            if isinstance(leaf, str):
                self.texts.append(leaf)
            else:
                self.numbers.append(float(leaf))

    def summary(self) -> dict[str, Any]:
        if self.texts:
            return {"unique_count": len(Counter(self.texts)), "total_count": len(self.texts)}
        return _statistics(self.numbers)


def metrics_of(rows: Iterable[Mapping[str, Any]]) -> DatasetMetrics:
    """The numbers of a dataset."""
    requests: dict[str, _Field] = {name: _Field() for name in (TOOLS, WORDS, TURNS, TEMPERATURE)}
    others: dict[str, _Field] = {}
    count = 0
    for row in rows:
        count += 1
        for name, value in _of_request(row.get(CREATE_PARAMS) or {}).items():
            requests[name].add(value)
        for name, value in row.items():
            if name != CREATE_PARAMS and any(True for _ in _leaves(value)):
                others.setdefault(name, _Field()).add(value)
    return {
        EXAMPLES: count,
        **{name: _statistics(found.numbers) for name, found in requests.items()},
        **{name: found.summary() for name, found in others.items()},
    }


def _of_request(params: Mapping[str, Any]) -> dict[str, Any]:
    given = params.get("input", "")
    users = 1 if isinstance(given, str) else sum(_is_users(item) for item in given)
    found: dict[str, Any] = {
        WORDS: len(json.dumps(params).split()),
        TURNS: users,
    }
    if isinstance(params.get("tools"), list):
        found[TOOLS] = len(params["tools"])
    if params.get("temperature") is not None:
        found[TEMPERATURE] = params["temperature"]
    return found


def _is_users(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("role") == "user"


def _leaves(value: Any) -> Iterator[str | float]:
    """The texts and numbers in a value; of lists in lists, and of objects, none."""
    for leaf in value if isinstance(value, list) else [value]:
        if isinstance(leaf, str | int | float):
            yield leaf


def _statistics(numbers: list[float]) -> dict[str, Any]:
    spread = stdev(numbers) if len(numbers) > 1 else 0.0
    low, high = (min(numbers), max(numbers)) if numbers else (0.0, 0.0)
    return {
        "Total # non-null values": len(numbers),
        "Average": _rounded(mean(numbers) if numbers else 0.0),
        "Min": _rounded(low),
        "Max": _rounded(high),
        "Standard deviation": _rounded(spread),
    }


def _rounded(value: float) -> float:
    return round(value, 2 if abs(value) >= 1 else 3)


def differences(stored: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """What of `found` the stored numbers contradict or lack; they may hold more."""
    return [
        problem
        for name, value in found.items()
        for problem in (
            _differing(name, stored[name], value) if name in stored else [f"{name}: is missing"]
        )
    ]


def _differing(name: str, stored: Any, found: Any) -> list[str]:
    if isinstance(found, Mapping) and isinstance(stored, Mapping):
        return [f"{name}: {problem}" for problem in differences(stored, found)]
    if _is_number(stored) and _is_number(found):
        scale = max(abs(stored), abs(found))
        tolerance = LARGE_TOLERANCE if scale >= 1 else SMALL_TOLERANCE
        close = math.isclose(stored, found, rel_tol=0.0, abs_tol=tolerance * 1.001)
        return [] if close else [f"{name}: {stored} is stored, {found} was found"]
    return [] if stored == found else [f"{name}: {stored!r} is stored, {found!r} was found"]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

"""The metrics of a dataset, in the format of `example_metrics.json` and similar files.

The layout is NeMo Gym's: `Number of examples`, four statistics of the requests, then one entry per
other field of the rows. Texts are counted, numbers summarized, lists flattened, objects ignored.
"""

import json
import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from palestra.datasets.measures.rows import OURS, TOKENS, RowMeasures
from palestra.schema import JsonDict, JsonObject

LARGE_TOLERANCE: Final = 5e-3
"""The tolerance for numbers of at least 1, which are rounded to 2 decimal places."""
SMALL_TOLERANCE: Final = 5e-4
"""The tolerance for numbers below 1, which are rounded to 3 decimal places."""
AT_ONCE: Final = 4096

NO_LONGER_MADE: Final = frozenset({"Median"})
"""Statistics that only older NeMo Gym metrics files contain."""
MAY_BE_MISSING: Final = frozenset({TOKENS})
"""Measures that are present only when requested."""

DatasetMetrics = JsonDict


def metrics_of(rows: Iterable[JsonObject]) -> DatasetMetrics:
    """Return a dataset's metrics in NeMo Gym's layout."""
    measures = RowMeasures()
    remaining = iter(rows)
    while batch := list(islice(remaining, AT_ONCE)):
        measures.add(batch)
    return {name: measure for name, measure in measures.summary().items() if name not in OURS}


def contradictions(stored: JsonObject, metrics: JsonObject) -> list[str]:
    """Return how the new metrics differ from the stored ones: other values, or names that are
    missing in the new ones. Additional new names are allowed.
    """
    problems: list[str] = []
    for name, value in stored.items():
        if value is None or name in NO_LONGER_MADE:
            continue
        counterpart = metrics.get(name)
        if counterpart is None:
            if name not in MAY_BE_MISSING:
                problems.append(f"{name}: is stored, and was not found")
        elif isinstance(value, Mapping) and isinstance(counterpart, Mapping):
            problems += [f"{name}: {problem}" for problem in contradictions(value, counterpart)]
        elif isinstance(value, list) and isinstance(counterpart, list):
            if sorted(map(_text, value)) != sorted(map(_text, counterpart)):
                problems.append(f"{name}: {value} is stored, {counterpart} was found")
        else:
            problems += _differing(name, value, counterpart)
    return problems


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def differences(stored: JsonObject, metrics: JsonObject) -> list[str]:
    """Return how the stored metrics differ from `metrics`: other values, or missing names.
    Additional stored names are allowed.
    """
    return [
        problem
        for name, value in metrics.items()
        for problem in (
            _differing(name, stored[name], value) if name in stored else [f"{name}: is missing"]
        )
    ]


def _differing(name: str, stored: Any, value: Any) -> list[str]:
    if isinstance(value, Mapping) and isinstance(stored, Mapping):
        return [f"{name}: {problem}" for problem in differences(stored, value)]
    if _is_number(stored) and _is_number(value):
        scale = max(abs(stored), abs(value))
        tolerance = LARGE_TOLERANCE if scale >= 1 else SMALL_TOLERANCE
        close = math.isclose(stored, value, rel_tol=0.0, abs_tol=tolerance * 1.001)
        return [] if close else [f"{name}: {stored} is stored, {value} was found"]
    return [] if stored == value else [f"{name}: {stored!r} is stored, {value!r} was found"]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

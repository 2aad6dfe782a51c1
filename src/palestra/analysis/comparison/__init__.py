"""Whether one run beats another: paired by task, with intervals, tests and what is missing.

`load_side` reads a run, `pair` matches the tasks of two and refuses what does not match, `compare`
is pure statistics over the pairs, `judge` turns it into the answer of a gate.
"""

from palestra.analysis.comparison.compare import compare
from palestra.analysis.comparison.pairing import (
    Pairs,
    Side,
    load_side,
    pair,
    refuse_shared_files,
    settings_that_differ,
)
from palestra.analysis.comparison.result import (
    Comparison,
    Gate,
    McNemar,
    MetricComparison,
    Regression,
    Requested,
    RunCounts,
    judge,
)

__all__ = [
    "Comparison",
    "Gate",
    "McNemar",
    "MetricComparison",
    "Pairs",
    "Regression",
    "Requested",
    "RunCounts",
    "Side",
    "compare",
    "judge",
    "load_side",
    "pair",
    "refuse_shared_files",
    "settings_that_differ",
]

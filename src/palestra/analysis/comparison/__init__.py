"""Whether one run beats another: paired by task, with intervals, tests and what is missing.

`load_side` reads a run, `pair_tasks` matches the tasks of two and refuses what does not match, `comparison_of`
is pure statistics over the pairs, `judge_comparison` turns it into the answer of a gate.
"""

from palestra.analysis.comparison.compare import comparison_of
from palestra.analysis.comparison.pairing import (
    ComparedRun,
    Pairs,
    load_side,
    pair_tasks,
    refuse_shared_files,
    settings_that_differ,
)
from palestra.analysis.comparison.result import (
    Comparison,
    McNemar,
    MetricComparison,
    Regression,
    RegressionGate,
    Requested,
    RunCounts,
    judge_comparison,
)

__all__ = [
    "ComparedRun",
    "Comparison",
    "McNemar",
    "MetricComparison",
    "Pairs",
    "Regression",
    "RegressionGate",
    "Requested",
    "RunCounts",
    "comparison_of",
    "judge_comparison",
    "load_side",
    "pair_tasks",
    "refuse_shared_files",
    "settings_that_differ",
]

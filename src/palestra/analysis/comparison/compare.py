"""Computes the statistics of two paired runs and tests whether they differ. Returns a `Comparison`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from palestra.analysis.comparison.pairing import ComparedRun, Pairs, settings_that_differ
from palestra.analysis.comparison.result import (
    Comparison,
    McNemar,
    MetricComparison,
    Regression,
    Requested,
    RunCounts,
)
from palestra.analysis.frame import NO_OUTCOME, SCORED, SCORED_CODE, RunFrame, counts_by_name
from palestra.analysis.intervals import CELLS_AT_ONCE, SEED, UNIT, estimate_difference
from palestra.analysis.load import LARGEST_VALUE
from palestra.analysis.selection.export import rewards_digest, selected_from
from palestra.analysis.views import (
    Metric,
    parse_metric,
    reward_range,
    task_values,
    task_values_filled,
)
from palestra.config import did_you_mean
from palestra.errors import InputDataError
from palestra.metrics import (
    REWARD,
    FloatArray,
    IntArray,
    component_fields,
    difference_of_means,
)

FLIPS = 9_999
ENUMERATED = 14
"""For up to this many tasks that differ, all sign patterns are counted."""
LEVEL = 0.05
POWER = 0.8


def sign_flip_p(differences: FloatArray, *, flips: int = FLIPS, seed: int = SEED) -> float:
    """Return the two-sided p-value of the sign-flip test that neither run is better, clustered by
    task.

    Under this hypothesis, each task's difference is as likely to have the opposite sign. The
    p-value is the share of sign patterns whose total is further from zero than the observed total;
    patterns with an equally distant total count half (mid-p: Lancaster 1961; Fagerland, Lydersen
    and Laake 2013). With one binary rollout per task it equals McNemar's mid-p test. For up to
    `ENUMERATED` tasks that differ, all patterns are counted, else `flips` random patterns.
    """
    sizes = np.abs(differences[differences != 0])
    observed = abs(float(differences.sum()))
    if not len(sizes):
        return 1.0
    if len(sizes) <= ENUMERATED:
        totals = _every_total(sizes)
        return float(_mid_p(totals, observed, sizes) / len(totals))
    totals = _random_totals(np.random.default_rng(seed), sizes, flips)
    return float((_mid_p(totals, observed, sizes) + 0.5) / (flips + 1))


def mcnemar_p(only_a: int, only_b: int) -> float:
    """Return the exact two-sided p-value of McNemar's test (McNemar 1947), computed with integers.

    `only_a`, `only_b`: the number of tasks that only run A, or only run B, solved. With n =
    `only_a` + `only_b`, the p-value is twice the probability of at most min(`only_a`, `only_b`)
    heads in n tosses of a fair coin, and at most 1.
    """
    discordant = only_a + only_b
    term = tail = 1
    for number_flipped in range(min(only_a, only_b)):
        term = term * (discordant - number_flipped) // (number_flipped + 1)
        tail += term
    return min(1.0, 2 * tail / (1 << discordant))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for multiple tests (Holm 1979), in the order given.

    The i-th smallest of m p-values is multiplied by m - i + 1. It is raised to the adjusted value
    of the next smaller p-value if it would be below it, and is at most 1.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def minimum_detectable(standard_error: float) -> float:
    """Return the smallest true difference that a test at the 5 % level detects with 80 %
    probability.

    (z(1 - 0.05/2) + z(0.8)) * standard error = 2.80 standard errors (Bloom 1995; Miller 2024,
    "Adding Error Bars to Evals", section 5).
    """
    normal = NormalDist()
    return (normal.inv_cdf(1 - LEVEL / 2) + normal.inv_cdf(POWER)) * standard_error


def _mid_p(totals: FloatArray, observed: float, sizes: FloatArray) -> float:
    """Return the number of totals further from zero than `observed`; totals equally far count half."""
    tolerance = 1e-9 * float(sizes.sum())
    distance = np.abs(totals)
    further = np.count_nonzero(distance > observed + tolerance)
    as_far = np.count_nonzero(distance >= observed - tolerance) - further
    return further + as_far / 2


def _every_total(sizes: FloatArray) -> FloatArray:
    totals = np.zeros(1)
    for size in sizes.tolist():
        totals = np.concatenate([totals - size, totals + size])
    return totals


def _random_totals(random: np.random.Generator, sizes: FloatArray, flips: int) -> FloatArray:
    """Return `flips` totals of `sizes` with random signs; each sign uses one random bit."""
    at_once = max(1, CELLS_AT_ONCE // len(sizes))
    parts = []
    for first in range(0, flips, at_once):
        shape = (min(at_once, flips - first), len(sizes))
        packed = np.frombuffer(random.bytes(-(-shape[0] * shape[1] // 8)), dtype=np.uint8)
        plus = np.unpackbits(packed, count=shape[0] * shape[1]).reshape(shape)
        parts.append(2 * (plus.astype(np.float64) @ sizes) - sizes.sum())
    return np.concatenate(parts)


MOST_REGRESSIONS = 10


def comparison_of(
    a: ComparedRun, b: ComparedRun, pairs: Pairs, *, metrics: Sequence[str] = ()
) -> Comparison:
    """Compare the reward, its components in both runs, and `metrics` (numeric fields, `pass@k`) of
    two runs, task by task.

    Raises ConfigError: neither run has the metric. Raises InputDataError: no paired task has the
    metric in both runs.
    """
    of_b = component_fields(b.frame.rollouts.columns)
    components = [
        field
        for component, field in component_fields(a.frame.rollouts.columns).items()
        if component in of_b
    ]
    names = dict.fromkeys([REWARD, *components, *metrics])
    fields = {*a.frame.rollouts.columns.values, *b.frame.rollouts.columns.values}
    paired = _Paired(a, b, pairs)
    metric_results = [paired.metric(parse_metric(name, fields)) for name in names]
    adjusted = holm([metric.p_value for metric in metric_results])
    reward = paired.scored(Metric(REWARD))
    change = reward.difference
    return Comparison(
        a=_counts(a),
        b=_counts(b),
        tasks=len(pairs.tasks),
        settings=settings_that_differ(a, b, pairs),
        notices=[
            *pairs.notices,
            *_component_notices(a, b),
            *_selection_notices(a, b),
            *_notices(a),
            *_notices(b),
        ],
        metrics=[replace(m, p_adjusted=p) for m, p in zip(metric_results, adjusted, strict=True)],
        better=int(np.sum(change > 0)),
        worse=int(np.sum(change < 0)),
        equal=int(np.sum(change == 0)),
        unscored=len(pairs.tasks) - len(change),
        regressions=list(paired.regressions(reward)),
    )


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of one metric for the tasks that have it in both runs. `places`: positions of
    these tasks in the pairs.
    """

    places: IntArray
    a: FloatArray
    b: FloatArray

    @property
    def difference(self) -> FloatArray:
        return difference_of_means(self.a, self.b)


class _Paired:
    """Two runs and the pairing of their tasks."""

    def __init__(self, a: ComparedRun, b: ComparedRun, pairs: Pairs) -> None:
        self._a, self._b, self._pairs = a, b, pairs

    def metric(self, metric: Metric) -> MetricComparison:
        """Return the complete comparison of one metric; `p_adjusted` is not yet adjusted."""
        values = self.scored(metric)
        if not len(values.a):
            raise InputDataError(
                f"no task has the metric {metric.name} in both {self._a.rollouts} and "
                f"{self._b.rollouts}",
                hint="pass@k needs at least k scored rollouts of a task"
                if metric.k
                else self._who_lacks(metric),
            )
        low, high = self._range(metric)
        has_limits = metric.of_reward or (metric.is_component and (low, high) == UNIT)
        limits = (low - high, high - low) if has_limits else None
        difference = estimate_difference(values.difference, limits=limits)
        p_value = sign_flip_p(values.difference)
        error = difference.standard_error
        return MetricComparison(
            name=metric.name,
            tasks=len(values.a),
            a=float(values.a.mean()),
            b=float(values.b.mean()),
            difference=difference,
            p_value=p_value,
            p_adjusted=p_value,
            minimum_detectable=minimum_detectable(error) if error else None,
            mcnemar=self._mcnemar(metric, values),
            requested=self._requested(metric, (low, high)),
        )

    def _who_lacks(self, metric: Metric) -> str:
        """Return which run lacks a field, with the nearest that it has; empty when none does."""
        for side in (self._a, self._b):
            fields = side.frame.rollouts.columns.values
            if metric.field not in fields:
                return f"{side.name} has no {metric.name}{did_you_mean(metric.field, fields)}"
        return ""

    def scored(self, metric: Metric) -> _Values:
        """Return the values of a metric over scored rollouts, for the tasks that have a value in
        both runs.
        """
        return self._both(
            task_values(self._a.frame, metric)[self._pairs.a],
            task_values(self._b.frame, metric)[self._pairs.b],
        )

    def regressions(self, reward: _Values) -> Iterator[Regression]:
        change = reward.difference
        a_sizes, b_sizes = _sizes(self._a.frame), _sizes(self._b.frame)
        for at in np.argsort(change, kind="stable")[:MOST_REGRESSIONS].tolist():
            if change[at] >= 0:
                return
            row_place = int(reward.places[at])
            yield Regression(
                task=self._pairs.tasks[row_place],
                a=float(reward.a[at]),
                b=float(reward.b[at]),
                change=float(change[at]),
                a_rollouts=int(a_sizes[self._pairs.a[row_place]]),
                b_rollouts=int(b_sizes[self._pairs.b[row_place]]),
            )

    def _both(self, a: FloatArray, b: FloatArray) -> _Values:
        in_both = ~(np.isnan(a) | np.isnan(b))
        return _Values(np.flatnonzero(in_both), a[in_both], b[in_both])

    def _range(self, metric: Metric) -> tuple[float, float]:
        """Return the least and the largest possible value of a metric: those observed in either
        run; for rewards, the range also includes 0 and 1.

        A component of the reward has no declared range. Its range is 0 to 1 when no observed value
        is outside, as for rewards; another component may be a number of any size.
        """
        columns = [
            side.frame.rollouts.columns.values[metric.field]
            for side in (self._a, self._b)
            if metric.field in side.frame.rollouts.columns.values
        ]
        rewards = np.concatenate(columns)
        if metric.of_reward:
            return reward_range(rewards)
        low, high = float(np.nanmin(rewards)), float(np.nanmax(rewards))
        if metric.is_component and low >= UNIT[0] and high <= UNIT[1]:
            return UNIT
        if max(abs(low), abs(high)) > LARGEST_VALUE:
            raise InputDataError(
                f"values of {metric.field} are beyond ±{LARGEST_VALUE:g}, the largest that can "
                "be compared",
                hint="leave this metric out, or scale the field in the verifier",
            )
        return low, high

    def _requested(self, metric: Metric, span: tuple[float, float]) -> Requested | None:
        a_low, a_high = self._filled(self._a.frame, metric, span)
        b_low, b_high = self._filled(self._b.frame, metric, span)
        at_worst = self._both(a_high[self._pairs.a], b_low[self._pairs.b])
        at_best = self._both(a_low[self._pairs.a], b_high[self._pairs.b])
        if np.array_equal(at_worst.a, at_best.a) and np.array_equal(at_worst.b, at_best.b):
            return None
        limits = (span[0] - span[1], span[1] - span[0])
        return Requested(
            tasks=len(at_worst.a),
            a=(float(at_best.a.mean()), float(at_worst.a.mean())),
            b=(float(at_worst.b.mean()), float(at_best.b.mean())),
            lowest=estimate_difference(at_worst.difference, limits=limits),
            highest=estimate_difference(at_best.difference, limits=limits),
        )

    def _filled(
        self, frame: RunFrame, metric: Metric, span: tuple[float, float]
    ) -> tuple[FloatArray, FloatArray]:
        low, high = (task_values_filled(frame, metric, missing) for missing in span)
        return low, high

    def _mcnemar(self, metric: Metric, values: _Values) -> McNemar | None:
        single = all(
            np.all(_sizes(side.frame)[positions[values.places]] == 1)
            for side, positions in ((self._a, self._pairs.a), (self._b, self._pairs.b))
        )
        binary = np.isin(np.concatenate([values.a, values.b]), (0.0, 1.0)).all()
        if metric.k or not single or not binary:
            return None
        only_a, only_b = int(np.sum(values.a > values.b)), int(np.sum(values.a < values.b))
        return McNemar(only_a, only_b, mcnemar_p(only_a, only_b))


def _sizes(frame: RunFrame) -> IntArray:
    """Return the number of scored rollouts of every requested task."""
    return frame.requests.outcomes_by_task()[:, SCORED_CODE]


def _counts(side: ComparedRun) -> RunCounts:
    requests = side.frame.requests
    failures = dict(counts_by_name(requests.outcome_names, requests.outcome))
    scored = failures.pop(SCORED, 0)
    return RunCounts(
        rollouts=side.rollouts,
        tasks=len(requests.tasks),
        requested=len(requests),
        scored=scored,
        failures=failures,
        unaccounted=int(np.sum(requests.outcome == NO_OUTCOME)),
    )


def _component_notices(a: ComparedRun, b: ComparedRun) -> Iterator[str]:
    """Yield a notice about the components of the reward that only one run has."""
    of_a, of_b = (component_fields(side.frame.rollouts.columns) for side in (a, b))
    texts = [
        f"only {side.name} has {', '.join(names)}"
        for side, names in ((a, sorted({*of_a} - {*of_b})), (b, sorted({*of_b} - {*of_a})))
        if names
    ]
    if texts:
        yield f"components of the reward that are not compared: {'; '.join(texts)}"


def _selection_notices(a: ComparedRun, b: ComparedRun) -> Iterator[str]:
    """Yield a notice when the tasks of one run were chosen by their rewards in the other."""
    for chosen, origin in ((b, a), (a, b)):
        files, digest = origin.frame.rollout_places.files, rewards_digest(origin.frame)
        if any(run.is_run(files, digest) for run in selected_from(chosen.frame)):
            yield (
                f"the tasks of {chosen.name} were chosen by their rewards in {origin.name}, so they "
                "move towards the mean even when nothing has changed: compare two new runs of them"
            )


def _notices(side: ComparedRun) -> Iterator[str]:
    for notice in side.frame.notices:
        yield f"{side.name}: {notice}"

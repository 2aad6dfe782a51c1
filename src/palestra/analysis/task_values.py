"""One number per task: the mean of a field over its rollouts, or pass@k."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from palestra.analysis.frame import RunFrame
from palestra.config import did_you_mean
from palestra.errors import ConfigError
from palestra.metrics import REWARD, FloatArray, IntArray, expected_max_of_sorted, sum_by_group

_PASS_AT = re.compile(r"pass@([1-9]\d*)")


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that every task has. `k`: of pass@k, the expected best reward among k rollouts."""

    name: str
    field: str = REWARD
    k: int | None = None

    @property
    def of_reward(self) -> bool:
        return self.field == REWARD

    def by_task(self, values: FloatArray, starts: IntArray) -> FloatArray:
        """Per group of `values` (NaN: absent); NaN for a group that has too few of them."""
        if self.k is None:
            return mean_of_present(values, starts)
        return best_of_k(values, starts, self.k)


def parse_metric(name: str, fields: Iterable[str]) -> Metric:
    """`pass@k`, or one of `fields`. Raises ConfigError with the nearest spelling."""
    found = _PASS_AT.fullmatch(name)
    if found:
        return Metric(name, k=int(found[1]))
    known = sorted(fields)
    if name not in known:
        raise ConfigError(
            f"no rollout has a number {name!r}{did_you_mean(name, known)}",
            hint=f"metrics: pass@k for any k, {', '.join(known)}",
        )
    return Metric(name, field=name)


def task_values(frame: RunFrame, metric: Metric) -> FloatArray:
    """Per task of `frame.requests`, over its scored rollouts; NaN where there is none."""
    values = np.full(len(frame.requests.tasks), np.nan)
    column = _column(frame, metric)
    values[frame.profiled] = metric.by_task(column, frame.rollouts.starts)
    return values


def task_values_filled(frame: RunFrame, metric: Metric, missing: float) -> FloatArray:
    """As `task_values`, over all requested rollouts, as if each missing one had been `missing`."""
    requests = frame.requests
    values = np.full(len(requests), np.nan)
    values[requests.scored] = _column(frame, metric)
    return metric.by_task(np.where(np.isnan(values), missing, values), requests.starts)


def mean_of_present(values: FloatArray, starts: IntArray) -> FloatArray:
    """The mean of each group over the values that are there; NaN for a group without one."""
    absent = np.isnan(values)
    count = sum_by_group((~absent).astype(np.float64), starts)
    total = sum_by_group(np.where(absent, 0.0, values), starts)
    means = np.full(len(count), np.nan)
    np.divide(total, count, out=means, where=count > 0)
    return means


def best_of_k(values: FloatArray, starts: IntArray, k: int) -> FloatArray:
    """Expected maximum of k values of each group; NaN for a group that has fewer."""
    sizes = np.diff(starts)
    best = np.full(len(sizes), np.nan)
    for size in np.unique(sizes[sizes >= k]).tolist():
        groups = np.flatnonzero(sizes == size)
        rows = np.sort(values[starts[:-1][groups][:, np.newaxis] + np.arange(size)], axis=1)
        best[groups] = expected_max_of_sorted(rows, k)
    return best


def _column(frame: RunFrame, metric: Metric) -> FloatArray:
    column = frame.rollouts.columns.values.get(metric.field)
    return np.full(len(frame.rollouts), np.nan) if column is None else column

"""Computes the line of one model in the table: pass@1, maj@k and pass@k, with means and errors over
its seeds.

A *seed* is an independent repetition of the whole evaluation. If there are several runs with at
least k rollouts per task, each run is a seed. A single run, or several runs with fewer than k
rollouts (which are joined), is cut into parts: the means are over all rollouts of each task, and
only the standard errors are over parts. A part is one rollout for pass@1, and a block of k rollouts
for maj@k and pass@k.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan, sqrt

import numpy as np

from palestra.analysis.frame import SCORED, RunFrame, counts_by_name
from palestra.analysis.seeds.answers import NO_ANSWER, SeedAnswers, majority_of_rows
from palestra.analysis.views import best_of_k, reward_range
from palestra.errors import ConfigError
from palestra.metrics import BoolArray, FloatArray, IntArray, TaskIndex


@dataclass(frozen=True, slots=True)
class SeedScore:
    """A score in percent. `mean`: for runs, the mean over `seeds`; for a cut run, the mean over
    tasks, each with all its rollouts.

    `standard_error`: over `seeds`. None for a single seed, and when the parts of a cut run cover
    different tasks, since the error would then measure tasks instead of repetition.

    `low`, `high`: the mean over all requested rollouts if each missing one had the least or the
    largest reward; equal to the mean when nothing is missing. `tasks`: the number of tasks with the
    score; for several runs, the smallest number among them.
    """

    mean: float
    standard_error: float | None
    seeds: int
    tasks: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ModelScores:
    """One line of the table. `majority` and `no_answer` are None when a run has no extracted
    answers.
    """

    name: str
    runs: Sequence[str]
    tasks: int
    requested: int
    scored: int
    failures: dict[str, int]
    pass_1: SeedScore
    pass_k: SeedScore
    majority: SeedScore | None
    no_answer: float | None
    """The percentage of scored rollouts without an extracted answer."""
    cut: bool
    """Whether the seeds are parts of one (joined) run instead of whole runs."""
    left_over: int
    """The number of rollouts per task that are in no block of k."""


@dataclass(frozen=True, slots=True)
class SeedRun:
    """One run: its label in the table, its path, frame and answers."""

    name: str
    path: str
    frame: RunFrame
    answers: SeedAnswers


def majorities_of(run: SeedRun, ks: Sequence[int]) -> dict[int, float]:
    """Return maj@k of one run for each k, as fractions: the mean over tasks with k scored rollouts.

    Empty when no answers are extracted.
    """
    if not run.answers.extracted:
        return {}
    grid = _Grid.of(run, run.frame.requests.tasks)
    values = {k: _majority(k)(grid, nan) for k in ks if k <= grid.rewards.shape[1]}
    return {k: float(np.nanmean(v)) for k, v in values.items() if not np.isnan(v).all()}


def most_rollouts(runs: Sequence[SeedRun], tasks: Sequence[TaskIndex]) -> int:
    """Return the largest k for which `score_model` scores a model with these runs."""
    return sum(_Grid.of(run, tasks).width for run in runs)


def score_model(runs: Sequence[SeedRun], tasks: Sequence[TaskIndex], k: int) -> ModelScores:
    """Return the scores of one model on `tasks`, over all its `runs`.

    Raises ConfigError: there are fewer than k rollouts per task.
    """
    grids = [_Grid.of(run, tasks) for run in runs]
    cut = len(grids) == 1 or min(grid.width for grid in grids) < k
    joined = _side_by_side(grids)
    if joined.width < k:
        raise ConfigError(
            f"a k of {k} needs {k} rollouts of each task, and {runs[0].name} has {joined.width}",
            hint=f"collect more rollouts, or choose a k of {joined.width}",
        )

    def over_seeds(measure: _Measure, size: int) -> SeedScore:
        if cut:
            return _over_parts(joined, size, measure, limits)
        return _over_runs(grids, measure, limits)

    votes = all(run.answers.extracted for run in runs)
    limits = reward_range(np.concatenate([run.frame.rollouts.reward for run in runs]))
    has_reward = ~np.isnan(joined.rewards)
    return ModelScores(
        name=runs[0].name,
        runs=[run.path for run in runs],
        tasks=len(tasks),
        requested=int(joined.requested.sum()),
        scored=int(has_reward.sum()),
        failures=_failures(runs, tasks),
        pass_1=over_seeds(_mean, 1),
        pass_k=over_seeds(_best(k), k),
        majority=over_seeds(_majority(k), k) if votes else None,
        no_answer=100 * float(np.mean(joined.answers[has_reward] == NO_ANSWER)) if votes else None,
        cut=cut,
        left_over=joined.width % k if cut else 0,
    )


@dataclass(frozen=True, slots=True)
class _Grid:
    """A table with one row per task and one column per rollout. `rewards` is NaN where a rollout
    has no score.

    The width is the largest number of rollouts of a chosen task. Cells that were never requested do
    not count as missing.
    """

    rewards: FloatArray
    answers: IntArray
    requested: BoolArray

    @classmethod
    def of(cls, run: SeedRun, tasks: Sequence[TaskIndex]) -> "_Grid":
        requests = run.frame.requests
        starts = requests.starts
        width = int(np.diff(starts).max())
        row = requests.keys.task
        column = np.arange(len(requests)) - starts[row]
        shape = (len(requests.tasks), width)
        rewards = np.full(shape, np.nan)
        answers = np.full(shape, NO_ANSWER)
        requested = np.zeros(shape, dtype=np.bool_)
        requested[row, column] = True
        scored = requests.scored
        rewards[row[scored], column[scored]] = run.frame.rollouts.reward
        answers[row[scored], column[scored]] = run.answers.codes
        chosen = _rows_of(run, tasks)
        most_rollouts = int(requested[chosen].any(axis=0).sum())
        return cls(rewards[chosen], answers[chosen], requested[chosen]).columns(0, most_rollouts)

    @property
    def width(self) -> int:
        return int(self.rewards.shape[1])

    def columns(self, first: int, end: int) -> "_Grid":
        return _Grid(
            self.rewards[:, first:end], self.answers[:, first:end], self.requested[:, first:end]
        )

    def blocks(self, k: int) -> list["_Grid"]:
        """Return the complete blocks of k columns; remaining columns are left out."""
        return [self.columns(at, at + k) for at in range(0, self.width - k + 1, k)]

    def filled(self, missing: float) -> FloatArray:
        """Return the rewards, with `missing` for requested rollouts without a score."""
        absent = self.requested & np.isnan(self.rewards)
        return np.where(absent, missing, self.rewards)


_Measure = Callable[[_Grid, float], FloatArray]
"""Returns the score of each task in a grid, with the second argument as the reward of each missing
rollout. With NaN, only scored rollouts count, and a task with too few of them is NaN."""


def _over_runs(runs: Sequence[_Grid], measure: _Measure, limits: tuple[float, float]) -> SeedScore:
    """Return the score over runs: each run is a whole evaluation and has equal weight."""
    by_task = [_present(measure(grid, nan)) for grid in runs]
    means = np.array([values.mean() for values in by_task if len(values)])
    if not len(means):
        raise _too_few_scored()
    low, high = (
        float(np.mean([_present(measure(grid, missing)).mean() for grid in runs]))
        for missing in limits
    )
    return SeedScore(
        mean=100 * float(means.mean()),
        standard_error=_standard_error(means),
        seeds=len(means),
        tasks=min(len(values) for values in by_task),
        low=100 * low,
        high=100 * high,
    )


def _over_parts(
    grid: _Grid, size: int, measure: _Measure, limits: tuple[float, float]
) -> SeedScore:
    """Return the score over parts of a joined run. The mean is over tasks, since over parts a task
    with fewer scored rollouts would have less weight.
    """
    by_task = measure(grid, nan)
    if not len(_present(by_task)):
        raise _too_few_scored()
    measured = [measure(part, nan) for part in grid.blocks(size)]
    parts = [values for values in measured if len(_present(values))]
    means = np.array([_present(values).mean() for values in parts])
    alike = all(np.array_equal(np.isnan(values), np.isnan(by_task)) for values in parts)
    low, high = (float(_present(measure(grid, missing)).mean()) for missing in limits)
    return SeedScore(
        mean=100 * float(_present(by_task).mean()),
        standard_error=_standard_error(means) if alike else None,
        seeds=len(means),
        tasks=len(_present(by_task)),
        low=100 * low,
        high=100 * high,
    )


def _standard_error(means: FloatArray) -> float | None:
    """Return the standard error of the mean of `means`, in percent; None for fewer than two."""
    return 100 * float(means.std(ddof=1)) / sqrt(len(means)) if len(means) > 1 else None


def _too_few_scored() -> ConfigError:
    return ConfigError(
        "no task has enough scored rollouts for this k",
        hint="`palestra diagnose RUN` says how to score the others; or choose a smaller k",
    )


def _mean(grid: _Grid, missing: float) -> FloatArray:
    return _mean_of_rows(grid.filled(missing))


def _best(k: int) -> _Measure:
    """Return the measure pass@k, computed from all rollouts of each task with at least k."""

    def measure(grid: _Grid, missing: float) -> FloatArray:
        rewards = grid.filled(missing)
        has_reward = ~np.isnan(rewards)
        sizes = has_reward.sum(axis=1)
        non_empty = np.flatnonzero(sizes)
        best = np.full(len(sizes), nan)
        starts = np.concatenate([[0], np.cumsum(sizes[non_empty])])
        best[non_empty] = best_of_k(rewards[has_reward], starts, k)
        return best

    return measure


def _majority(k: int) -> _Measure:
    """Return the measure maj@k: the mean over a task's complete blocks of k rollouts."""

    def measure(grid: _Grid, missing: float) -> FloatArray:
        won = [_vote(block, missing) for block in grid.blocks(k)]
        return _mean_of_rows(np.column_stack(won))

    return measure


def _vote(block: _Grid, missing: float) -> FloatArray:
    """Return the score of each task's majority vote: `missing` if a requested rollout has no
    reward, NaN if fewer rollouts were requested.
    """
    complete = ~np.isnan(block.rewards).any(axis=1)
    won = np.where(block.requested.all(axis=1), missing, nan)
    won[complete] = majority_of_rows(block.answers[complete], block.rewards[complete])
    return won


def _mean_of_rows(values: FloatArray) -> FloatArray:
    """Return the mean of each row without its NaN values; NaN for a row with only NaN."""
    has_value = ~np.isnan(values)
    count = has_value.sum(axis=1)
    total = np.where(has_value, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), nan)


def _present(values: FloatArray) -> FloatArray:
    return values[~np.isnan(values)]


def _side_by_side(grids: Sequence[_Grid]) -> _Grid:
    """Join the rollouts of several runs as if one run had made them."""
    return _Grid(
        np.concatenate([grid.rewards for grid in grids], axis=1),
        np.concatenate([grid.answers for grid in grids], axis=1),
        np.concatenate([grid.requested for grid in grids], axis=1),
    )


def _rows_of(run: SeedRun, tasks: Sequence[TaskIndex]) -> IntArray:
    """Return the index of each of `tasks` among the run's tasks."""
    position_of = {task: position for position, task in enumerate(run.frame.requests.tasks)}
    return np.array([position_of[task] for task in tasks])


def _failures(runs: Sequence[SeedRun], tasks: Sequence[TaskIndex]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for run in runs:
        requests = run.frame.requests
        ours = np.isin(requests.keys.task, _rows_of(run, tasks))
        for name, count in counts_by_name(requests.outcome_names, requests.outcome[ours]).items():
            if name != SCORED:
                counts[name] = counts.get(name, 0) + count
    return counts

"""Selects the tasks that are neither too easy nor too hard for training, with the uncertainty of
each decision; or the tasks whose rollouts failed, to collect them again.

A pass rate is the share of *scored* rollouts that solved the task. A rollout without a reward (a
timeout, a server failure) is no evidence of difficulty and never counts as zero.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from math import inf, isfinite
from statistics import NormalDist
from typing import Final

import numpy as np

from palestra.analysis.frame import SCORED, SCORED_CODE, RequestedRollouts, RunFrame
from palestra.analysis.task_rows import LEARNABILITY_CONFIDENCE, LENGTH_FIELD
from palestra.analysis.views import mean_of_present, solved_by_group
from palestra.errors import ConfigError, Phrase
from palestra.metrics import (
    SOLVED_REWARD,
    BoolArray,
    FloatArray,
    IntArray,
    TaskIndex,
    wilson_interval,
)
from palestra.schema import Unscored


class TaskVerdict(StrEnum):
    """The decision on a task. Only tasks with `KEPT` are exported."""

    KEPT = "kept"
    TOO_EASY = "too easy"
    TOO_HARD = "too hard"
    TOO_LONG = "too long"
    """The mean number of output tokens is above the limit or unknown."""
    UNDECIDED = "undecided"
    """The task has fewer scored rollouts than `min_rollouts`, or it is borderline and
    `decided_only` is set."""
    NO_ROLLOUTS = "no rollouts"
    """No rollout of the task was scored."""
    ALL_SCORED = "nothing failed"
    """`failed` is set, and every rollout of the task was scored."""
    OVER_LIMIT = "over the limit"


_CODES = {verdict: code for code, verdict in enumerate(TaskVerdict)}


@dataclass(frozen=True, slots=True)
class RateBand:
    """Pass rates from `low` to `high`, both included."""

    low: float
    high: float

    @classmethod
    def parse(cls, text: str) -> "RateBand":
        """Parse a band such as `0.1..0.9`. Raises ConfigError: the text is not a range of pass
        rates.
        """
        low, dots, high = text.partition("..")
        try:
            band = cls(float(low), float(high))
        except ValueError:
            dots = ""
        if not dots or not band.is_valid:
            raise ConfigError(
                f"--band {text!r} is not LOW..HIGH with 0 <= LOW <= HIGH <= 1",
                hint="for example --band 0.1..0.9",
            )
        return band

    @property
    def is_valid(self) -> bool:
        """Whether both bounds are pass rates, in order."""
        return 0 <= self.low <= self.high <= 1

    @property
    def edges(self) -> list[float]:
        """The bounds strictly between 0 and 1, so that a task can lie on either side of each."""
        return [edge for edge in (self.low, self.high) if 0 < edge < 1]


NOTHING_FAILED: Final = "every rollout was scored: there is nothing to collect again"
"""Why no task is kept when the failed ones are selected."""


def refuse_with_failed(criteria: Sequence[str], *, failed: str = "failed") -> None:
    """Raise ConfigError: there are criteria that judge rewards, beside `failed`. Both are named as
    the caller writes them.
    """
    if criteria:
        raise ConfigError(
            f"{failed} and {' and '.join(criteria)} cannot be combined: a failed rollout has no "
            "reward to judge",
            hint="make two selections",
        )


@dataclass(frozen=True, slots=True)
class SelectionCriteria:
    """The criteria for keeping a task. `band` None keeps every task that was solved sometimes, but
    not always.

    `max_tokens`: the largest mean of output tokens per rollout. `solved_at`: a rollout with at
    least this reward solved its task. `by_learnability`: sort the most learnable tasks first.
    `decided_only`: exclude borderline tasks. `failed`: keep the tasks with at least one rollout
    that has no reward, and no others. Raises ConfigError: `failed` is set with a criterion other
    than `limit`.
    """

    band: RateBand | None = None
    min_rollouts: int = 1
    max_tokens: float | None = None
    solved_at: float = SOLVED_REWARD
    by_learnability: bool = False
    decided_only: bool = False
    limit: int | None = None
    failed: bool = False

    def __post_init__(self) -> None:
        if self.failed:
            criteria = (f for f in fields(self) if f.name not in {"failed", "limit"})
            refuse_with_failed([f.name for f in criteria if getattr(self, f.name) != f.default])


@dataclass(frozen=True, slots=True)
class JudgedTask:
    """The decision on one task, with its numbers; they are None when no rollout was scored.

    `low`, `high`: the 90 % Wilson interval of the pass rate. `learnability`: p(1 - p).
    `more_rollouts`: the number of additional scored rollouts needed to decide on which side of the
    band's edges the task lies, if its pass rate stays the same. 0 when already decided, None when
    the pass rate equals an edge.
    """

    task: TaskIndex
    verdict: TaskVerdict
    requested: int
    scored: int
    failures: Mapping[str, int]
    solved: int | None = None
    pass_rate: float | None = None
    low: float | None = None
    high: float | None = None
    learnability: float | None = None
    mean_output_tokens: float | None = None
    more_rollouts: int | None = None

    @property
    def borderline(self) -> bool:
        """Whether the interval of the pass rate includes an edge of the band."""
        return self.scored > 0 and self.more_rollouts != 0


@dataclass(frozen=True, slots=True)
class BorderlineTasks:
    """The borderline tasks of a verdict. `more_rollouts`: the number that decides them, apart from
    the `on_edge` tasks whose pass rate equals an edge.
    """

    count: int
    more_rollouts: int
    on_edge: int


@dataclass(frozen=True, slots=True)
class Selection:
    """The decisions on all tasks of a run. `tasks`: in task order. `kept`: positions in `tasks`, in
    export order.

    `notices`: notices about the run for the user.
    """

    tasks: Sequence[JudgedTask]
    kept: Sequence[int]
    notices: Sequence[str] = ()
    unscored: Unscored = field(default_factory=Unscored)
    """The requests without a reward, counted by remedy."""

    @property
    def failures(self) -> Mapping[str, int]:
        """The number of requests without a reward, by failure class. `never ended`: requests
        without an outcome.
        """
        counts: Counter[str] = Counter()
        for task in self.tasks:
            counts.update(task.failures)
            counts["never ended"] += task.requested - task.scored - sum(task.failures.values())
        return {name: count for name, count in counts.items() if count}

    def of(self, verdict: TaskVerdict) -> list[JudgedTask]:
        return [task for task in self.tasks if task.verdict == verdict]

    def borderline(self, verdict: TaskVerdict) -> BorderlineTasks:
        """Count the borderline tasks of a verdict."""
        unsure = [task for task in self.of(verdict) if task.borderline]
        return BorderlineTasks(
            count=len(unsure),
            more_rollouts=sum(task.more_rollouts or 0 for task in unsure),
            on_edge=sum(task.more_rollouts is None for task in unsure),
        )


def selection_of(frame: RunFrame, criteria: SelectionCriteria) -> Selection:
    """Judge every task of a run. Raises ConfigError: `max_tokens` is set and the rollouts have no
    token counts.
    """
    rollouts = frame.rollouts
    trials = rollouts.per_task
    solved = solved_by_group(rollouts.reward, rollouts.starts, criteria.solved_at)
    rate = solved / trials
    tokens = _tokens(frame, criteria)
    rollouts_needed = rollouts_to_decide(rate, trials, criteria.band.edges if criteria.band else [])
    profiled = frame.profiled
    if criteria.failed:
        verdicts = _failure_verdicts(frame.requests)
    else:
        verdicts = np.full(len(frame.requests.tasks), _CODES[TaskVerdict.NO_ROLLOUTS])
        verdicts[profiled] = _verdicts(criteria, rate, trials, rollouts_needed, tokens)
    kept_tasks = np.flatnonzero(verdicts == _CODES[TaskVerdict.KEPT])
    if criteria.by_learnability:
        learnability = np.zeros(len(verdicts))
        learnability[profiled] = rate * (1 - rate)
        kept_tasks = kept_tasks[np.argsort(-learnability[kept_tasks], kind="stable")]
    if criteria.limit is not None:
        verdicts[kept_tasks[criteria.limit :]] = _CODES[TaskVerdict.OVER_LIMIT]
        kept_tasks = kept_tasks[: criteria.limit]
    names = tuple(TaskVerdict)
    verdict_names = [names[code] for code in verdicts.tolist()]
    judged = _judged(frame, verdict_names, rate, solved, tokens, rollouts_needed)
    return Selection(judged, kept_tasks.tolist(), frame.notices, frame.unscored)


def rollouts_to_decide(
    rate: FloatArray,
    trials: IntArray,
    edges: Sequence[float],
    *,
    confidence: float = LEARNABILITY_CONFIDENCE,
) -> FloatArray:
    """Return the number of additional rollouts until the Wilson interval of each rate excludes all
    `edges`.

    For a constant rate p of n rollouts in all, the interval excludes an edge e when n > z^2 e (1 -
    e) / (p - e)^2, because a Wilson interval contains exactly the values that a score test does not
    reject. 0 when the edges are already excluded; infinite when p equals an edge.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    needed = np.zeros(len(rate))
    for edge in edges:
        distance = (rate - edge) ** 2
        enough = np.full(len(rate), inf)
        away = distance > np.finfo(np.float64).eps
        enough[away] = np.floor(z**2 * edge * (1 - edge) / distance[away]) + 1
        needed = np.maximum(needed, enough - trials)
    return np.maximum(needed, 0.0)


def _tokens(frame: RunFrame, criteria: SelectionCriteria) -> FloatArray:
    """Return the mean output tokens of each task; NaN where unknown. Raises ConfigError:
    `max_tokens` is set and no rollout has token counts.
    """
    column = frame.rollouts.columns.values.get(LENGTH_FIELD)
    if column is None:
        if criteria.max_tokens is not None:
            raise ConfigError(
                Phrase(f"--max-tokens needs the field {LENGTH_FIELD}, and no rollout has it"),
                hint="the token counts come from response.usage; check that the model endpoint "
                "reports usage",
            )
        return np.full(len(frame.rollouts.tasks), np.nan)
    return mean_of_present(column, frame.rollouts.starts)


def _failure_verdicts(requests: RequestedRollouts) -> IntArray:
    """Return the position of each task's decision in `TaskVerdict`, by its rollouts without a
    reward.
    """
    verdicts = np.full(len(requests.tasks), _CODES[TaskVerdict.ALL_SCORED])
    verdicts[requests.keys.task[~requests.scored]] = _CODES[TaskVerdict.KEPT]
    return verdicts


def _verdicts(
    criteria: SelectionCriteria,
    rate: FloatArray,
    trials: IntArray,
    rollouts_needed: FloatArray,
    tokens: FloatArray,
) -> IntArray:
    """Return the position of each scored task's decision in `TaskVerdict`. Later checks override
    earlier ones.
    """
    verdicts = np.full(len(rate), _CODES[TaskVerdict.KEPT])
    if criteria.max_tokens is not None:
        verdicts[~(tokens <= criteria.max_tokens)] = _CODES[TaskVerdict.TOO_LONG]
    hard, easy = _outside(criteria.band, rate)
    verdicts[hard] = _CODES[TaskVerdict.TOO_HARD]
    verdicts[easy] = _CODES[TaskVerdict.TOO_EASY]
    if criteria.decided_only:
        verdicts[rollouts_needed > 0] = _CODES[TaskVerdict.UNDECIDED]
    verdicts[trials < criteria.min_rollouts] = _CODES[TaskVerdict.UNDECIDED]
    return verdicts


def _outside(band: RateBand | None, rate: FloatArray) -> tuple[BoolArray, BoolArray]:
    if band is None:
        return rate <= 0, rate >= 1
    # a rate written as 0.3 must not fail against 3 of 10 for a rounding
    slack = 1e-12
    return rate < band.low - slack, rate > band.high + slack


def _judged(
    frame: RunFrame,
    verdicts: Sequence[TaskVerdict],
    rate: FloatArray,
    solved: IntArray,
    tokens: FloatArray,
    rollouts_needed: FloatArray,
) -> list[JudgedTask]:
    requests = frame.requests
    counts = requests.outcomes_by_task().tolist()
    requested = np.diff(requests.starts).tolist()
    interval = wilson_interval(solved, frame.rollouts.per_task, confidence=LEARNABILITY_CONFIDENCE)
    index_of = dict(zip(frame.profiled.tolist(), range(len(rate)), strict=True))
    judged = []
    for position, task in enumerate(requests.tasks):
        outcome_counts = dict(zip(requests.outcome_names, counts[position], strict=True))
        failures = {
            name: count for name, count in outcome_counts.items() if count and name != SCORED
        }
        at = index_of.get(position)
        if at is None:
            judged.append(JudgedTask(task, verdicts[position], requested[position], 0, failures))
            continue
        p, length = float(rate[at]), float(tokens[at])
        judged.append(
            JudgedTask(
                task=task,
                verdict=verdicts[position],
                requested=requested[position],
                scored=counts[position][SCORED_CODE],
                failures=failures,
                solved=int(solved[at]),
                pass_rate=p,
                low=float(interval.low[at]),
                high=float(interval.high[at]),
                learnability=p * (1 - p),
                mean_output_tokens=length if isfinite(length) else None,
                more_rollouts=int(rollouts_needed[at]) if isfinite(rollouts_needed[at]) else None,
            )
        )
    return judged

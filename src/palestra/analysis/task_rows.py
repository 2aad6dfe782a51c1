"""Computes one row per task: statistics of its rollouts, pass rate and learnability."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import orjson

from palestra.analysis.frame import SCORED, RowPositions, RunFrame
from palestra.analysis.samples import sample_reader
from palestra.analysis.views import reward_range, solved_by_group
from palestra.analysis.writing import write_jsonl
from palestra.metrics import (
    REWARD,
    FloatArray,
    IntArray,
    Interval,
    Rollouts,
    TaskIndex,
    can_name_a_field,
    correlation_by_group,
    histogram_by_group,
    histogram_edges,
    info_columns,
    learnability_interval,
    or_null,
    rollout_infos,
    statistics_rows,
    sum_by_group,
    wilson_interval,
)
from palestra.schema import TASK_INDEX, JsonDict

LEARNABILITY_CONFIDENCE = 0.9
LENGTH_FIELD = "output_tokens"


def write_reward_profiling(frame: RunFrame, path: Path | str) -> None:
    """Write the rows of `profile_tasks` to `path`, one per line."""
    with sample_reader(_first_places(frame)) as samples:
        rows = _task_rows(frame, samples.fragments, _encoded_infos(frame.rollouts))
        write_jsonl(Path(path), rows)


def profile_tasks(frame: RunFrame) -> Iterator[JsonDict]:
    """Yield one row per task with a scored rollout, in task order; `docs/topics/profiling.md`
    explains the fields.

    `pass_rate` p is the share of rollouts whose reward is at least 1. `learnability` is p(1 - p);
    its interval is the range of p(1 - p) over the 90 % Wilson interval of p. The bins of
    `reward_histogram` divide the reward range of the whole run. `reward_length_correlation` is
    Pearson's r of reward and output tokens; null if either does not vary. `requested` has the
    possible range of each number over all requested rollouts, see `views`.
    """
    with sample_reader(_first_places(frame)) as samples:
        yield from _task_rows(frame, samples.read, rollout_infos(frame.rollouts))


def _task_rows(
    frame: RunFrame, sample: Callable[[int, TaskIndex], Any], infos: Iterator[Any]
) -> Iterator[JsonDict]:
    rollouts = frame.rollouts
    statistics = statistics_rows(rollouts.columns, rollouts.starts)
    judgements = _judgements(rollouts)
    views = _requested_views(frame)
    rows = zip(_requested(frame), statistics, infos, judgements, views, strict=True)
    for position, (request, stats, infos_of_task, judged, view) in enumerate(rows):
        yield {
            TASK_INDEX: request.task,
            "sample": sample(position, request.task),
            **request.counts(),
            **stats,
            "rollout_infos": infos_of_task,
            "outcomes": request.outcomes,
            **judged,
            "requested": view,
        }


def solved_by_task(rollouts: Rollouts) -> IntArray:
    """Return the number of solved rollouts of each task."""
    return solved_by_group(rollouts.reward, rollouts.starts)


def _encoded_infos(rollouts: Rollouts) -> Iterator[Any]:
    """Like `rollout_infos`, but yield values for `writing.encode`, built from structs, which cost
    less than dicts.
    """
    names, columns = info_columns(rollouts)
    if not all(map(can_name_a_field, names)):
        yield from rollout_infos(rollouts)
        return
    fields = [
        (f"f{index}", Any, msgspec.field(name=name, default=None))
        for index, name in enumerate(names)
    ]
    info = msgspec.defstruct("Info", fields, gc=False, omit_defaults=True)
    encode = msgspec.json.Encoder().encode
    rows = map(info, *columns)
    for count in rollouts.per_task.tolist():
        infos = list(islice(rows, count))
        try:
            yield orjson.Fragment(encode(infos))
        except UnicodeEncodeError:  # a task whose name is no text
            yield msgspec.to_builtins(infos)


@dataclass(frozen=True, slots=True)
class _Request:
    """The requested rollouts of one task and how they ended."""

    task: TaskIndex
    expected: int
    outcomes: dict[str, int]

    def counts(self) -> JsonDict:
        scored = self.outcomes[SCORED]
        return {
            "num_rollouts": scored,
            "expected_num_rollouts": self.expected,
            "missing_num_rollouts": self.expected - scored,
            "reward_profile_completion_pct": 100 * scored / self.expected,
        }


def _first_places(frame: RunFrame) -> RowPositions:
    """Return the position of each profiled task's first materialized row."""
    return frame.requests.places.take(frame.requests.starts[:-1][frame.profiled])


def _requested(frame: RunFrame) -> Iterator[_Request]:
    requests = frame.requests
    counts = requests.outcomes_by_task()[frame.profiled]
    expected = np.diff(requests.starts)[frame.profiled]
    rows = zip(frame.rollouts.tasks, expected.tolist(), counts.tolist(), strict=True)
    for task, requested_count, ended_counts in rows:
        counts_by_name = zip(requests.outcome_names, ended_counts, strict=True)
        yield _Request(
            task, requested_count, {name: count for name, count in counts_by_name if count}
        )


def _requested_views(frame: RunFrame) -> Iterator[dict[str, list[float]]]:
    """Yield, per task, the possible ranges of its numbers over all requested rollouts."""
    expected = np.diff(frame.requests.starts)[frame.profiled]
    missing = expected - frame.rollouts.per_task
    solved = solved_by_task(frame.rollouts)
    rate = Interval(solved / expected, (solved + missing) / expected)
    total = sum_by_group(frame.rollouts.reward, frame.rollouts.starts)
    worst, best = reward_range(frame.rollouts.reward)
    mean = Interval((total + missing * worst) / expected, (total + missing * best) / expected)
    columns = {
        f"mean/{REWARD}": mean,
        "pass_rate": rate,
        "learnability": learnability_interval(rate),
    }
    pairs = [np.column_stack([of.low, of.high]).tolist() for of in columns.values()]
    for row in zip(*pairs, strict=True):
        yield dict(zip(columns, row, strict=True))


def _judgements(rollouts: Rollouts) -> Iterator[JsonDict]:
    """Yield, per task, its pass rate, learnability, reward histogram and reward-length correlation."""
    trials, solved = rollouts.per_task, solved_by_task(rollouts)
    rate = solved / trials
    wilson = wilson_interval(solved, trials, confidence=LEARNABILITY_CONFIDENCE)
    learnable = learnability_interval(wilson)
    edges = histogram_edges(rollouts.reward)
    histograms = histogram_by_group(rollouts.reward, rollouts.starts, edges)
    histogram_rows = ({"edges": edges.tolist(), "counts": row} for row in histograms.tolist())
    columns: dict[str, Iterable[Any]] = {
        "pass_rate": rate.tolist(),
        "learnability": (rate * (1 - rate)).tolist(),
        "learnability_interval": np.column_stack([learnable.low, learnable.high]).tolist(),
        "reward_histogram": histogram_rows,
        "reward_length_correlation": or_null(_reward_against_length(rollouts)),
    }
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))


def _reward_against_length(rollouts: Rollouts) -> FloatArray:
    length = rollouts.columns.values.get(LENGTH_FIELD)
    if length is None:
        return np.full(len(rollouts.tasks), np.nan)
    return correlation_by_group(rollouts.reward, length, rollouts.starts)

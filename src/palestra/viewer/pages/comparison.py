"""Two runs compared: what `palestra compare` says, and every paired task."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from palestra.analysis import (
    ComparedRun,
    Comparison,
    MetricComparison,
    RegressionGate,
    RunCounts,
    comparison_of,
    judge_comparison,
    matches_query,
    pair_tasks,
    parse_query,
    refuse_shared_files,
    side_of,
)
from palestra.errors import ConfigError, InputDataError
from palestra.metrics import TaskIndex, difference_of_means
from palestra.viewer.catalog import OpenRun
from palestra.viewer.index import FieldKind, IndexSnapshot
from palestra.viewer.pages.runs import interval, line_of
from palestra.viewer.pages.tables import by_reward
from palestra.viewer.replies.base import Count
from palestra.viewer.replies.comparison import (
    ComparedTask,
    ComparePage,
    CompareTasks,
    MetricLine,
    SideCounts,
)
from palestra.viewer.replies.tables import PAGE_ROWS
from palestra.viewer.replies.tasks import GROUP_ROLLOUTS
from palestra.viewer.requests import PageRequest, StillIndexing

PROMPT_CHARACTERS: Final = 200
_OF_BOTH: Final = ("task", "a", "b", "delta")
"""The fields of a pair. Those of a task in one run have `a.` or `b.` before their names."""


@dataclass(frozen=True, slots=True)
class _Side:
    run: OpenRun
    snapshot: IndexSnapshot

    def compared(self, name: str) -> ComparedRun:
        return side_of(self.run.overview().frame(), self.run.place.argument, name=name)


def _sides(request: PageRequest) -> tuple[_Side, _Side]:
    """Return both runs. Raises StillIndexing: one is not read to its end, so its tasks are unknown."""
    runs = [request.viewer.catalog.run(request.parts[name]) for name in ("a", "b")]
    if runs[0] is runs[1]:
        raise ConfigError("a run cannot be compared with itself")
    for run in runs:
        if run.is_behind:
            raise StillIndexing(f"{run.place.name} is not read to its end", run)
    a, b = (_Side(run, run.overview().snapshot) for run in runs)
    return a, b


def compare(request: PageRequest) -> ComparePage:
    """Answer what `palestra compare A B` says."""
    a, b = _sides(request)
    flags = {
        "--allow-unmatched": request.flag("unmatched"),
        "--allow-different-rows": request.flag("different_rows"),
    }
    paths = [side.run.place.argument for side in (a, b)]
    refuse_shared_files(paths)
    compared_a, compared_b = a.compared("A"), b.compared("B")
    request.stop.check()
    pairs = pair_tasks(
        compared_a,
        compared_b,
        allow_unmatched=flags["--allow-unmatched"],
        allow_different_rows=flags["--allow-different-rows"],
    )
    request.stop.check()
    comparison = comparison_of(compared_a, compared_b, pairs, metrics=())
    words = ["palestra", "compare", *paths, *(name for name, is_on in flags.items() if is_on)]
    return _page(request, comparison, (a, b), shlex.join(words))


def _page(
    request: PageRequest, comparison: Comparison, sides: tuple[_Side, _Side], command: str
) -> ComparePage:
    a, b = (
        _counts(request, side, counts)
        for side, counts in zip(sides, (comparison.a, comparison.b), strict=True)
    )
    try:
        gate = judge_comparison(comparison)
        passed, verdict = gate.passed, _answer(comparison.reward, gate)
    except InputDataError as error:
        passed, verdict = False, error.message
    return ComparePage(
        a=a,
        b=b,
        tasks=comparison.tasks,
        better=comparison.better,
        worse=comparison.worse,
        equal=comparison.equal,
        unscored=comparison.unscored,
        metrics=[
            MetricLine(
                name=m.name,
                tasks=m.tasks,
                a=m.a,
                b=m.b,
                difference=interval(m.difference),
                p_value=m.p_value,
                p_adjusted=m.p_adjusted,
                minimum_detectable=m.minimum_detectable,
            )
            for m in comparison.metrics
        ],
        settings=list(comparison.settings),
        notices=list(comparison.notices),
        passed=passed,
        verdict=verdict,
        command=command,
    )


def _answer(reward: MetricComparison, gate: RegressionGate) -> str:
    """Return whether B is better than A; the gate's reason when too little is known to say."""
    low, high = reward.difference.low, reward.difference.high
    if low is None or high is None or not (gate.passed or high < 0):
        return gate.reason
    numbers = f"reward {reward.difference.value:+.3f} ({low:+.3f} to {high:+.3f})"
    if not reward.conclusion:
        return f"no significant difference: {numbers}"
    doubt = f"; {reward.doubt}" if reward.doubt else ""
    return f"B is {reward.conclusion}: {numbers}{doubt}"


def _counts(request: PageRequest, side: _Side, counts: RunCounts) -> SideCounts:
    return SideCounts(
        run=line_of(request.viewer.catalog, side.run),
        tasks=counts.tasks,
        requested=counts.requested,
        scored=counts.scored,
        failures=[Count(name=n, count=c) for n, c in sorted(counts.failures.items())],
        unaccounted=counts.unaccounted,
    )


# The tasks


@dataclass(frozen=True, slots=True)
class _TaskPair:
    task: TaskIndex
    rows: tuple[int, int]
    means: tuple[float, float]

    @property
    def delta(self) -> float:
        a, b = self.means
        return float(difference_of_means(np.asarray(a), np.asarray(b)))


def tasks(request: PageRequest) -> CompareTasks:
    """Answer the paired tasks that match, the largest regressions first unless sorted."""
    a, b = _sides(request)
    pairs = _pairs(a.snapshot, b.snapshot, different_rows=request.flag("different_rows"))
    query = parse_query(request.text("q"))
    sort = request.text("sort") or query.sort or "delta"
    values = _Values(a.snapshot, b.snapshot)
    query.check_fields(values.names)
    query.check_numbers(values.numbers)
    matching = [pair for pair in pairs if matches_query(query, partial(values.value, pair))]
    matching = values.sorted(matching, sort)
    start = request.integer("offset")
    count = min(request.integer("limit", 100), PAGE_ROWS)
    return CompareTasks(
        tasks=[_task(pair, a.snapshot, b.snapshot) for pair in matching[start : start + count]],
        offset=start,
        matches=len(matching),
        total=len(pairs),
    )


def _pairs(a: IndexSnapshot, b: IndexSnapshot, *, different_rows: bool) -> list[_TaskPair]:
    """Return the tasks that `pair_tasks` pairs where it leaves unmatched ones out."""
    tasks_of_a = a.tasks.page(np.arange(len(a.tasks)), count=len(a.tasks), fields=("task",)).rows
    means_a, means_b = a.tasks.numbers("mean"), b.tasks.numbers("mean")
    pairs = []
    for number, values in enumerate(tasks_of_a):
        row_of_b = b.find_task(values["task"])
        if row_of_b is None:
            continue
        if different_rows or a.fingerprint(number) == b.fingerprint(row_of_b):
            means = (float(means_a[number]), float(means_b[row_of_b]))
            pairs.append(_TaskPair(values["task"], (number, row_of_b), means))
    return pairs


class _Values:
    """The values of pairs of tasks, by name."""

    def __init__(self, a: IndexSnapshot, b: IndexSnapshot) -> None:
        self._tables = (a.tasks, b.tasks)
        self.names = [
            *_OF_BOTH,
            *(
                f"{side}.{name}"
                for side, table in zip("ab", self._tables, strict=True)
                for name, field in table.fields.items()
                if name != "task" and field.kind is not FieldKind.LONG
            ),
        ]

    @property
    def numbers(self) -> Sequence[str]:
        """The names of the fields that are numbers."""
        columns = zip("ab", self._tables, strict=True)
        fields = ((f"{side}.{n}", f) for side, table in columns for n, f in table.fields.items())
        numbers = [name for name, field in fields if field.kind is FieldKind.NUMBER]
        is_number = self._tables[0].fields["task"].kind is FieldKind.NUMBER
        return [*numbers, *(name for name in _OF_BOTH if is_number or name != "task")]

    def value(self, pair: _TaskPair, name: str) -> Sequence[Any]:
        """Return the values of a field; none where the pair lacks it."""
        of_both = {"task": pair.task, "a": pair.means[0], "b": pair.means[1], "delta": pair.delta}
        value = of_both[name] if name in of_both else self._of_side(pair, name)
        is_absent = value is None or (isinstance(value, float) and np.isnan(value))
        return () if is_absent else (value,)

    def _of_side(self, pair: _TaskPair, name: str) -> Any:
        side = "ab".index(name[0])
        table, row, field = self._tables[side], pair.rows[side], name[2:]
        if table.fields[field].kind is FieldKind.NUMBER:
            return float(table.numbers(field)[row])
        return table.page(np.array([row]), count=1, fields=(field,)).rows[0][field]

    def sorted(self, pairs: Sequence[_TaskPair], sort: str) -> list[_TaskPair]:
        """Return the pairs in order; those without the field last. Raises ConfigError."""
        name, is_descending = sort.removeprefix("-"), sort.startswith("-")
        if name not in self.names:
            raise ConfigError(f"tasks are not sorted by {name[:40]!r}", hint=", ".join(self.names))
        keyed = [(pair, self.value(pair, name)) for pair in pairs]
        present = [(values[0], pair) for pair, values in keyed if values]
        present.sort(key=lambda item: (isinstance(item[0], str), item[0]), reverse=is_descending)
        return [pair for _, pair in present] + [pair for pair, values in keyed if not values]


def _task(pair: _TaskPair, a: IndexSnapshot, b: IndexSnapshot) -> ComparedTask:
    (a_rewards, a_rollouts), (b_rewards, b_rollouts) = (
        _rewards(side, row) for side, row in zip((a, b), pair.rows, strict=True)
    )
    values = a.tasks.page(np.array([pair.rows[0]]), count=1, fields=("prompt",)).rows[0]
    return ComparedTask(
        task=pair.task,
        prompt=str(values["prompt"] or "")[:PROMPT_CHARACTERS],
        a=_number(pair.means[0]),
        b=_number(pair.means[1]),
        delta=_number(pair.delta),
        a_rewards=a_rewards,
        b_rewards=b_rewards,
        a_rollouts=a_rollouts,
        b_rollouts=b_rollouts,
    )


def _rewards(snapshot: IndexSnapshot, task_row: int) -> tuple[list[float], list[int]]:
    rows = by_reward(snapshot, snapshot.rollouts_of(task_row))
    rewards = snapshot.rollouts.numbers("reward")[rows]
    indices = snapshot.rollouts.numbers("rollout")[rows]
    scored = np.flatnonzero(~np.isnan(rewards))[:GROUP_ROLLOUTS]
    return rewards[scored].tolist(), indices[scored].astype(int).tolist()


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value

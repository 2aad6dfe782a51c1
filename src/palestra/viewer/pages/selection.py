"""Which tasks can teach: what `palestra select` chooses."""

import shlex
from typing import Final

from palestra.analysis import (
    JudgedTask,
    RateBand,
    Selection,
    SelectionCriteria,
    TaskVerdict,
    selection_of,
)
from palestra.errors import ConfigError
from palestra.viewer.catalog import OpenRun
from palestra.viewer.pages.runs import bars
from palestra.viewer.replies.base import Count
from palestra.viewer.replies.selection import SelectedTask, SelectPage
from palestra.viewer.requests import PageRequest

USUAL_BAND: Final = RateBand(0.1, 0.9)
TASKS_AT_ONCE: Final = 500


def select(request: PageRequest) -> SelectPage:
    """Answer the verdict on each task, and the finished command."""
    opened = request.run
    criteria = _criteria(request)
    overview = opened.overview()
    selection = selection_of(overview.frame, criteria)
    start = request.integer("offset")
    kept_first = sorted(selection.tasks, key=lambda task: task.verdict is not TaskVerdict.KEPT)
    return SelectPage(
        verdicts=[
            Count(name=verdict.value, count=len(selection.of(verdict))) for verdict in TaskVerdict
        ],
        rates=bars(overview.values.pass_rates, "pass_rate", of="tasks"),
        tasks=[_task(task) for task in kept_first[start : start + TASKS_AT_ONCE]],
        offset=start,
        total=len(selection.tasks),
        more_rollouts=_more_rollouts(selection),
        notices=list(selection.notices),
        command=command_of(opened, criteria),
    )


def _criteria(request: PageRequest) -> SelectionCriteria:
    low, high = request.number("low"), request.number("high")
    solved_at = request.number("solved_at")
    by_learnability = request.flag("learnability")
    has_band = low is not None or high is not None or not by_learnability
    band = RateBand(
        USUAL_BAND.low if low is None else low, USUAL_BAND.high if high is None else high
    )
    if not 0 <= band.low <= band.high <= 1:
        raise ConfigError(f"the band {band.low:g}..{band.high:g} is not within 0..1")
    return SelectionCriteria(
        band=band if has_band else None,
        min_rollouts=max(1, request.integer("min_rollouts", 1)),
        max_tokens=request.number("max_tokens"),
        solved_at=SelectionCriteria().solved_at if solved_at is None else solved_at,
        by_learnability=by_learnability,
        decided_only=request.flag("decided_only"),
        limit=request.integer("limit") or None,
    )


def _more_rollouts(selection: Selection) -> int:
    return sum(task.more_rollouts or 0 for task in selection.tasks if task.borderline)


def _task(task: JudgedTask) -> SelectedTask:
    return SelectedTask(
        task=task.task,
        verdict=task.verdict.value,
        scored=task.scored,
        requested=task.requested,
        pass_rate=task.pass_rate,
        low=task.low,
        high=task.high,
        learnability=task.learnability,
        output_tokens=task.mean_output_tokens,
        more_rollouts=task.more_rollouts,
    )


def command_of(opened: OpenRun, criteria: SelectionCriteria) -> str:
    """Return the command that exports the kept tasks."""
    output = opened.place.path
    words = ["palestra", "select", opened.place.argument]
    if criteria.band is not None:
        words += ["--band", f"{criteria.band.low:g}..{criteria.band.high:g}"]
    defaults = SelectionCriteria()
    for name, value, usual in (
        ("--min-rollouts", criteria.min_rollouts, defaults.min_rollouts),
        ("--max-tokens", criteria.max_tokens, defaults.max_tokens),
        ("--solved-at", criteria.solved_at, defaults.solved_at),
        ("--limit", criteria.limit, defaults.limit),
    ):
        if value != usual and value is not None:
            words += [name, f"{value:g}"]
    words += ["--learnability"] if criteria.by_learnability else []
    words += ["--decided-only"] if criteria.decided_only else []
    words += ["--out", str(output.with_name(f"{output.stem}_selected.jsonl"))]
    return shlex.join(words)

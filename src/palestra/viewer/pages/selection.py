"""Which tasks can teach: what `palestra select` chooses."""

import shlex
from pathlib import Path
from typing import Final

from palestra.analysis import (
    JudgedTask,
    RateBand,
    SelectionCriteria,
    TaskVerdict,
    selection_of,
)
from palestra.errors import ConfigError
from palestra.viewer.catalog import OpenRun
from palestra.viewer.pages.runs import bars
from palestra.viewer.replies.base import Count
from palestra.viewer.replies.selection import SelectedTask, SelectPage, VerdictCount
from palestra.viewer.requests import PageRequest, StillIndexing

USUAL_BAND: Final = RateBand(0.1, 0.9)
TASKS_AT_ONCE: Final = 500


def select(request: PageRequest) -> SelectPage:
    """Answer the verdict on each task, and the finished command."""
    opened = request.run
    criteria = _criteria(request)
    if opened.is_behind and not len(opened.snapshot.rollouts):
        raise StillIndexing("no row of the run is read", opened)
    overview = opened.overview()
    selection = selection_of(overview.frame(), criteria)
    start = request.integer("offset")
    kept_first = sorted(selection.tasks, key=lambda task: task.verdict is not TaskVerdict.KEPT)
    return SelectPage(
        verdicts=[
            VerdictCount(
                name=verdict.value,
                count=len(selection.of(verdict)),
                borderline=borderline.count,
                more_rollouts=borderline.more_rollouts,
                on_edge=borderline.on_edge,
            )
            for verdict in TaskVerdict
            for borderline in [selection.borderline(verdict)]
        ],
        failures=[Count(name=n, count=c) for n, c in sorted(selection.failures.items())],
        rates=bars(overview.values.pass_rates, "pass_rate", of="tasks"),
        tasks=[_task(task) for task in kept_first[start : start + TASKS_AT_ONCE]],
        offset=start,
        total=len(selection.tasks),
        notices=list(selection.notices),
        command=command_of(opened, criteria),
        command_note=_note_of(selected_path(opened)),
    )


def _criteria(request: PageRequest) -> SelectionCriteria:
    low, high = request.number("low"), request.number("high")
    solved_at = request.number("solved_at")
    by_learnability = request.flag("learnability")
    has_band = low is not None or high is not None or not by_learnability
    band = RateBand(
        USUAL_BAND.low if low is None else low, USUAL_BAND.high if high is None else high
    )
    if not band.is_valid:
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


def _task(task: JudgedTask) -> SelectedTask:
    return SelectedTask(
        task=task.task,
        verdict=task.verdict.value,
        borderline=task.borderline,
        scored=task.scored,
        requested=task.requested,
        pass_rate=task.pass_rate,
        low=task.low,
        high=task.high,
        learnability=task.learnability,
        output_tokens=task.mean_output_tokens,
        more_rollouts=task.more_rollouts,
    )


def selected_path(opened: OpenRun) -> Path:
    """Return where the command writes the kept tasks."""
    output = opened.place.path
    return output.with_name(f"{output.stem}_selected.jsonl")


def _note_of(path: Path) -> str:
    if path.exists():
        return (
            f"{path.name} exists already: add --overwrite to replace it, or choose another --out."
        )
    return "Run a second time it needs --overwrite, which replaces the first file."


def command_of(opened: OpenRun, criteria: SelectionCriteria) -> str:
    """Return the command that exports the kept tasks."""
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
    words += ["--out", str(selected_path(opened))]
    return shlex.join(words)

"""`select`: the tasks of a run that are worth training on, as a dataset of their own."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

import palestra
from palestra.analysis import (
    JudgedTask,
    RateBand,
    RunFrame,
    Selection,
    SelectionCriteria,
    TaskVerdict,
    check_destination,
    export_selection,
    load_side,
    provenance_path,
    rollout_files,
    selection_of,
    selection_origin,
)
from palestra.cli.console import notice, say, shown
from palestra.cli.tables import print_table
from palestra.errors import ConfigError, RunFailed
from palestra.settings import SelectArgs


def _criteria(args: SelectArgs) -> SelectionCriteria:
    """Raises ConfigError when there is nothing to select by."""
    if args.band is None and not args.learnability:
        raise ConfigError(
            "nothing says which tasks to select",
            hint="--band LOW..HIGH for pass rates, --learnability for the most learnable first",
        )
    return SelectionCriteria(
        band=None if args.band is None else RateBand.parse(args.band),
        min_rollouts=args.min_rollouts,
        max_tokens=args.max_tokens,
        solved_at=args.solved_at,
        by_learnability=args.learnability,
        decided_only=args.decided_only,
        limit=args.limit,
    )


def select_tasks(args: SelectArgs) -> int:
    """Select, export, and print what became of every task."""
    criteria = _criteria(args)
    if args.out is not None:
        check_destination(args.out, rollout_files(args.rollouts), overwrite=args.overwrite)
    frame = load_side(args.rollouts, name="the run").frame
    for text in frame.notices:
        notice(text)
    selection = selection_of(frame, criteria)
    if args.out is not None and selection.kept:
        export_selection(frame, selection, args.out, provenance=_provenance(frame, criteria))
    if args.as_json:
        say(orjson.dumps(_as_json(selection, args), option=orjson.OPT_INDENT_2).decode())
    else:
        _show(selection, args)
    if not selection.kept:
        raise RunFailed(
            "no task was kept" + ("" if args.out is None else f": {args.out} was not written"),
            hint="widen --band, lower --min-rollouts, or raise --max-tokens",
        )
    return 0


def _provenance(frame: RunFrame, criteria: SelectionCriteria) -> dict[str, Any]:
    return {
        "palestra_version": palestra.__version__,
        "command": shlex.join(["palestra", *sys.argv[1:]]),
        "criteria": asdict(criteria),
        "run": selection_origin(frame),
    }


def _show(selection: Selection, args: SelectArgs) -> None:
    print_table(
        ("", "tasks", "borderline", "more rollouts to decide them"),
        [_row(verdict, selection.of(verdict)) for verdict in _present(selection)],
        right="tasks,borderline,more rollouts to decide them",
    )
    say(f"kept {len(selection.kept)} of {len(selection.tasks)} tasks")
    failures = _failures(selection)
    if failures:
        told = ", ".join(f"{name} {count}" for name, count in sorted(failures.items()))
        say(f"not counted, neither as solved nor as failed: {told}")
    if args.out is not None and selection.kept:
        say(f"  {shown(args.out)}")
        say(f"  {shown(provenance_path(args.out))}")


def _present(selection: Selection) -> list[TaskVerdict]:
    """What the table shows: what tasks can always become, and what else some became."""
    always = (TaskVerdict.KEPT, TaskVerdict.TOO_EASY, TaskVerdict.TOO_HARD, TaskVerdict.UNDECIDED)
    return [
        v for v in TaskVerdict if v in always or v is TaskVerdict.NO_ROLLOUTS or selection.of(v)
    ]


def _row(verdict: TaskVerdict, tasks: Sequence[JudgedTask]) -> list[str]:
    unsure = [task for task in tasks if task.borderline]
    more = sum(task.more_rollouts or 0 for task in unsure)
    never = sum(task.more_rollouts is None for task in unsure)
    told = f"{more}" + (f", and {never} on an edge itself" if never else "")
    return [verdict, str(len(tasks)), str(len(unsure)), told if unsure else "-"]


def _failures(selection: Selection) -> Mapping[str, int]:
    """Requests without a reward, by class."""
    found: dict[str, int] = {}
    for task in selection.tasks:
        named = dict(task.failures)
        never = task.requested - task.scored - sum(named.values())
        for name, count in {**named, "never ended": never}.items():
            if count:
                found[name] = found.get(name, 0) + count
    return found


def _as_json(selection: Selection, args: SelectArgs) -> dict[str, Any]:
    unsure = [task for task in selection.tasks if task.borderline]
    return {
        "out": None if args.out is None or not selection.kept else str(args.out),
        "counts": {verdict.value: len(selection.of(verdict)) for verdict in TaskVerdict},
        "kept": [selection.tasks[position].task for position in selection.kept],
        "failures": _failures(selection),
        "borderline": [orjson.loads(orjson.dumps(task)) for task in unsure],
    }

"""`select`: export the tasks of a run that are worth training on, as a new dataset."""

import shlex
import sys
from collections.abc import Sequence

from palestra.analysis import (
    JudgedTask,
    RateBand,
    Selection,
    SelectionCriteria,
    TaskVerdict,
    amount,
    provenance_path,
)
from palestra.api import TaskSelection, select
from palestra.cli.console import notice, say, say_json
from palestra.cli.tables import print_table
from palestra.errors import ConfigError, RunFailed
from palestra.settings import SelectArgs
from palestra.system import shown


def select_tasks(args: SelectArgs) -> int:
    """Select tasks, export them, and print how many tasks got each verdict."""
    _refuse_unused(args)
    criteria = SelectionCriteria(
        band=None if args.band is None else RateBand.parse(args.band),
        min_rollouts=args.min_rollouts,
        max_tokens=args.max_tokens,
        solved_at=args.solved_at,
        by_learnability=args.learnability,
        decided_only=args.decided_only,
        limit=args.limit,
    )
    command = shlex.join(["palestra", *sys.argv[1:]])
    selection = select(
        args.rollouts, criteria, out=args.out, overwrite=args.overwrite, command=command
    )
    for text in selection.notices:
        notice(text)
    if args.as_json:
        out = None if args.out is None or not selection.kept else str(args.out)
        say_json({"out": out, **TaskSelection(selection, criteria, args.rollouts).to_dict()})
    else:
        _show(selection, args)
    if not selection.kept:
        raise RunFailed(
            "no task was kept" + ("" if args.out is None else f": {args.out} was not written"),
            hint="widen --band, lower --min-rollouts, or raise --max-tokens",
        )
    return 0


def _refuse_unused(args: SelectArgs) -> None:
    """Raise ConfigError: an option was set that does nothing without another."""
    if args.overwrite and args.out is None:
        raise ConfigError("--overwrite does nothing without --out: add --out FILE")
    if args.decided_only and args.band is None:
        raise ConfigError("--decided-only does nothing without --band: add --band LOW..HIGH")


def _show(selection: Selection, args: SelectArgs) -> None:
    print_table(
        ("", "tasks", "borderline", "more rollouts to decide them"),
        [_row(verdict, selection.of(verdict)) for verdict in _present(selection)],
        right="tasks,borderline,more rollouts to decide them",
    )
    say(f"kept {len(selection.kept)} of {amount(len(selection.tasks), 'task')}")
    if selection.failures:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(selection.failures.items()))
        say(f"not counted, neither as solved nor as failed: {counts}")
        say("  (the command that collected them tries them again, with --resume)")
    if args.out is not None and selection.kept:
        say(f"  {shown(args.out)}")
        say(f"  {shown(provenance_path(args.out))}")


def _present(selection: Selection) -> list[TaskVerdict]:
    """Return the verdicts in the table: the usual ones always, a rare one only when a task has it."""
    always = (TaskVerdict.KEPT, TaskVerdict.TOO_EASY, TaskVerdict.TOO_HARD, TaskVerdict.UNDECIDED)
    return [
        v for v in TaskVerdict if v in always or v is TaskVerdict.NO_ROLLOUTS or selection.of(v)
    ]


def _row(verdict: TaskVerdict, tasks: Sequence[JudgedTask]) -> list[str]:
    unsure = [task for task in tasks if task.borderline]
    rollouts_needed = sum(task.more_rollouts or 0 for task in unsure)
    never = sum(task.more_rollouts is None for task in unsure)
    needed = f"{rollouts_needed}" + (f", and {never} on an edge itself" if never else "")
    return [verdict, str(len(tasks)), str(len(unsure)), needed if unsure else "-"]

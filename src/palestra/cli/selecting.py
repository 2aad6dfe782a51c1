"""`select`: export the tasks of a run that are worth training on, as a new dataset."""

import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from palestra.analysis import (
    NOTHING_FAILED,
    RateBand,
    Selection,
    SelectionCriteria,
    TaskVerdict,
    advice_about,
    amount,
    environment_names,
    refuse_with_failed,
    rollout_files,
    run_head,
)
from palestra.api import TaskSelection, select
from palestra.cli.console import notice, say, say_json
from palestra.cli.recollecting import command_for
from palestra.cli.tables import print_table
from palestra.config import MASK, NamedFile
from palestra.errors import ConfigError, RunFailed
from palestra.rollouts import provenance_path
from palestra.schema import SELECT_FAILED
from palestra.settings import SelectArgs
from palestra.system import shown

_OF_REWARDS: Final = (
    "band",
    "min_rollouts",
    "max_tokens",
    "learnability",
    "decided_only",
    "solved_at",
)
"""The options that judge the rewards of a task; a failed rollout has none."""


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
        failed=args.failed,
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
            hint=NOTHING_FAILED
            if args.failed
            else "widen --band, lower --solved-at or --min-rollouts, or raise --max-tokens",
        )
    return 0


def _refuse_unused(args: SelectArgs) -> None:
    """Raise ConfigError: two options contradict each other, or one does nothing without another."""
    chosen = [name for name in _OF_REWARDS if name in args.model_fields_set]
    if args.failed:
        flags = [f"--{name.replace('_', '-')}" for name in chosen]
        refuse_with_failed(flags, failed="--failed")
    if args.overwrite and args.out is None:
        raise ConfigError("--overwrite does nothing without --out: add --out FILE")
    if args.decided_only and args.band is None:
        raise ConfigError("--decided-only does nothing without --band: add --band LOW..HIGH")


def _show(selection: Selection, args: SelectArgs) -> None:
    columns = "tasks" if args.failed else "tasks,borderline,more rollouts to decide them"
    heads = ("", *columns.split(","))
    print_table(
        heads,
        [_row(selection, v)[: len(heads)] for v in _present(selection, failed=args.failed)],
        right=columns,
    )
    say(f"kept {len(selection.kept)} of {amount(len(selection.tasks), 'task')}")
    _show_failures(selection, args)
    if args.out is not None and selection.kept:
        say(f"  {shown(args.out)}")
        say(f"  {shown(provenance_path(args.out))}")
        command = _next_command(args.rollouts, args.out)
        say(f"next: {command}")
        if MASK in command:
            say(f"  (write the key for {MASK})")
        if not args.failed and len(selection.kept) < len(selection.tasks):
            say(
                "  (compare runs of these tasks with each other, not with this run: its rewards chose them)"
            )


def _next_command(rollouts: str, selected: Path) -> str:
    """Return the command that collects the selected tasks; in words when the manifest has none."""
    files = rollout_files(rollouts)
    command = command_for(run_head(files).command, selected)
    if not command:
        return f"the command that collected the run, with --input {shown(selected)} and another --output"
    return shlex.join(_as_seen_from_here(shlex.split(command), files[0]))


def _as_seen_from_here(words: Iterable[str], rollouts: Path) -> Iterator[str]:
    """Yield the words of a recorded command, with the run's environments in one file as the working
    directory has them.
    """
    environments = {
        Path(file.path).name: file
        for name in environment_names(rollouts)
        if (file := NamedFile.parse(name)) is not None and Path(file.path).exists()
    }
    for word in words:
        typed = NamedFile.parse(word)
        file = None if typed is None else environments.get(Path(typed.path).name)
        if typed is None or file is None or Path(typed.path).exists():
            yield word
        else:
            yield str(NamedFile(shown(Path(file.path)), typed.class_name))


def _show_failures(selection: Selection, args: SelectArgs) -> None:
    """Print the number of rollouts without a reward by class, and how to collect them again."""
    if not selection.failures:
        return
    counts = ", ".join(f"{name} {count}" for name, count in sorted(selection.failures.items()))
    if args.failed:
        say(f"rollouts without a reward: {counts}")
        if args.out is None and selection.kept:
            say(f"next: {advice_about(args.rollouts)(SELECT_FAILED)}")
        return
    say(f"not counted, neither as solved nor as failed: {counts}")
    advice = selection.unscored.what_helps()
    if SELECT_FAILED not in advice:
        advice += f"; `{SELECT_FAILED}` writes their tasks for a run of their own"
    say(f"  what helps: {advice_about(args.rollouts)(advice)}")


def _present(selection: Selection, *, failed: bool) -> list[TaskVerdict]:
    """Return the verdicts in the table: the usual ones always, a rare one only when a task has it."""
    always = (
        {TaskVerdict.KEPT, TaskVerdict.ALL_SCORED}
        if failed
        else {*TaskVerdict} - {TaskVerdict.TOO_LONG, TaskVerdict.OVER_LIMIT, TaskVerdict.ALL_SCORED}
    )
    return [verdict for verdict in TaskVerdict if verdict in always or selection.of(verdict)]


def _row(selection: Selection, verdict: TaskVerdict) -> list[str]:
    unsure = selection.borderline(verdict)
    on_edge = f", and {unsure.on_edge} on an edge itself" if unsure.on_edge else ""
    needed = f"{unsure.more_rollouts}{on_edge}" if unsure.count else "-"
    return [verdict, str(len(selection.of(verdict))), str(unsure.count), needed]

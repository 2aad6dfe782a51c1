"""What `view` does without a server: `--text` and `--json` print, `--export` writes one HTML file."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from palestra.analysis import amount, visible_line
from palestra.api import secret_mask
from palestra.cli.console import notice, say, say_json
from palestra.cli.listing import mean_text, started_text, state_text
from palestra.cli.showing import show_rollout
from palestra.cli.tables import print_table
from palestra.config import masked_texts
from palestra.errors import ConfigError, InputDataError
from palestra.records import RolloutRecord, rollout_key, rollout_record
from palestra.rollouts import outputs_of
from palestra.schema import RunPaths
from palestra.settings import ViewArgs
from palestra.system import shown
from palestra.viewer import (
    ROLLOUT_FIELDS,
    TASK_FIELDS,
    OpenRun,
    Places,
    RunPlace,
    asks_for_tasks,
    export,
    matching_rows,
    matching_values,
    whole_snapshot,
)

_ANSWER_CHARACTERS: Final = 60
_NAMED: Final = 5
_HTML: Final = frozenset({".html", ".htm"})


def print_runs(args: ViewArgs, run_places: Places, rollout: str | None) -> None:
    """Print one rollout, the rollouts or tasks that match, or the list of runs."""
    if rollout is not None:
        _print_rollout(args, _only(rollout, args.paths[:-1], run_places), rollout)
        return
    runs = run_places.runs
    if len(runs) == 1:
        _print_matching(args, runs[0])
    elif args.filter:
        _print_matching(args, _only("--filter", args.paths, run_places))
    else:
        _print_runs(args, runs)


def _print_rollout(args: ViewArgs, run_place: RunPlace, rollout: str) -> None:
    record: RolloutRecord = rollout_record(run_place.outputs, *rollout_key(rollout))
    record = record.masked(secret_mask())
    if args.as_json:
        say_json(record.to_dict())
    else:
        show_rollout(record, shown(run_place.path))


def _print_runs(args: ViewArgs, runs: Sequence[RunPlace]) -> None:
    entries = []
    for run_place in runs:
        with _opened(args, run_place) as run:
            whole_snapshot(run)
            entries.append(run.entry())
    if args.as_json:
        say_json([entry.to_dict() for entry in entries])
        return
    print_table(
        ("run", "environment", "model", "state", "mean reward", "started"),
        [
            (shown(e.path), e.environment, e.model, state_text(e), mean_text(e), started_text(e))
            for e in entries
        ],
    )


def _print_matching(args: ViewArgs, run_place: RunPlace) -> None:
    """Print the rollouts that match, or the tasks when the query is about a field that only tasks
    have.
    """
    with _opened(args, run_place) as run:
        snapshot = whole_snapshot(run)
        if (no_field := run.group_error) is not None:
            raise no_field
        is_of_tasks = asks_for_tasks(snapshot, args.filter)
        table = snapshot.tasks if is_of_tasks else snapshot.rollouts
        rows = table.select(args.filter) if is_of_tasks else matching_rows(snapshot, args.filter)
        fields = TASK_FIELDS if is_of_tasks else ROLLOUT_FIELDS
        mask = secret_mask()
        values = [masked_texts(row, mask) for row in matching_values(table, rows, fields)]
        absent = [] if values else table.absent_values(args.filter)
        problems = [*run.notices, *filter(None, [run.problem])]
        problems += [f"{p.path} line {p.line}: {p.reason}" for p in snapshot.problems]
        total = len(table)
    for text in [*problems, *absent]:
        notice(text)
    if args.as_json:
        say_json([dict(row) for row in values])
    elif is_of_tasks:
        _, *names, _ = TASK_FIELDS
        print_table(
            TASK_FIELDS,
            [_task_row(row, names) for row in values],
            right=",".join(names),
        )
        say(f"{len(values):,} of {amount(total, 'task')}")
    else:
        print_table(
            ("rollout", "outcome", "reward", "agent", "tokens", "answer or error"),
            [_text_row(row) for row in values],
            right="reward,tokens",
        )
        say(f"{len(values):,} of {amount(total, 'rollout')}")


def _task_row(row: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    values = (row.get(name) for name in names)
    cells = ("-" if v is None else v if isinstance(v, str) else f"{v:.3g}" for v in values)
    return (
        str(row.get("task")),
        *cells,
        visible_line(str(row.get("prompt") or ""), _ANSWER_CHARACTERS),
    )


def _text_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    reward, tokens = row.get("reward"), row.get("tokens.out")
    text = str(row.get("error_message") or row.get("last_answer") or "")
    return (
        f"{row.get('task')}:{row.get('rollout')}",
        str(row.get("outcome") or ""),
        "-" if reward is None else f"{reward:g}",
        str(row.get("agent") or ""),
        "-" if tokens is None else f"{tokens:g}",
        visible_line(text, _ANSWER_CHARACTERS),
    )


def export_matching(args: ViewArgs, run_places: Places, path: Path) -> int:
    """Write the rollouts that match as one HTML file. Raises ConfigError: `path` is a file of a run."""
    for run_place in run_places.runs:
        if any(RunPaths(output).writes(path) for output in run_place.outputs):
            raise ConfigError(
                f"--export: {shown(path)} is a file of the run {shown(run_place.path)}",
                hint="name another file",
            )
    if path.exists() and path.suffix not in _HTML:
        raise ConfigError(
            f"--export: {shown(path)} exists, and its name is not of an HTML file",
            hint="name another file, such as rollouts.html",
        )
    with _opened(args, _only("--export", args.paths, run_places)) as run:
        snapshot = whole_snapshot(run)
        rows = matching_rows(snapshot, args.filter)
        if not len(rows):
            absent = snapshot.rollouts.absent_values(args.filter)
            reason = f": {'; '.join(absent)}" if absent else ""
            raise ConfigError(f"no rollout matches{reason}", hint="widen --filter")
        count = export(run, snapshot, rows, path, query=args.filter, mask=secret_mask())
    say(f"{shown(path)}: {count:,} of {len(rows):,} rollouts")
    return 0


def _only(about: str, paths: Sequence[str], run_places: Places) -> RunPlace:
    """Return the only run. A folder stands for the run that was collected in it, as in `palestra
    show`, also with re-verified copies beside it. Raises ConfigError: there are several.
    """
    if len(run_places.runs) == 1:
        return run_places.runs[0]
    if len(paths) <= 1:
        with contextlib.suppress(InputDataError):
            return RunPlace.of(outputs_of(paths[0] if paths else Path()))
    names = [shown(run_place.path) for run_place in run_places.runs[:_NAMED]]
    further = len(run_places.runs) - len(names)
    raise ConfigError(
        f"{about} is about one run, and there are {len(run_places.runs)}",
        hint="name one: " + ", ".join(names) + (f" and {further} more" if further else ""),
    )


@contextlib.contextmanager
def _opened(args: ViewArgs, run_place: RunPlace) -> Iterator[OpenRun]:
    with contextlib.closing(OpenRun(run_place, args.group_by, None)) as run:
        yield run

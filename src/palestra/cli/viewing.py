"""`view`: the local web app over runs, or what it would show as text, JSON or one HTML file."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from palestra.analysis import amount, parse_query
from palestra.api import RolloutRecord, rollout_record, secret_mask
from palestra.cli.console import notice, say, say_json
from palestra.cli.listing import mean_text, started_text, state_text
from palestra.cli.paging import paged
from palestra.cli.showing import rollout_key, show_rollout
from palestra.cli.tables import print_table
from palestra.errors import ConfigError
from palestra.settings import ViewArgs
from palestra.system import shown
from palestra.viewer import (
    ROLLOUT_FIELDS,
    TASK_FIELDS,
    Catalog,
    Door,
    OpenRun,
    Places,
    RunPlace,
    TokenTexts,
    Viewer,
    asks_for_tasks,
    export,
    find_places,
    forget,
    matching_rows,
    matching_values,
    serve,
    whole_snapshot,
)

_ROLLOUT: Final = re.compile(r".+:\d+")
_ANSWER_CHARACTERS: Final = 60


def view(args: ViewArgs) -> int:
    """Show runs in the browser until Ctrl-C; or print, export or forget them."""
    _refuse_unused(args)
    paths, rollout = _split(args.paths)
    parse_query(args.filter)
    run_places = find_places(paths)
    if args.forget:
        return _forget(run_places)
    if args.export is not None:
        return _export(args, run_places, args.export)
    if args.as_text or args.as_json:
        with paged():
            _print(args, run_places, rollout)
        return 0
    if rollout is not None:
        raise ConfigError(f"{rollout} is for --text and --json", hint="palestra view RUN --text")
    return _serve(args, paths, run_places)


_OF_SERVER: Final = ("port", "host", "allow_host", "no_browser", "tokenizer")
"""The settings of the server, which the other modes do not start."""


def _refuse_unused(args: ViewArgs) -> None:
    """Raise ConfigError: two options contradict each other, or one does nothing."""
    modes = {
        "--export": args.export is not None,
        "--forget": args.forget,
        "--json": args.as_json,
        "--text": args.as_text,
    }
    chosen = [flag for flag, is_set in modes.items() if is_set]
    if len(chosen) > 1:
        raise ConfigError(f"{' and '.join(chosen)} cannot be combined")
    for name in _OF_SERVER if chosen else ():
        if name in args.model_fields_set:
            raise ConfigError(
                f"--{name.replace('_', '-')} does nothing with {chosen[0]}: no server is started"
            )


def _split(words: Sequence[str]) -> tuple[list[str], str | None]:
    """Return the paths, and the rollout when the last word names one."""
    if len(words) > 1 and _ROLLOUT.fullmatch(words[-1]) and not Path(words[-1]).exists():
        return [*words[:-1]], words[-1]
    return [*words], None


def _serve(args: ViewArgs, paths: Sequence[str], run_places: Places) -> int:
    tokenizer = None if args.tokenizer is None else TokenTexts.load(args.tokenizer)
    door = Door(args.host, args.port, args.allow_host, opens_browser=not args.no_browser)
    catalog = Catalog(run_places, group_by=args.group_by, find=lambda: find_places(paths))
    with catalog, contextlib.suppress(KeyboardInterrupt):
        viewer = Viewer(catalog, tuple(paths), args.filter, tokenizer, Path.cwd())
        serve(viewer, door, say)
    return 0


def _forget(run_places: Places) -> int:
    freed = sum(forget(run_place.outputs) for run_place in run_places.runs)
    say(f"removed {freed:,} bytes of indexes; the runs are as they were")
    return 0


# Text and JSON


def _print(args: ViewArgs, run_places: Places, rollout: str | None) -> None:
    if rollout is not None:
        _print_rollout(args, _only(run_places), rollout)
    elif len(run_places.runs) == 1:
        _print_matching(args, run_places.runs[0])
    elif args.filter:
        raise ConfigError(
            f"--filter is about one run, and there are {len(run_places.runs)}",
            hint="name the run's output",
        )
    else:
        _print_runs(args, run_places)


def _only(run_places: Places) -> RunPlace:
    if len(run_places.runs) == 1:
        return run_places.runs[0]
    raise ConfigError(
        f"there are {len(run_places.runs)} runs, and a rollout is of one",
        hint="name the run's output",
    )


def _print_rollout(args: ViewArgs, run_place: RunPlace, rollout: str) -> None:
    record: RolloutRecord = rollout_record(run_place.outputs, *rollout_key(rollout))
    if args.as_json:
        say_json(record.to_dict())
    else:
        show_rollout(record, shown(run_place.path))


@contextlib.contextmanager
def _opened(args: ViewArgs, run_place: RunPlace) -> Iterator[OpenRun]:
    with contextlib.closing(OpenRun(run_place, args.group_by, None)) as run:
        yield run


def _print_runs(args: ViewArgs, run_places: Places) -> None:
    entries = []
    for run_place in run_places.runs:
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
        is_of_tasks = asks_for_tasks(snapshot, args.filter)
        table = snapshot.tasks if is_of_tasks else snapshot.rollouts
        rows = table.select(args.filter) if is_of_tasks else matching_rows(snapshot, args.filter)
        values = list(matching_values(table, rows, TASK_FIELDS if is_of_tasks else ROLLOUT_FIELDS))
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
    return str(row.get("task")), *cells, _short(str(row.get("prompt") or ""))


def _text_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    reward, tokens = row.get("reward"), row.get("tokens.out")
    text = str(row.get("error_message") or row.get("last_answer") or "")
    return (
        f"{row.get('task')}:{row.get('rollout')}",
        str(row.get("outcome") or ""),
        "-" if reward is None else f"{reward:g}",
        str(row.get("agent") or ""),
        "-" if tokens is None else f"{tokens:g}",
        _short(text),
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _ANSWER_CHARACTERS else f"{line[: _ANSWER_CHARACTERS - 1]}…"


def _export(args: ViewArgs, run_places: Places, path: Path) -> int:
    with _opened(args, _only(run_places)) as run:
        snapshot = whole_snapshot(run)
        rows = matching_rows(snapshot, args.filter)
        if not len(rows):
            absent = snapshot.rollouts.absent_values(args.filter)
            reason = f": {'; '.join(absent)}" if absent else ""
            raise ConfigError(f"no rollout matches{reason}", hint="widen --filter")
        count = export(run, snapshot, rows, path, query=args.filter, mask=secret_mask())
    say(f"{shown(path)}: {count:,} of {len(rows):,} rollouts")
    return 0

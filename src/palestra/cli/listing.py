"""`list` and `runs`: tables of the components and of the runs that there are."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from palestra import api
from palestra.api import ComponentKindName, ComponentSummary, RunEntry, RunState
from palestra.cli.console import notice, say, say_json
from palestra.cli.tables import print_table
from palestra.config import did_you_mean
from palestra.errors import ConfigError
from palestra.settings import ListArgs, RunsArgs
from palestra.system import shown

_HAVE_TASKS: Final = frozenset({"environments", "benchmarks"})


def list_components(args: ListArgs) -> int:
    """Print one table for each kind of component, first of the project, then of Palestra."""
    words, kinds = args.words, _kinds(args)
    if args.kind is None and words == kinds:
        words = ()
    summaries = api.list_components(words, kinds)
    if args.as_json:
        say_json([summary.to_dict() for summary in summaries])
        return 0
    if not summaries and words:
        names = {
            text
            for summary in api.list_components((), kinds)
            for text in (summary.name, summary.domain)
            if text
        }
        other_kinds = ", ".join(kind for kind in api.KINDS if kind != "environments")
        raise ConfigError(
            f"nothing matches {' '.join(words)!r}{did_you_mean(' '.join(words), names)}",
            hint="`palestra list` shows all environments, `palestra list KIND` all of another kind: "
            f"{other_kinds}",
        )
    if not summaries:
        say("nothing is there")
        return 0
    for kind in kinds:
        for is_own in (True, False):
            chosen = [s for s in summaries if s.kind == kind and s.is_own == is_own]
            _print_components(chosen, f"{kind} of {'this project' if is_own else 'Palestra'}")
    if len(kinds) == 1:
        others = " | ".join(kind for kind in api.KINDS if kind not in kinds)
        notice(f"more: palestra list --kind {others}; palestra show NAME")
    return 0


def _kinds(args: ListArgs) -> tuple[ComponentKindName, ...]:
    """Return the kinds to list. One word that is the name of a kind is that kind: `list agents`."""
    if args.kind is not None:
        return (args.kind,)
    typed_kind = tuple(kind for kind in api.KINDS if (kind,) == args.words)
    return typed_kind or (api.KINDS if args.words else ("environments",))


def _print_components(summaries: Sequence[ComponentSummary], title: str) -> None:
    if not summaries:
        return
    if summaries[0].kind in _HAVE_TASKS:
        print_table(
            ("name", "description", "domain", "turns", "rows", "needs", "licence"),
            [
                (
                    s.name,
                    s.description,
                    s.domain,
                    s.turns,
                    _rows(s),
                    _needs(s),
                    ", ".join(s.licences),
                )
                for s in summaries
            ],
            title=title,
            right="rows",
            spare="licence,domain,needs,rows,turns",
        )
    else:
        print_table(
            ("name", "description", "needs"),
            [(s.name, s.description, _needs(s)) for s in summaries],
            title=title,
            spare="needs",
        )


def _rows(summary: ComponentSummary) -> str:
    if summary.makes_rows:
        return "any"
    return "" if summary.rows is None else str(summary.rows)


def _needs(summary: ComponentSummary) -> str:
    return ", ".join(summary.needs)


def list_runs(args: RunsArgs) -> int:
    """Print one line for each run, the newest first."""
    entries = api.list_runs(args.folder)
    if args.as_json:
        say_json([entry.to_dict() for entry in entries])
        return 0
    if not entries:
        where = args.folder or api.RUNS_FOLDER
        say(f"no runs in {shown(where)}")
        notice("hint: palestra eval NAME makes one; palestra runs FOLDER looks elsewhere")
        return 0
    in_folder = Counter(entry.path.parent for entry in entries)
    print_table(
        ("environment", "model", "state", "scored", "failed", "mean reward", "started", "path"),
        [
            (
                entry.environment,
                entry.model,
                state_text(entry),
                f"{entry.scored}/{entry.requested}",
                entry.failed or "",
                mean_text(entry),
                started_text(entry),
                shown(_short_path(entry, is_only=in_folder[entry.path.parent] == 1)),
            )
            for entry in entries
        ],
        right="scored,failed,mean reward,started",
        spare="started,model,failed,environment",
    )
    for entry in entries:
        if entry.problem:
            notice(f"warning: {shown(entry.path)}: {entry.problem}")
    return 0


def _short_path(entry: RunEntry, *, is_only: bool) -> Path:
    """Return the folder of the only run in it, which `palestra show` accepts too. A run in shards
    has its folder for a path.
    """
    is_folder = is_only and entry.path.parent not in {Path(), Path("/")}
    is_folder = is_folder and not entry.path.is_dir()
    return entry.path.parent if is_folder else entry.path


def state_text(entry: RunEntry) -> str:
    """Return the state of a run, with the part that has ended unless it is done."""
    match entry.state:
        case RunState.DONE:
            return "done"
        case RunState.RUNNING:
            return f"running {entry.ended:.0%}"
    return f"stopped at {entry.ended:.0%}"


def mean_text(entry: RunEntry) -> str:
    """Return the mean reward with its interval; `-` without a scored rollout."""
    if entry.mean_reward is None:
        return "-"
    interval = entry.interval
    return f"{entry.mean_reward:.3f}" + (
        "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
    )


def started_text(entry: RunEntry) -> str:
    """Return when a run was started, in the user's time zone."""
    return f"{entry.started_at.astimezone():%Y-%m-%d %H:%M}"

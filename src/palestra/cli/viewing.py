"""`view`: the local web app over runs, or what it would show as text, JSON or one HTML file."""

import contextlib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from palestra.analysis import parse_query
from palestra.cli.console import STOPPED, notice, say, warn_all
from palestra.errors import ConfigError
from palestra.settings import ViewArgs, ViewerArgs, args_from, load
from palestra.system import keep_little_freed_memory
from palestra.viewer import (
    Catalog,
    Door,
    Places,
    TokenTexts,
    Viewer,
    check_group_field,
    find_places,
    forget,
    serve,
)

_ROLLOUT: Final = re.compile(r".+:\d+")


def view(args: ViewArgs) -> int:
    """Show runs in the browser until Ctrl-C; or print, export or forget them."""
    _refuse_unused(args)
    paths, rollout = _split(args.paths)
    parse_query(args.filter)
    run_places = find_places(paths)
    if args.forget:
        return _forget(run_places)
    if args.group_by is not None:
        check_group_field(run_places.runs, args.group_by)
    if args.export is not None or args.as_text or args.as_json:
        return _without_server(args, run_places, rollout)
    if rollout is not None:
        words = shlex.join(["palestra", "view", *args.paths, "--text"])
        raise ConfigError(f"{rollout} is for --text and --json", hint=words)
    return _serve(args, paths, run_places)


def ng_viewer(overrides: list[str]) -> int:
    """Run `ng_viewer +jsonl_fpath=rollouts.jsonl`: show one run at NeMo Gym's port, without a browser."""
    config = load(overrides, ng=True, require_all=False, required=())
    warn_all(config.warnings)
    args = args_from(ViewerArgs, config.tree, hint="+jsonl_fpath=results/rollouts.jsonl")
    return view(
        ViewArgs(
            paths=(args.jsonl_fpath,),
            host=args.server_host,
            port=args.server_port,
            no_browser=True,
        )
    )


def _without_server(args: ViewArgs, run_places: Places, rollout: str | None) -> int:
    # imported here: the server needs none of it, and the first page waits for the imports
    from palestra.cli.paging import paged
    from palestra.cli.view_text import export_matching, print_runs

    if args.export is not None:
        return export_matching(args, run_places, args.export)
    with paged():
        print_runs(args, run_places, rollout)
    return 0


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
    keep_little_freed_memory()
    tokenizer = None if args.tokenizer is None else TokenTexts.load(args.tokenizer)
    door = Door(args.host, args.port, args.allow_host, opens_browser=not args.no_browser)
    catalog = Catalog(run_places, group_by=args.group_by, find=lambda: find_places(paths))
    with catalog, contextlib.suppress(KeyboardInterrupt):
        viewer = Viewer(catalog, tuple(paths), args.filter, tokenizer, Path.cwd())
        serve(viewer, door, say)
    notice(STOPPED)
    return 0


def _forget(run_places: Places) -> int:
    freed = sum(forget(run_place.outputs) for run_place in run_places.runs)
    say(f"removed {freed:,} bytes of indexes; the runs are as they were")
    return 0

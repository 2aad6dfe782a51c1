"""`run`, `status`, `config`: start a fleet, and show its state."""

import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from palestra.api import (
    WAITING_LONGER,
    CommandObserver,
    ask_endpoints,
    unless,
    warn_of_endpoints,
)
from palestra.cli.console import in_words_called, masking, notice, say, say_json, warn_all
from palestra.cli.guard import tell_guard
from palestra.cli.loop import run_to_end, serve_until_stopped
from palestra.cli.tables import print_lines_or_blocks, print_table
from palestra.config import (
    ConfigTree,
    ResolvedConfig,
    domain_problems,
    dump_yaml,
    raise_problems,
    redact,
)
from palestra.errors import ConfigError
from palestra.fleet import (
    PROCESS,
    Fleet,
    HeadAddress,
    NoFleet,
    RunningInstance,
    ServerStatus,
    attach,
    check_head_port,
    head_server,
    http_transport,
    probe,
    summary_line,
)
from palestra.settings import StatusArgs, load

STATUS_FIELDS: Final = ("", "state", "type", "url", "pid", "up", "reason", "endpoint", "retries")


def run_fleet(
    overrides: list[str],
    *,
    ng: bool,
    extra: ConfigTree | None = None,
    endpoints_within_s: float | None = None,
    how_to_configure: str = 'pass config files: "+config_paths=[a.yaml,b.yaml]"',
) -> int:
    """Start every instance and the head server; serve until the user stops them, or until one dies.

    `ng`: the command is one of NeMo Gym, where a resources server must have a domain.
    `endpoints_within_s`: first wait so many seconds for the endpoints of the models, unless the
    configuration sets another time; None: do not wait. `how_to_configure`: the hint when the
    configuration has no instance.
    """
    config = load(overrides, ng=ng, extra=extra)
    warn_all(config.warnings)
    if not config.instances:
        raise ConfigError(
            "no server instance is configured",
            hint=how_to_configure,
        )
    if ng:
        refuse_bad_values(config)
    check_head_port(config.tree)
    with masking(config.secrets):
        return serve_until_stopped(_serve(config, endpoints_within_s))


async def _serve(config: ResolvedConfig, endpoints_within_s: float | None) -> None:
    started = time.monotonic()
    count = len(config.instances)
    notice(f"starting {count} servers …")
    fleet = Fleet(
        config, default_placement=PROCESS, on_line=lambda who, line: notice(f"[{who}] {line}")
    )
    tell_guard(ray_folder=str(fleet.ray_folder))
    async with fleet, head_server(fleet) as run:
        tell_guard(fleet=asdict(run))
        show_instances(fleet.instances.values())
        if endpoints_within_s is not None:
            await unless(fleet.watch(), _wait_for_models(config, fleet, endpoints_within_s))
        say(f"All {count} / {count} servers ready! ({time.monotonic() - started:.1f} s)")
        say(f"head server: {run.url}; stop with Ctrl-C")
        if endpoints_within_s is None:
            await unless(
                fleet.watch(),
                warn_of_endpoints(fleet.client, config.origins_of_secrets, notice),
            )
        await fleet.watch()


def refuse_bad_values(config: ResolvedConfig) -> None:
    """Raise ConfigError for the values that NeMo Gym refuses in every command: a domain or a
    dataset's type that does not exist.
    """
    from palestra.datasets import dataset_type_problems

    raise_problems((*domain_problems(config), *dataset_type_problems(config.instances.values())))


async def _wait_for_models(config: ResolvedConfig, fleet: Fleet, within_s: float) -> None:
    """Wait until the endpoint of every model server answers.

    Raises RunFailed: an endpoint does not answer in time.
    """
    tree = {WAITING_LONGER: within_s, **config.tree}
    await ask_endpoints(fleet.client, tree, config.origins_of_secrets, notice)


def show_instances(instances: Any) -> None:
    """Print the table of a fleet's instances."""
    rows: list[RunningInstance] = list(instances)
    print_table(
        ("name", "type", "placement", "url", "state"),
        [
            (
                f"{i.name} ({i.role})" if i.role else i.name,
                i.server_type,
                i.placement,
                i.urls[0] if i.urls else "in-process",
                i.state,
            )
            for i in rows
        ],
        spare="type,placement",
    )


def _print_notice(text: str) -> None:
    notice(in_words_called(text))


OBSERVER: Final = CommandObserver(tell=_print_notice, fleet_started=show_instances, note=tell_guard)
"""Prints what a command does while it runs, and passes it on to the command's guard."""


def status(args: StatusArgs, overrides: list[str], *, ng: bool = False) -> int:
    """Print one line per server of the running fleet, then how many are healthy."""
    if args.rollouts:
        from palestra.cli.rollouts_status import rollouts_status

        return rollouts_status(overrides, as_json=args.as_json)
    tree = load(overrides, ng=ng, require_all=False).tree
    wait_s = args.wait
    if wait_s is None and tree.get("wait") is not None:
        wait_s = float(tree["wait"])
    statuses = run_to_end(_statuses(tree, wait_s))
    if args.as_json:
        _print_json(statuses)
    elif statuses is None:
        say("No Palestra servers found running.")
        notice(in_words_called("hint: start some with `palestra run`"))
    else:
        show_statuses(statuses)
        say(summary_line(statuses))
    ready = bool(statuses) and all(server.healthy for server in statuses or ())
    # Scripts of the field call ng_status in a loop and read its last line.
    return 0 if ready or (ng and wait_s is None) else 1


def show_statuses(statuses: Sequence[ServerStatus]) -> None:
    """Print one line per server, or one block per server when a line is wider than the terminal."""
    lines = [_status_line(server) for server in statuses]
    print_lines_or_blocks(lines, STATUS_FIELDS, map(_status_fields, statuses))


async def _statuses(tree: ConfigTree, wait_s: float | None) -> list[ServerStatus] | None:
    address = HeadAddress.from_tree(tree)
    http = http_transport(tree)
    deadline = time.monotonic() + (wait_s or 0)
    try:
        while True:
            statuses: list[ServerStatus] | None = None
            with contextlib.suppress(NoFleet):
                statuses = await probe(await attach(address, http), http)
            all_healthy = statuses is not None and all(server.healthy for server in statuses)
            if all_healthy or time.monotonic() >= deadline:
                return statuses
            await asyncio.sleep(0.3)
    finally:
        await http.aclose()


def _status_fields(server: ServerStatus) -> tuple[str, ...]:
    """Return the texts of one server's status, in the order of `STATUS_FIELDS`."""
    mark = "✓" if server.healthy else "✗"
    url, pid = server.url or "in-process", str(server.pid or "-")
    head = (f"{mark} {server.name}", server.state.value, server.server_type)
    return (
        *head,
        url,
        pid,
        f"{server.uptime_s:.0f} s",
        server.reason,
        server.endpoint,
        server.retries,
    )


def _status_line(server: ServerStatus) -> str:
    name, state, kind, url, pid, up, reason, endpoint, retries = _status_fields(server)
    line = f"{name[0]} {state:<9} {kind:<21} {server.name}  {url}  pid {pid}  up {up}"
    below = "".join(f"\n  {text}" for text in (endpoint, retries) if text)
    return line + (f"  {reason}" if reason else "") + below


def _print_json(statuses: list[ServerStatus] | None) -> None:

    listed = [
        {
            "name": server.name,
            "type": server.server_type,
            "url": server.url,
            "pid": server.pid,
            "uptime_seconds": server.uptime_s,
            "state": server.state.value,
            "reason": server.reason,
            "endpoint": server.endpoint,
            "retries": server.retries,
        }
        for server in statuses or ()
    ]
    say_json(listed)


def dump_config(overrides: list[str], *, ng: bool, as_json: bool = False) -> int:
    """Print the resolved configuration, with secrets masked."""
    config = load(overrides, ng=ng)
    warn_all(config.warnings)
    if as_json:
        say_json(redact(config.tree, config.secrets))
        return 0
    sys.stdout.write(dump_yaml(config))
    return 0

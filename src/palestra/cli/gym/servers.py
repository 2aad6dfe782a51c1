"""`gym env start|status|resolve|prefetch|packages`: servers and their Python environments."""

import asyncio
from typing import Final

from palestra.cli.console import notice, say, show_error, warn_all
from palestra.cli.fleet_commands import dump_config, run_fleet
from palestra.cli.fleet_commands import status as fleet_status
from palestra.cli.gym.grammar import Invocation
from palestra.cli.packages import ng_pip_list
from palestra.config import ResolvedConfig
from palestra.errors import ConfigError, PalestraError
from palestra.fleet import cache_root, interpreter_for, requirements_place
from palestra.settings import StatusArgs, load
from palestra.system import shown

ENDPOINTS_WITHIN_S: Final = 600.0
"""How long `env start` waits for the endpoints of models, unless the configuration says otherwise."""

HOW_TO_CONFIGURE: Final = (
    "name what to start: --resources-server NAME --model-type NAME, or --config FILE"
)


def start(_invocation: Invocation, overrides: list[str]) -> int:
    """Start every server, wait for the endpoints of the models, and serve until the user stops."""
    return run_fleet(
        overrides,
        ng=True,
        endpoints_within_s=ENDPOINTS_WITHIN_S,
        how_to_configure=HOW_TO_CONFIGURE,
    )


def status(invocation: Invocation, overrides: list[str]) -> int:
    """Print one line per server of the running fleet. The exit code is always 0."""
    try:
        fleet_status(StatusArgs(as_json=invocation.json), overrides, ng=True)
    except PalestraError as error:
        show_error(error)
    return 0


def resolve(invocation: Invocation, overrides: list[str]) -> int:
    """Print the resolved configuration, with secrets masked."""
    return dump_config(overrides, ng=True, as_json=invocation.json)


def prefetch(_invocation: Invocation, overrides: list[str]) -> int:
    """Make the Python environment of each server, one after the other.

    Raises the error of the first environment that cannot be made.
    """
    config = load(overrides, ng=True, require_all=False, required=())
    warn_all(config.warnings)
    if not config.instances:
        raise ConfigError("no server instance is configured", hint=HOW_TO_CONFIGURE)
    asyncio.run(_make_all(config))
    return 0


async def _make_all(config: ResolvedConfig) -> None:
    cache = cache_root(config.tree.get("uv_venv_dir"))
    for instance in config.instances.values():
        path = requirements_place(instance)
        if path is None:
            continue
        notice(f"{instance.name}: {shown(path)} …")
        say(f"{instance.name}: {await interpreter_for(path, cache=cache)}")


def packages(invocation: Invocation, overrides: list[str]) -> int:
    """List the packages of a server's Python environment; exit code 1 when it is not made yet."""
    as_json = ["+format=json"] if invocation.json else []
    return ng_pip_list([*overrides, *as_json], hint="--resources-server my_env")

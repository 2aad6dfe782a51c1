"""A driver: a function of the user that collects rollouts in place of `gym eval run`.

`+rollout_collection_driver=module:function` names it. It is called with the settings of the
collection, as NeMo Gym's `RolloutCollectionConfig`, while the servers run; it may be async.
"""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from palestra.api import unless
from palestra.cli.console import masking, notice, warn_all
from palestra.cli.fleet_commands import show_instances
from palestra.cli.loop import CommandStopped, run_to_end
from palestra.compat import aliases
from palestra.config import ResolvedConfig, search_roots
from palestra.errors import ConfigError
from palestra.fleet import PROCESS, Fleet, check_head_port, head_server
from palestra.settings import load

DRIVER: Final = "rollout_collection_driver"
FIELD_CONFIG: Final = "nemo_gym.rollout_collection"


def drive(name: str, overrides: list[str], *, serve: bool) -> int:
    """Call the driver `name` with the settings of the collection; return 0.

    `serve`: start the servers of the configuration first, each in a process of its own, and stop
    them afterwards. Raises ConfigError: the driver cannot be imported.
    """
    config = load(overrides, ng=True)
    warn_all(config.warnings)
    driver = load_driver(name)
    if serve:
        check_head_port(config.tree)
    try:
        with masking(config.secrets):
            run_to_end(_served(driver, config) if serve else _called(driver, config))
    except CommandStopped as stopped:
        notice(f"stopped by {stopped.signal.name}")
        return stopped.exit_code
    return 0


def load_driver(name: str) -> Callable[..., Any]:
    """Return the function `module:function`. Modules in the search roots can be imported.

    Raises ConfigError: the text has another form, the module cannot be imported, or it has no such
    function.
    """
    module_name, colon, function_name = name.partition(":")
    if not (module_name and colon and function_name):
        raise ConfigError(f"+{DRIVER}={name}: write module:function")
    for root in map(str, search_roots()):
        if root not in sys.path:
            sys.path.append(root)
    aliases.install()
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"+{DRIVER}={name}: {module_name} cannot be imported: {error}",
            hint=f"modules are searched in {', '.join(map(str, map(Path, search_roots())))}",
        ) from error
    driver = getattr(module, function_name, None)
    if not callable(driver):
        raise ConfigError(f"+{DRIVER}={name}: {module_name} has no function {function_name}")
    function: Callable[..., Any] = driver
    return function


async def _served(driver: Callable[..., Any], config: ResolvedConfig) -> None:
    fleet = Fleet(
        config, default_placement=PROCESS, on_line=lambda who, line: notice(f"[{who}] {line}")
    )
    async with fleet, head_server(fleet):
        show_instances(fleet.instances.values())
        await unless(fleet.watch(), _called(driver, config))


async def _called(driver: Callable[..., Any], config: ResolvedConfig) -> None:
    settings = importlib.import_module(FIELD_CONFIG).RolloutCollectionConfig
    arguments = [settings.model_validate(dict(config.tree))] if _takes_one(driver) else []
    result = driver(*arguments)
    if inspect.isawaitable(result):
        await result


def _takes_one(driver: Callable[..., Any]) -> bool:
    """Whether a function has a positional parameter."""
    return any(
        parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
        or parameter.kind is parameter.VAR_POSITIONAL
        for parameter in inspect.signature(driver).parameters.values()
    )

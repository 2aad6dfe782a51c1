"""verl: an agent loop that is ready for its configuration. It runs each sample with Palestra.

The file that `actor_rollout_ref.rollout.agent.agent_loop_config_path` names has

    - name: palestra
      _target_: palestra.training.adapters.verl_loop.PalestraLoop
      config_paths: [configs/environment.yaml, configs/model.yaml]

The class is made when it is asked for, because only then verl must be installed.
"""

import asyncio
import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, final

from palestra.errors import ConfigError
from palestra.fleet import PROCESS, Fleet
from palestra.training.adapters.ray import open_fleet
from palestra.training.adapters.verl import run_row
from palestra.training.client import RolloutClient

LOOP: Final = "PalestraLoop"
ROW: Final = "row"
"""The dataset column with the task, as the JSON line of its file."""
IMAGES: Final = "multi_modal_data"
_MODULE: Final = "verl.experimental.agent_loop.agent_loop"


@final
class SharedClient:
    """A client for all loops of one worker process: verl makes a loop for each sample.

    It starts with its first use, and ends with the process.
    """

    def __init__(self, fleet: Callable[[], Fleet]) -> None:
        self._fleet = fleet
        self._start: asyncio.Task[RolloutClient] | None = None

    async def entered(self) -> RolloutClient:
        """Return the client, once its fleet is ready. Raises the errors of the fleet's start."""
        if self._start is None:
            self._start = asyncio.create_task(self._enter())
        return await asyncio.shield(self._start)

    async def _enter(self) -> RolloutClient:
        return await RolloutClient(self._fleet()).__aenter__()


@functools.cache
def shared_client(
    config_paths: tuple[str, ...], overrides: tuple[str, ...], placement: str
) -> SharedClient:
    """Return the client of this process for a configuration."""
    return SharedClient(functools.partial(open_fleet, config_paths, overrides, placement=placement))


def loop_class() -> Any:
    """Return `PalestraLoop`, a subclass of verl's `AgentLoopBase`. Raises ConfigError: verl is not
    installed.
    """
    try:
        verl = import_module(_MODULE)
    except ModuleNotFoundError as error:
        if error.name != "verl":
            raise
        raise ConfigError(
            "verl is not installed", hint="install verl in the environment of its workers"
        ) from None
    return _loop_class(verl.AgentLoopBase, verl.AgentLoopOutput)


def _loop_class(base: Any, output: Any) -> Any:
    class PalestraLoop(base):  # type: ignore[misc]  # verl is not installed where this is checked
        """Runs a sample's task, which its column `row` has."""

        def __init__(
            self,
            *args: Any,
            config_paths: Sequence[str],
            overrides: Sequence[str] = (),
            placement: str = PROCESS,
            **kwargs: Any,
        ) -> None:
            super().__init__(*args, **kwargs)
            self._shared = shared_client(tuple(config_paths), tuple(overrides), placement)

        async def run(self, sampling_params: dict[str, Any], **columns: Any) -> Any:
            """Return verl's `AgentLoopOutput`. Raises the errors of `run_row`."""
            fields = await run_row(
                await self._shared.entered(),
                columns.get(ROW),
                sampling_params,
                pad_id=self.tokenizer.pad_token_id,
                response_length=self.rollout_config.response_length,
                multi_modal_data=columns.get(IMAGES),
            )
            return output(**fields)

    return PalestraLoop


def __getattr__(name: str) -> Any:
    if name == LOOP:
        return loop_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""NeMo RL: an actor in the place of its `NemoGym` environment, whose rollouts Palestra runs.

    task_to_env["nemo_gym"] = start_environment(nemo_gym_config, num_cpus=2)

`run_rollouts` of a `StreamingEnvironment` yields rollouts as they end, as NeMo RL's loop takes them
from 0.8 on; that of a `BatchEnvironment` returns all at once, as it does before. Neither class
imports Ray, torch or NeMo RL before it needs them.
"""

import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from palestra.config import load_config
from palestra.errors import ConfigError
from palestra.fleet import PROCESS, Fleet
from palestra.schema import ROLLOUT_INDEX, TASK_INDEX, JsonObject
from palestra.training.adapters.nemo_rl import (
    Decoder,
    RolloutResult,
    TensorMaker,
    rollout_result,
    rollout_results,
)
from palestra.training.adapters.ray import START_TIMEOUT_S, ServersMaker, start_actor
from palestra.training.adapters.sequences import all_completed
from palestra.training.client import RolloutClient
from palestra.training.requests import RolloutRequest, requests_in
from palestra.training.settings import ClientSettings

ROW_INDEX: Final = "_rowidx"
"""The index that NeMo RL gives a row of a batch that it spreads over several environments."""
AWAITING, CONVERTING = "await_results", "postprocess_results"
"""The timings, in seconds, under the names of NeMo RL."""
_DUMMY_KEY: Final = "dummy_key"
"""The key of NeMo RL's own endpoint, which checks none."""


def open_environment(
    config: Mapping[str, Any], overrides: Sequence[str] = (), *, placement: str = PROCESS
) -> Fleet:
    """Make the fleet of a `NemoGymConfig`: `model_name`, `base_urls`, `initial_global_config_dict`.

    `overrides`: further settings, as on the command line. Raises ConfigError: see `load_config`.
    """
    urls = list(config["base_urls"])
    settings = {
        "policy_api_key": _DUMMY_KEY,
        **config["initial_global_config_dict"],
        "policy_model_name": config["model_name"],
        "policy_base_url": urls[0] if len(urls) == 1 else urls,
    }
    resolved = load_config(extra=settings, overrides=overrides, use_env_yaml=False)
    return Fleet(resolved, default_placement=placement)


class _Environment:
    """The parts of the environment that do not depend on how rollouts are returned."""

    def __init__(
        self,
        servers: ServersMaker,
        settings: ClientSettings | None = None,
        *,
        tensor: TensorMaker | None = None,
    ) -> None:
        self._servers = servers
        self._settings = settings
        self._tensor = tensor
        self._tokenizer: Any = None
        self._stack = AsyncExitStack()
        self._client: RolloutClient | None = None

    async def start(self) -> None:
        """Start the fleet. Raises the fleet's errors."""
        self._tensor = self._tensor or _torch_tensor()
        client = RolloutClient(self._servers(), self._settings)
        self._client = await self._stack.enter_async_context(client)

    async def set_tokenizer(self, tokenizer: Any) -> None:
        """Set the tokenizer of calls that bring none."""
        self._tokenizer = tokenizer

    async def health_check(self) -> bool:
        """Return whether rollouts can come back."""
        return self._client is not None and (await self._client.health()).ok

    async def hold_calls(self) -> None:
        """Let no rollout begin a call of the model until `set_weight_version`."""
        await self._running().hold_calls()

    async def set_weight_version(self, version: int) -> None:
        """Set the version of the model's weights from now on."""
        await self._running().set_weight_version(version)

    async def shutdown(self) -> None:
        """Cancel the running rollouts, and stop the fleet."""
        self._client = None
        await self._stack.aclose()

    async def stop(self) -> None:
        """Do what `shutdown` does, for `stop_actor`."""
        await self.shutdown()

    def step(self, message_log_batch: Any, metadata: Any) -> Any:
        """Raise NotImplementedError: whole rollouts are run here, never single steps."""
        raise NotImplementedError("this environment runs whole rollouts: call run_rollouts")

    def global_post_process_and_metrics(self, batch: Any) -> Any:
        """Raise NotImplementedError: NeMo RL computes the metrics of such rollouts itself."""
        raise NotImplementedError("this environment runs whole rollouts: call run_rollouts")

    def _running(self) -> RolloutClient:
        if self._client is None:
            raise ConfigError("the NeMo RL environment was not started, or was shut down")
        return self._client

    def _conversion(self, tokenizer: Any) -> dict[str, Any]:
        """Return the arguments that make a result of an outcome."""
        tokenizer = tokenizer if tokenizer is not None else self._tokenizer
        if tokenizer is None:
            raise ConfigError("run_rollouts needs a tokenizer, or set_tokenizer before it")
        pad_id = tokenizer.pad_token_id
        decode: Decoder = tokenizer.decode
        return {
            "pad_id": tokenizer.eos_token_id if pad_id is None else pad_id,
            "tensor": self._tensor,
            "decode": decode,
        }


class BatchEnvironment(_Environment):
    """NeMo RL's NeMo Gym environment before 0.8: `run_rollouts` returns when all rows have ended."""

    async def run_rollouts(
        self, nemo_gym_examples: Sequence[JsonObject], tokenizer: Any = None, timer_prefix: str = ""
    ) -> tuple[list[RolloutResult], dict[str, float]]:
        """Return the results of all rows, in their order, and the timings in seconds.

        Raises the client's errors, mostly `IncompleteRollouts`, which is a RuntimeError: it comes
        before any other check. Raises RunFailed: a rollout has several sequences.
        """
        conversion = self._conversion(tokenizer)
        began = time.monotonic()
        async with self._running().submit(requests_of(nemo_gym_examples)) as batch:
            outcomes = await batch.gather()
        end = time.monotonic()
        results = rollout_results(outcomes, **conversion)
        return results, _timings(timer_prefix, end - began, time.monotonic() - end)


class StreamingEnvironment(_Environment):
    """NeMo RL's NeMo Gym environment since 0.8: `run_rollouts` yields rows as they end."""

    async def run_rollouts(
        self, nemo_gym_examples: Sequence[JsonObject], tokenizer: Any = None, timer_prefix: str = ""
    ) -> AsyncIterator[tuple[int, RolloutResult, dict[str, float]]]:
        """Yield the index, result and timings of each row when it ends.

        The index is the row's `_rowidx`, or else its place in the list. Raises the same errors as
        `BatchEnvironment.run_rollouts`. Closing the stream cancels the rows that have not ended.
        """
        conversion = self._conversion(tokenizer)
        requests = requests_of(nemo_gym_examples)
        index_of_key = {
            request.key: request.row.get(ROW_INDEX, index) for index, request in enumerate(requests)
        }
        async with self._running().submit(requests) as batch:
            began = time.monotonic()
            async for outcome in batch:
                end = time.monotonic()
                (completed,) = all_completed([outcome], "NeMo RL")
                result = rollout_result(completed, **conversion)
                timings = _timings(timer_prefix, end - began, time.monotonic() - end)
                yield index_of_key[outcome.key], result, timings
                began = time.monotonic()


def requests_of(examples: Sequence[JsonObject]) -> list[RolloutRequest]:
    """Return NeMo RL's rows as requests.

    The rows of a prompt are repeated, and may have no index of their own: each further row of a
    task gets the next rollout index. Raises InputDataError: the list is empty.
    """
    rows_of_task: Counter[Any] = Counter()
    requests = []
    for index, row in enumerate(examples):
        task_id = row.get(TASK_INDEX, index)
        rollout_index = row.get(ROLLOUT_INDEX, rows_of_task[task_id])
        rows_of_task[task_id] += 1
        requests.append(RolloutRequest(row=row, task_id=task_id, rollout_index=rollout_index))
    return requests_in(requests)


def start_environment(
    config: Mapping[str, Any],
    settings: ClientSettings | None = None,
    *,
    overrides: Sequence[str] = (),
    streaming: bool = True,
    timeout_s: float = START_TIMEOUT_S,
    **options: Any,
) -> Any:
    """Start the environment of a `NemoGymConfig` on the cluster, and return the actor's handle.

    `streaming`: whether `run_rollouts` streams, as NeMo RL expects from 0.8 on. `options`: Ray's
    options (`num_cpus`, …). `stop_actor` of the Ray adapter ends it. Raises the errors of the
    fleet's start, and ConfigError: Ray or torch is not installed.
    """
    environment = StreamingEnvironment if streaming else BatchEnvironment
    servers = partial(open_environment, dict(config), tuple(overrides))
    return start_actor(servers, settings, actor=environment, timeout_s=timeout_s, **options)


def _timings(prefix: str, awaiting_s: float, converting_s: float) -> dict[str, float]:
    start = f"{prefix}/" if prefix else ""
    return {f"{start}{AWAITING}": awaiting_s, f"{start}{CONVERTING}": converting_s}


def _torch_tensor() -> TensorMaker:
    if find_spec("torch") is None:
        raise ConfigError(
            "torch is not installed, and NeMo RL's batches are tensors",
            hint="install the trainer's torch in the environment of Ray's workers",
        )
    maker: TensorMaker = import_module("torch").tensor
    return maker

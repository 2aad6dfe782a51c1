"""Ray: an actor that runs rollouts, and the driver's side of its stream.

    actor = start_actor(partial(open_fleet, config_paths=[…]), settings, num_cpus=2)
    for row, outcome, timing in rollouts(actor, rows):
        ...
    stop_actor(actor)

The actor has the fleet and the client. When it dies, the driver has all that is needed to say what
is missing; so `rollouts` raises the same `IncompleteRollouts` whether a server of the fleet died or
the actor itself. Those who call the actor directly get Ray's own errors, which are instances of
ours as well.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from palestra.config import load_config
from palestra.errors import ConfigError, PalestraError, RunFailed
from palestra.fleet import PROCESS, Fleet
from palestra.schema import JsonObject
from palestra.training.client import Health, RolloutClient
from palestra.training.errors import LOWER_IN_TRAINER, Cause, IncompleteRollouts
from palestra.training.outcomes import Completed, Outcome, Timings
from palestra.training.requests import Key, RolloutRequest, requests_in
from palestra.training.servers import OpenServers
from palestra.training.settings import ClientSettings

START_TIMEOUT_S: Final = 300.0
STOP_TIMEOUT_S: Final = 30.0

ServersMaker = Callable[[], OpenServers]
"""Called in the actor, so it must survive pickling: a function of a module, or a partial of one."""


class Landed(NamedTuple):
    """One rollout that has ended."""

    row: int
    """Its place among the rows that were asked for."""
    outcome: Outcome
    timing: Timings | None
    """None for a rollout that failed."""


def open_fleet(
    config_paths: Sequence[str],
    overrides: Sequence[str] = (),
    *,
    placement: str = PROCESS,
) -> Fleet:
    """A fleet of its own for an actor, configured by the files of its node.

    Relative paths start at the actor's working directory: the driver's, or what a runtime
    environment (`working_dir`) makes it.

    `placement`: where servers live whose config does not say: in processes of their own, so that
    one that dies takes neither the actor nor its evidence with it, or `embedded`.
    """
    config = load_config(config_paths=config_paths, overrides=overrides, use_env_yaml=False)
    return Fleet(config, default_placement=placement)


class RolloutActor:
    """Runs rollouts in a Ray worker. `start_actor` makes one; it imports no Ray itself."""

    def __init__(self, servers: ServersMaker, settings: ClientSettings | None = None) -> None:
        self._servers = servers
        self._settings = settings
        self._stack = AsyncExitStack()
        self._client: RolloutClient | None = None

    async def start(self) -> None:
        """Start the fleet. Raises what it raises."""
        client = RolloutClient(self._servers(), self._settings)
        self._client = await self._stack.enter_async_context(client)

    async def run_rollouts(
        self, rows: Sequence[JsonObject | RolloutRequest]
    ) -> AsyncIterator[tuple[int, Outcome, Timings | None]]:
        """Run all rows, and yield each as it ends: index, outcome, timing.

        Raises what the client raises, `IncompleteRollouts` above all. Closing the stream cancels
        what has not ended.
        """
        requests = requests_of(rows)
        index_of_key = {request.key: index for index, request in enumerate(requests)}
        async with self._running().submit(requests) as batch:
            async for outcome in batch:
                timing = outcome.timings if isinstance(outcome, Completed) else None
                yield index_of_key[outcome.key], outcome, timing

    async def health(self) -> Health:
        """What the client is doing."""
        return await self._running().health()

    async def set_weight_version(self, version: int) -> None:
        """The model's weights are of this version from now on."""
        await self._running().set_weight_version(version)

    async def stop(self) -> None:
        """Cancel what runs, and stop the fleet."""
        self._client = None
        await self._stack.aclose()

    def _running(self) -> RolloutClient:
        if self._client is None:
            raise ConfigError("the rollout actor was not started, or was stopped")
        return self._client


def requests_of(rows: Sequence[JsonObject | RolloutRequest]) -> list[RolloutRequest]:
    """Requests as they are; rows by their `_ng_task_index` and `_ng_rollout_index`, or their place.

    Raises InputDataError when there is none.
    """
    return requests_in(
        row if isinstance(row, RolloutRequest) else _request_of(row, index)
        for index, row in enumerate(rows)
    )


def _request_of(row: JsonObject, index: int) -> RolloutRequest:
    return RolloutRequest(
        row=row,
        task_id=row.get("_ng_task_index", index),
        rollout_index=row.get("_ng_rollout_index", 0),
    )


# The driver's side


def start_actor(
    servers: ServersMaker,
    settings: ClientSettings | None = None,
    *,
    timeout_s: float = START_TIMEOUT_S,
    **options: Any,
) -> Any:
    """Make an actor on the cluster, and wait until its fleet is up. Returns its handle.

    `options` are Ray's (`num_cpus`, `resources`, `scheduling_strategy`, …). Raises what the start
    of the fleet raises, and ConfigError when Ray is not installed.
    """
    ray = _ray()
    actor = ray.remote(RolloutActor).options(**options).remote(servers, settings)
    try:
        ray.get(actor.start.remote(), timeout=timeout_s)
    except BaseException as error:
        ray.kill(actor)
        raise _ours(error) from None
    return actor


def rollouts(actor: Any, rows: Sequence[JsonObject | RolloutRequest]) -> Iterator[Landed]:
    """Run the rows on the actor, and yield each as it ends.

    Raises what the client raises; for an actor that died, whatever killed it, IncompleteRollouts.
    Leaving early cancels what has not ended.
    """
    ray = _ray()
    requests = requests_of(rows)
    stream = actor.run_rollouts.options(num_returns="streaming").remote(requests)
    books = _Books({request.key: None for request in requests}, len(requests))
    try:
        for reference in stream:
            yield books.entered(Landed(*ray.get(reference)))
    except ray.exceptions.RayTaskError as error:
        raise _ours(error) from None
    except ray.exceptions.RayError as error:
        raise books.incomplete(_cause(error)) from error
    finally:
        ray.cancel(stream)
    if books.missing:
        raise books.incomplete(Cause(sentence="the actor's stream ended before all had come back"))


def stop_actor(actor: Any, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Stop its fleet, and end it; an actor that does not answer is killed, and its fleet follows."""
    ray = _ray()
    with suppress(ray.exceptions.RayError):
        ray.get(actor.stop.remote(), timeout=timeout_s)
    ray.kill(actor)


@dataclass(slots=True)
class _Books:
    """What the driver has seen of a stream."""

    missing: dict[Key, None]
    requested: int
    received: int = 0

    def entered(self, landed: Landed) -> Landed:
        """One more. Raises RunFailed for one that was not asked for, or has come before."""
        key = landed.outcome.key
        if key not in self.missing:
            raise RunFailed(
                f"the actor's stream has rollout {key} twice, or without having been asked for it",
                hint="leave Ray's max_task_retries of the actor at 0: a stream begins anew with it",
            )
        del self.missing[key]
        self.received += isinstance(landed.outcome, Completed)
        return landed

    def incomplete(self, cause: Cause) -> IncompleteRollouts:
        """What it means that nothing else comes."""
        return IncompleteRollouts(
            requested=self.requested,
            received=self.received,
            missing=tuple(self.missing),
            cause=cause,
            failures={"unfinished": len(self.missing)},
        )


def _cause(error: Exception) -> Cause:
    """Why an actor is gone, as far as Ray knows."""
    reason = " ".join(str(error).split())
    # Ray names memory among the possible causes of every death; only this one is known to be it.
    hungry = type(error).__name__ == "OutOfMemoryError"
    likely = "" if hungry else "; most likely out of memory, unless somebody killed it"
    return Cause(
        sentence=f"the rollout actor is gone: {type(error).__name__}: {reason}{likely}",
        process=RolloutActor.__name__,
        out_of_memory=hungry,
        setting=f"lower in_flight or max_bytes, or {LOWER_IN_TRAINER}, or give the actor more "
        "memory (memory=…); "
        "Ray's logs of its worker say more, and nothing of its fleet is left running",
    )


def _ours(error: BaseException) -> BaseException:
    """The error that was raised in the actor, where it is one of ours; else the error itself."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, PalestraError) else error


def _ray() -> Any:
    if find_spec("ray") is None:
        raise ConfigError(
            "Ray is not installed", hint="pip install 'palestra[ray]', or use RolloutClient itself"
        )
    return import_module("ray")

"""Ray: an actor that runs rollouts, and the driver's side of its stream.

    actor = start_actor(partial(open_fleet, config_paths=[…]), settings, num_cpus=2)
    for row, outcome, timing in rollouts(actor, rows):
        ...
    stop_actor(actor)

The actor runs the fleet and the client. If the actor dies, the driver can still list the missing
rollouts, so `rollouts` raises the same `IncompleteRollouts` whether a server of the fleet or the
actor died. A direct call of the actor raises Ray's own errors, which are also instances of
Palestra's errors.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, Protocol

from palestra.config import load_config
from palestra.errors import ConfigError, PalestraError, RunFailed
from palestra.fleet import PROCESS, Fleet
from palestra.schema import JsonObject
from palestra.training.client import RolloutClient
from palestra.training.errors import LOWER_IN_TRAINER, Cause, IncompleteRollouts
from palestra.training.health import Health
from palestra.training.outcomes import Completed, Outcome, Timings
from palestra.training.requests import Key, RolloutRequest, requests_in
from palestra.training.servers import OpenServers
from palestra.training.settings import ClientSettings

START_TIMEOUT_S: Final = 300.0
STOP_TIMEOUT_S: Final = 30.0

ServersMaker = Callable[[], OpenServers]
"""Makes the fleet in the actor, so it must be picklable: a module's function, or a partial of one.
"""


class Landed(NamedTuple):
    """One rollout that has ended, as `rollouts` yields it."""

    row: int
    """The index of the rollout's row in the submitted rows."""
    outcome: Outcome
    timing: Timings | None
    """Times of the rollout; None when it failed."""


def open_fleet(
    config_paths: Sequence[str],
    overrides: Sequence[str] = (),
    *,
    placement: str = PROCESS,
) -> Fleet:
    """Make a fleet for an actor, configured by files on the actor's node.

    Relative paths start at the actor's working directory: the driver's, or the one that a runtime
    environment (`working_dir`) sets.

    `placement`: the placement of servers whose config names none. By default in their own
    processes, so that a server that dies does not kill the actor; or `embedded`.
    """
    config = load_config(config_paths=config_paths, overrides=overrides, use_env_yaml=False)
    return Fleet(config, default_placement=placement)


class Startable(Protocol):
    """An actor that `start_actor` can start: its fleet starts after it was made."""

    def __init__(
        self, servers: ServersMaker, settings: ClientSettings | None = None, /
    ) -> None: ...

    async def start(self) -> None:
        """Start the fleet. Raises the fleet's errors."""


class RolloutActor:
    """Runs rollouts in a Ray worker. `start_actor` makes it. The class itself does not import Ray."""

    def __init__(self, servers: ServersMaker, settings: ClientSettings | None = None) -> None:
        self._servers = servers
        self._settings = settings
        self._stack = AsyncExitStack()
        self._client: RolloutClient | None = None

    async def start(self) -> None:
        """Start the fleet. Raises the fleet's errors."""
        client = RolloutClient(self._servers(), self._settings)
        self._client = await self._stack.enter_async_context(client)

    async def run_rollouts(
        self, rows: Sequence[JsonObject | RolloutRequest]
    ) -> AsyncIterator[tuple[int, Outcome, Timings | None]]:
        """Run all rows, and yield the index, outcome and timing of each when it ends.

        Raises the client's errors, mostly `IncompleteRollouts`. Closing the stream cancels the
        rollouts that have not ended.
        """
        requests = requests_of(rows)
        index_of_key = {request.key: index for index, request in enumerate(requests)}
        async with self._running().submit(requests) as batch:
            async for outcome in batch:
                timing = outcome.timings if isinstance(outcome, Completed) else None
                yield index_of_key[outcome.key], outcome, timing

    async def health(self) -> Health:
        """Return the client's health."""
        return await self._running().health()

    async def hold_calls(self) -> None:
        """Let no rollout begin a call of the model until `set_weight_version`."""
        await self._running().hold_calls()

    async def set_weight_version(self, version: int) -> None:
        """Set the version of the model's weights from now on."""
        await self._running().set_weight_version(version)

    async def stop(self) -> None:
        """Cancel the running rollouts, and stop the fleet."""
        self._client = None
        await self._stack.aclose()

    def _running(self) -> RolloutClient:
        if self._client is None:
            raise ConfigError("the rollout actor was not started, or was stopped")
        return self._client


def requests_of(rows: Sequence[JsonObject | RolloutRequest]) -> list[RolloutRequest]:
    """Return the rows as requests. A row's key is its `_ng_task_index` and `_ng_rollout_index`;
    without them, its index and 0. Requests pass unchanged.

    Raises InputDataError: the list is empty.
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
    actor: type[Startable] = RolloutActor,
    timeout_s: float = START_TIMEOUT_S,
    **options: Any,
) -> Any:
    """Start an actor on the cluster, and wait until its fleet is ready. Return the actor's handle.

    `actor`: the actor's class, made of `servers` and `settings`. `options`: Ray's options
    (`num_cpus`, `resources`, `scheduling_strategy`, …). Raises the errors of the fleet's start, and
    ConfigError: Ray is not installed.
    """
    ray = _ray()
    handle = ray.remote(actor).options(**options).remote(servers, settings)
    try:
        ray.get(handle.start.remote(), timeout=timeout_s)
    except BaseException as error:
        ray.kill(handle)
        raise _ours(error) from None
    return handle


def rollouts(actor: Any, rows: Sequence[JsonObject | RolloutRequest]) -> Iterator[Landed]:
    """Run the rows on the actor, and yield each rollout when it ends.

    Raises the client's errors, and IncompleteRollouts when the actor died for any reason. Leaving
    the loop early cancels the rollouts that have not ended.
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
        raise books.incomplete(
            Cause(sentence="the actor's stream ended before all rollouts were returned")
        )


def stop_actor(actor: Any, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Stop the actor's fleet, and end the actor. If it does not answer, it is killed, and its fleet
    ends too.
    """
    ray = _ray()
    with suppress(ray.exceptions.RayError):
        ray.get(actor.stop.remote(), timeout=timeout_s)
    ray.kill(actor)


@dataclass(slots=True)
class _Books:
    """The driver's record of a stream: which rollouts are missing, and how many have come."""

    missing: dict[Key, None]
    requested: int
    received: int = 0

    def entered(self, landed: Landed) -> Landed:
        """Record one rollout. Raises RunFailed: it was not requested, or has already come."""
        key = landed.outcome.key
        if key not in self.missing:
            raise RunFailed(
                f"the actor returned rollout {key} twice, or returned it without a request",
                hint="leave the actor's max_task_retries at 0: a retry starts the stream again",
            )
        del self.missing[key]
        self.received += isinstance(landed.outcome, Completed)
        return landed

    def incomplete(self, cause: Cause) -> IncompleteRollouts:
        """Return the error for a stream that ended before all rollouts came."""
        return IncompleteRollouts(
            requested=self.requested,
            received=self.received,
            missing=tuple(self.missing),
            cause=cause,
            failures={"unfinished": len(self.missing)},
        )


def _cause(error: Exception) -> Cause:
    """Return why an actor died, from Ray's error."""
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
    """Return Palestra's error that the actor raised, if there is one; else `error` itself."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, PalestraError) else error


def _ray() -> Any:
    if find_spec("ray") is None:
        raise ConfigError(
            "Ray is not installed", hint="pip install 'palestra[ray]', or use RolloutClient itself"
        )
    return import_module("ray")

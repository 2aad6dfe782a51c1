"""`FleetPool`: one client over several fleets, on this machine, attached, or behind services.

    fleets = {host: partial(RemoteRolloutClient, f"http://{host}:11500") for host in hosts}
    async with FleetPool(fleets) as client:
        async with client.submit(requests) as batch:
            ...

A rollout runs wholly on the fleet with the least load. When that fleet is lost, the rollout runs
again on another one. Policies, groups, order and counts are those of every client: the pool applies
them itself, and each fleet only runs rollouts.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace as with_fields
from typing import Any, Final, Self, final

from palestra.errors import BadInput, ConfigError, Layer
from palestra.schema import encode_json
from palestra.system import background
from palestra.training.batch import Halt
from palestra.training.checks import MAPPING, SECONDS, require, whole
from palestra.training.errors import Cause
from palestra.training.fleet_attempts import FleetAttempts
from palestra.training.fleets import OUTAGES, PooledFleet, SourceMaker
from palestra.training.handle import Handle
from palestra.training.health import Health
from palestra.training.memory import Memory, MemoryGuard
from palestra.training.policies import Outage, PolicyWords
from palestra.training.pool import Pool
from palestra.training.requests import RolloutRequest
from palestra.training.servers import agent_for
from palestra.training.settings import ClientSettings, checked_version, settings_of
from palestra.training.submissions import Submissions

LOOK_EVERY_S: Final = 1.0
PATIENCE_S: Final = 60.0
REOPEN_AFTER_S: Final = 2.0
LONGEST_REOPENING_S: Final = 60.0


@final
class FleetPool:
    """Runs rollouts on several fleets.

    `fleets`: name -> function that makes the fleet's client, which is called again when the fleet
    was lost. `settings`: of the pool; by default with the sum of the fleets' `in_flight`.
    `at_least`: the number of fleets that must be there when the pool is entered; None: all.
    `patience_s`: how long batches wait when no fleet is there. `look_every_s`: how often each fleet
    is asked how it is. `reopen_after_s`: how long a fleet stays lost before its client is made anew;
    the time doubles while that fails.
    """

    def __init__(
        self,
        fleets: Mapping[str, SourceMaker],
        settings: ClientSettings | None = None,
        *,
        at_least: int | None = None,
        patience_s: float = PATIENCE_S,
        look_every_s: float = LOOK_EVERY_S,
        reopen_after_s: float = REOPEN_AFTER_S,
    ) -> None:
        require("fleets", fleets, MAPPING)
        if not fleets:
            raise ConfigError(
                "the pool has no fleet", hint='FleetPool({"a": partial(RolloutClient, config)})'
            )
        require("at_least", at_least, whole(1).or_none())
        require("patience_s", patience_s, SECONDS)
        require("look_every_s", look_every_s, SECONDS)
        require("reopen_after_s", reopen_after_s, SECONDS)
        self.settings = settings_of(settings)
        self._sums_in_flight = settings is None
        self._fleets = [PooledFleet(name, make) for name, make in fleets.items()]
        self._at_least = len(self._fleets) if at_least is None else at_least
        self._patience_s = patience_s
        self._look_every_s = look_every_s
        self._reopen_after_s = reopen_after_s
        self._stack = AsyncExitStack()
        self._pool: Pool | None = None
        self._submissions = Submissions(self.settings)

    # Entering and leaving

    async def __aenter__(self) -> Self:
        try:
            await self._open_fleets()
            self._pool = await self._begin()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *raised: object) -> None:
        del raised
        try:
            await self._submissions.aclose()
        finally:
            await self._stack.aclose()

    async def _open_fleets(self) -> None:
        """Enter all fleets. Raises the error of one when there are not enough."""
        for fleet in self._fleets:
            self._stack.push_async_callback(fleet.close)
        errors = await asyncio.gather(
            *(fleet.open(None) for fleet in self._fleets), return_exceptions=True
        )
        failures = {
            fleet: error
            for fleet, error in zip(self._fleets, errors, strict=True)
            if error is not None
        }
        is_short = len(self._fleets) - len(failures) < self._at_least
        for fleet, error in failures.items():
            if is_short or isinstance(error, BadInput) or not isinstance(error, OUTAGES):
                raise error
            fleet.reason = str(error)

    async def _begin(self) -> Pool:
        if self._sums_in_flight:
            in_flight = sum(fleet.capacity for fleet in self._fleets)
            self.settings = with_fields(self.settings, in_flight=in_flight)
        settings = self.settings
        self._submissions = Submissions(settings)
        guard = MemoryGuard(settings.memory_reserve, Memory(), time.monotonic)
        self._attempts = FleetAttempts(self._fleets, settings.attempts)
        pool = Pool(settings, guard, self._attempts.attempt)
        self._stack.push_async_callback(pool.close)
        works = {
            "watch over rollouts": pool.watch(),
            "watch over the pool": self._watch_outage(pool),
            **{f"watch over fleet {item.name}": self._tend(pool, item) for item in self._fleets},
        }
        for name, work in works.items():
            await self._stack.enter_async_context(background(work, name))
        return pool

    # Fleets that come and go

    async def _tend(self, pool: Pool, fleet: PooledFleet) -> None:
        """Look at a fleet at intervals, and open it anew when it was lost. Runs until cancelled."""
        pause_s = self._reopen_after_s
        lost_at: float | None = None
        while True:
            await asyncio.sleep(self._look_every_s)
            await self._attempts.look(pool, fleet)
            if fleet.is_usable:
                pause_s, lost_at = self._reopen_after_s, None
                continue
            lost_at = lost_at or time.monotonic()
            if not fleet.running and time.monotonic() - lost_at >= pause_s:
                await self._open_again(pool, fleet)
                pause_s, lost_at = min(2 * pause_s, LONGEST_REOPENING_S), None

    async def _open_again(self, pool: Pool, fleet: PooledFleet) -> None:
        await fleet.close()
        try:
            await fleet.open(pool.weights)
        except OUTAGES as error:
            fleet.reason = str(error)
        self._attempts.note_change()

    async def _watch_outage(self, pool: Pool) -> None:
        """End the batches when no fleet has been there for too long. Runs until it is cancelled."""
        last_there = time.monotonic()
        while True:
            await asyncio.sleep(min(self._look_every_s, self._patience_s))
            if any(fleet.is_usable for fleet in self._fleets):
                last_there = time.monotonic()
                pool.set_stuck(None)
            elif time.monotonic() - last_there >= self._patience_s and pool.stuck is None:
                cause = Cause(
                    sentence=f"none of the {len(self._fleets)} fleets can be used: {self._reasons()}",
                    setting="start the fleets again: the pool finds them by itself; a longer "
                    "patience_s waits longer",
                )
                pool.set_stuck(Halt(Outage.SERVER_DIED, Layer.INFRA, cause))

    def _reasons(self) -> str:
        return "; ".join(f"{fleet.name}: {fleet.reason}" for fleet in self._fleets if fleet.reason)

    # What a trainer does

    def submit(
        self,
        requests: Iterable[RolloutRequest],
        *,
        deadline_s: float | None = None,
        on_incomplete: PolicyWords | None = None,
        min_fraction: float | None = None,
    ) -> Handle:
        """Submit rollouts. Raises InputDataError: a request is wrong, or occurs twice.

        A row that its fleet refuses ends as `Failed`, with the class `data_error`.
        """
        return self._submissions.submit(
            self._running,
            _ANY_ROW,
            requests,
            deadline_s=deadline_s,
            on_incomplete=on_incomplete,
            min_fraction=min_fraction,
        )

    async def health(self) -> Health:
        """Return the pool's state. `servers` has those of every fleet, as `fleet/server`."""
        pool = self._running
        await asyncio.gather(*(self._attempts.look(pool, fleet) for fleet in self._fleets))
        usable = [fleet for fleet in self._fleets if fleet.is_usable]
        return Health(
            ok=bool(usable) and pool.stuck is None,
            reason="" if usable else f"no fleet can be used: {self._reasons()}",
            in_flight=len(pool.in_flight),
            queued=pool.queued,
            waiting=pool.waiting,
            paused=pool.paused,
            held_back=pool.held_back,
            weight_version=pool.weights,
            servers=self._server_states(),
            last_failure=pool.last_failure,
            repeatable=all(fleet.repeatable for fleet in usable),
        )

    def _server_states(self) -> dict[str, str]:
        states: dict[str, str] = {}
        for fleet in self._fleets:
            states[fleet.name] = fleet.reason or "healthy"
            servers = {} if fleet.health is None else fleet.health.servers
            states |= {f"{fleet.name}/{name}": state for name, state in servers.items()}
        return states

    def pause(self) -> None:
        """Start no more rollouts until `resume`; running rollouts continue."""
        self._running.paused = True
        for fleet in self._fleets:
            fleet.pause()

    def resume(self) -> None:
        """Start rollouts again."""
        pool = self._running
        pool.paused = False
        for fleet in self._fleets:
            fleet.resume()
        pool.pump()

    async def set_weight_version(self, version: int) -> None:
        """Set the version of the model's weights from now on, on all fleets.

        A fleet that cannot be told gets no rollout until it was. Raises ConfigError: `version` is
        invalid or lower than before.
        """
        pool = self._running
        pool.set_weights(checked_version(version, pool.weights))
        await asyncio.gather(*(fleet.set_weights(version) for fleet in self._fleets))

    async def hold_calls(self) -> None:
        """Let no rollout begin a call of the model until `set_weight_version`, on all fleets.

        A fleet that cannot be told gets no rollout until then. Calls that run go on.
        """
        await asyncio.gather(*(fleet.hold() for fleet in self._fleets))

    @property
    def weight_version(self) -> int | None:
        """The weight version that was set last; None before the first."""
        return None if self._pool is None else self._pool.weights

    @property
    def _running(self) -> Pool:
        if self._pool is None:
            raise RuntimeError("the pool has not been entered: `async with FleetPool(…)`")
        return self._pool


class _AnyRow:
    """Reads rows for fleets, which check them themselves."""

    def sent(self, request: RolloutRequest, task: int, /) -> tuple[str, dict[str, Any], int]:
        del task
        return agent_for(request.row, ""), dict(request.row), len(encode_json(request.row))


_ANY_ROW: Final = _AnyRow()

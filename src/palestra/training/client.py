"""`RolloutClient`: N rollouts requested, N outcomes, or an error that says why.

async with RolloutClient(config, settings) as client:
    async with client.submit(requests) as batch:
        async for group in batch.groups(8):
            train_on(group.completed)
    assert batch.summary().adds_up
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Self, final

from palestra.config import ResolvedConfig
from palestra.errors import (
    CallError,
    Layer,
    PalestraError,
    mask_error,
)
from palestra.system import background
from palestra.training.batch import Halt
from palestra.training.capture import ModelServers
from palestra.training.errors import Cause
from palestra.training.failing import hint_of
from palestra.training.handle import Handle
from palestra.training.health import Health
from palestra.training.memory import Memory, MemoryGuard
from palestra.training.policies import Outage, PolicyWords
from palestra.training.pool import Pool
from palestra.training.postmortem import PostMortem
from palestra.training.requests import RolloutRequest
from palestra.training.rows import RowTakers
from palestra.training.running import Runner
from palestra.training.servers import (
    DeathWatch,
    OpenServers,
    Servers,
    agents_of,
    ending_behind,
    keepers_of,
    only_agent,
    repeatable_environments,
    servers_of,
)
from palestra.training.settings import ClientSettings, checked_version, settings_of
from palestra.training.stuck import (
    StuckTimer,
    Unresponsive,
    stuck_cause,
    stuck_sentence,
    watch_over_loop,
)
from palestra.training.submissions import Submissions

logger = logging.getLogger("palestra.training")

FORGETTING_S = 1.0
"""The timeout in seconds of one attempt to make model servers forget turns: it must not delay the
check for stuck servers."""


@final
class RolloutClient:
    """Runs rollouts for a trainer.

    `servers`: a configuration or a fleet. The fleet starts and stops with the client. Its servers
    run in their own processes, unless the configuration or the fleet names another placement.
    """

    def __init__(
        self,
        servers: ResolvedConfig | OpenServers,
        settings: ClientSettings | None = None,
        *,
        memory: Memory | None = None,
    ) -> None:
        self.settings = settings_of(settings)
        self._entering = servers_of(servers)
        self._memory = memory or Memory()
        self._stack = AsyncExitStack()
        self._submissions = Submissions(self.settings)
        self._inside: _Inside | None = None

    async def __aenter__(self) -> Self:
        try:
            servers = await self._stack.enter_async_context(self._entering)
            self._inside = await self._begin(servers)
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

    async def _begin(self, servers: Servers) -> "_Inside":
        client = servers.client
        default_agent = only_agent(servers, self.settings.agent)
        keepers = await keepers_of(servers)
        watch = DeathWatch(servers, self._on_death)
        unresponsive = Unresponsive(servers)
        models = ModelServers(client, self._submissions.run, capture=self.settings.token_ids)
        runner = Runner(
            client,
            self.settings,
            models=models,
            watch=watch,
            unresponsive=unresponsive,
            repeatable=await repeatable_environments(client),
            on_hopeless=self._on_death,
        )
        guard = MemoryGuard(self.settings.memory_reserve, self._memory, time.monotonic)
        pool = Pool(self.settings, guard, runner.attempt, may_repeat=runner.may_repeat)
        post_mortem = PostMortem(self._memory, list(watch.pids), in_flight=self.settings.in_flight)
        await self._stack.enter_async_context(watch_over_loop(servers))
        await models.open()
        self._stack.push_async_callback(_close, models, pool)
        watch.start()
        self._stack.push_async_callback(watch.stop)
        # Whatever still runs at the end is cancelled, and left behind when it will not stop.
        self._stack.push_async_callback(pool.close)
        for work, name in (
            (pool.watch(), "watch over rollouts"),
            (self._keep_order(pool, models), "order among rollouts"),
            (models.keep_open(), "lease on captured turns"),
            (unresponsive.watch(), "asking servers"),
        ):
            await self._stack.enter_async_context(background(work, name))
        self._stack.callback(runner.close)
        return _Inside(
            servers,
            RowTakers(frozenset(agents_of(servers)), default_agent, keepers),
            pool,
            runner,
            models,
            watch,
            unresponsive,
            post_mortem,
        )

    async def _keep_order(self, pool: Pool, models: ModelServers) -> None:
        stuck_timer = StuckTimer(self.settings.stuck_patience_s)
        while True:
            await asyncio.sleep(self.settings.stuck_after_s / 4)
            self._look_for_stuck(pool, stuck_timer)
            if not pool.halted:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(FORGETTING_S):
                        await models.forget()

    @property
    def _running(self) -> "_Inside":
        if self._inside is None:
            raise RuntimeError("the client has not been entered: `async with RolloutClient(…)`")
        return self._inside

    def _on_death(self, error: PalestraError) -> None:
        """End all waiting rollouts: the servers have ended, or can never answer."""
        inside = self._running
        mask_error(error, inside.servers.client.mask)
        error.hint = hint_of(error)
        tails: dict[str, tuple[str, ...]] = {}
        try:
            ending = inside.servers.ending or ending_behind(error)
            cause = inside.post_mortem.cause(error, ending)
            tails = {} if ending is None else {ending.name: tuple(ending.last_lines)}
        except Exception:  # whatever is wrong with the explanation, the servers are gone
            logger.exception("the reason why the servers ended cannot be found")
            cause = Cause(sentence=error.message, setting=error.hint)
        inside.pool.die(Halt(Outage.SERVER_DIED, error.layer, cause, tails))

    def _look_for_stuck(self, pool: Pool, stuck_timer: StuckTimer) -> None:
        """End the batches that wait for a server that has been stuck for longer than
        `stuck_patience_s`.
        """
        server = self._running.unresponsive.stuck
        if not stuck_timer.is_over(server, time.monotonic()):
            if server is None:
                pool.set_stuck(None)
        elif server is not None and pool.stuck is None:
            waiting = sorted((job.number, job.request.key) for job in pool.in_flight)
            cause = stuck_cause(server, [key for _, key in waiting])
            pool.set_stuck(Halt(Outage.STUCK, Layer.INFRA, cause))

    # What a trainer does

    def submit(
        self,
        requests: Iterable[RolloutRequest],
        *,
        deadline_s: float | None = None,
        on_incomplete: PolicyWords | None = None,
        min_fraction: float | None = None,
    ) -> Handle:
        """Submit rollouts. Raises InputDataError: a row cannot be run, or a request occurs twice.

        `deadline_s`: the time in which all of them must end; None: `batch_timeout_s`.
        `on_incomplete` and `min_fraction` replace the client's settings for this submission.
        """
        inside = self._running
        return self._submissions.submit(
            inside.pool,
            inside.takers,
            requests,
            deadline_s=deadline_s,
            on_incomplete=on_incomplete,
            min_fraction=min_fraction,
        )

    async def health(self) -> Health:
        """Return the client's current state, and whether rollouts can come back."""
        inside = self._running
        pool, death = inside.pool, inside.pool.death
        stuck = inside.unresponsive.stuck
        reason = "" if stuck is None else stuck_sentence(stuck)
        if death is not None:
            reason = death.cause.sentence
        return Health(
            ok=not reason,
            reason=reason,
            in_flight=len(pool.in_flight),
            queued=pool.queued,
            waiting=pool.waiting,
            paused=pool.paused,
            held_back=pool.held_back,
            weight_version=pool.weights,
            retrying=pool.retrying,
            last_failure=pool.last_failure,
            servers={name: item.state.value for name, item in inside.servers.instances.items()},
            repeatable=inside.runner.repeats_all(inside.takers.names),
        )

    def pause(self) -> None:
        """Start no more rollouts until `resume`; running rollouts continue."""
        self._running.pool.paused = True

    def resume(self) -> None:
        """Start rollouts again."""
        pool = self._running.pool
        pool.paused = False
        pool.pump()

    async def set_weight_version(self, version: int) -> None:
        """Set the version of the model's weights from now on.

        Raises ConfigError: `version` is invalid or lower than before. Raises CallError: a model
        server cannot be reached.
        """
        inside = self._running
        inside.pool.set_weights(checked_version(version, inside.pool.weights))
        await self._tell_models(inside, inside.models.open(version))

    async def hold_calls(self) -> None:
        """Let no rollout begin a call of the model until `set_weight_version`.

        Calls that run go on. Raises CallError: a model server cannot be reached.
        """
        inside = self._running
        await self._tell_models(inside, inside.models.hold())

    @property
    def weight_version(self) -> int | None:
        """The weight version that was set last; None before the first."""
        return None if self._inside is None else self._inside.pool.weights

    async def _tell_models(self, inside: "_Inside", order: Coroutine[Any, Any, None]) -> None:
        if inside.pool.death is not None:
            order.close()
            return  # nobody is there to be told, and the next outcome says so
        try:
            await order
        except CallError:
            await inside.watch.settled()
            if inside.pool.death is None:
                raise


@dataclass(frozen=True, slots=True)
class _Inside:
    """The objects that exist only while the client is entered."""

    servers: Servers
    takers: RowTakers
    pool: Pool
    runner: Runner
    models: ModelServers
    watch: DeathWatch
    unresponsive: Unresponsive
    post_mortem: PostMortem


async def _close(models: ModelServers, pool: Pool) -> None:
    if not pool.halted:  # else nobody is there to be told
        await models.close()

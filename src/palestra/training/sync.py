"""The client for code that is not async: it runs on an event loop in its own thread.

    with SyncRolloutClient(config, settings) as client:
        with client.submit(requests) as batch:
            for group in batch.groups(8):
                train_on(group.completed)

Because the loop is separate, the client also works where a loop already runs (a notebook, an async
trainer's callback). A call blocks only its caller.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Final, Self, TypeVar, final

from palestra.config import ResolvedConfig
from palestra.errors import ConfigError
from palestra.training.checks import shown
from palestra.training.client import RolloutClient
from palestra.training.contract import RolloutSource, Submission
from palestra.training.groups import Group
from palestra.training.health import Health
from palestra.training.outcomes import Outcome, Summary
from palestra.training.requests import Key, RolloutRequest, requests_in
from palestra.training.sampling import (
    DynamicSampling,
    GroupBatch,
    OverSampling,
    SamplingReport,
    dynamic_sample,
    over_sample,
)
from palestra.training.servers import OpenServers
from palestra.training.settings import ClientSettings, settings_of

Result = TypeVar("Result")

ENDS_WITHIN_S: Final = 30.0
"""Seconds that interrupted work has to end. A second interrupt does not wait for it."""
LOOK_EVERY_S: Final = 0.1
"""How often, in seconds, a blocked caller looks whether its task was cancelled."""


@final
class LoopThread:
    """An event loop on its own thread; use it as a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, daemon=True, name="palestra rollouts"
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        del raised
        self.run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run `work` on the loop's thread, and return its result or raise its error.

        After an interrupt, `work` is cancelled and waited for, so that a fleet that is starting is
        stopped. The cancellation of the task that calls is an interrupt, too: below `asyncio.run`
        the first Ctrl-C does no more than that, and the loop is blocked here.
        """
        caller = _running_task()
        cancellations = 0 if caller is None else caller.cancelling()
        work_ended = threading.Event()
        future = asyncio.run_coroutine_threadsafe(_telling(work, work_ended), self._loop)
        try:
            while not concurrent.futures.wait([future], timeout=LOOK_EVERY_S).done:
                if caller is not None and caller.cancelling() > cancellations:
                    raise KeyboardInterrupt
            return future.result()
        except BaseException:
            if future.cancel():
                work_ended.wait(ENDS_WITHIN_S)
            raise


@final
class SyncHandle:
    """One submission: `Handle` without `await`."""

    def __init__(self, loop: LoopThread, handle: Submission) -> None:
        self._loop = loop
        self._handle = handle

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """Cancel the rollouts that have not ended, and wait for their end."""
        del raised
        self.close()

    def __iter__(self) -> Iterator[Outcome]:
        """Yield every outcome, in the order in which they end."""
        while (outcome := self._loop.run(self._handle.next())) is not None:
            yield outcome

    def groups(self, size: int) -> Iterator[Group]:
        """Yield each group as soon as all of its `size` members have ended."""
        return _iterate(self._loop, self._handle.groups(size))

    def gather(self) -> list[Outcome]:
        """Return all outcomes, in the order of the requests."""
        return self._loop.run(self._handle.gather())

    def cancel(self, keys: Iterable[Key] | None = None) -> None:
        """Cancel the rollouts with these keys, or all by default; see `Handle.cancel`."""
        self._loop.run(_called(lambda: self._handle.cancel(keys)))

    def summary(self) -> Summary:
        """Return the counts of the submission so far."""
        return self._loop.run(_called(self._handle.summary))

    def close(self) -> None:
        """Cancel the rollouts that have not ended, and wait for their end."""
        self._loop.run(self._handle.aclose())


@final
class SyncGroupBatch:
    """A batch of groups: `GroupBatch` without `await`."""

    def __init__(self, loop: LoopThread, batch: GroupBatch) -> None:
        self._loop = loop
        self._batch = batch

    def __enter__(self) -> Self:
        self._loop.run(self._batch.__aenter__())
        return self

    def __exit__(self, *raised: object) -> None:
        """Cancel the rollouts that have not ended, and wait for their end."""
        del raised
        self._loop.run(self._batch.aclose())

    def __iter__(self) -> Iterator[Group]:
        """Yield each group as soon as it is decided."""
        return _iterate(self._loop, aiter(self._batch))

    def gather(self) -> list[Group]:
        """Return all groups, in the order of their requests."""
        return self._loop.run(self._batch.gather())

    @property
    def report(self) -> SamplingReport:
        """What was sampled so far."""
        return self._loop.run(_called(lambda: self._batch.report))

    def metrics(self, *, weight_version: int | None = None) -> dict[str, float]:
        """Return the batch in numbers; see `GroupBatch.metrics`."""
        return self._loop.run(_called(lambda: self._batch.metrics(weight_version=weight_version)))


@final
class SyncRolloutClient:
    """`RolloutClient` without `await`.

    `servers`: a configuration, or a function that makes a fleet or another client. The function is
    called on the thread that runs the servers. Another client has settings of its own.
    """

    def __init__(
        self,
        servers: ResolvedConfig | Callable[[], OpenServers | RolloutSource],
        settings: ClientSettings | None = None,
    ) -> None:
        if not isinstance(servers, ResolvedConfig) and not callable(servers):
            raise ConfigError(
                f"servers is {shown(servers)}; it must be a configuration, or a function that "
                "makes a fleet",
                hint="SyncRolloutClient(load_config(config_paths=[…])), or SyncRolloutClient("
                "attached) for a fleet that runs",
            )
        self._servers = servers
        self._settings = settings_of(settings)
        self._loop = LoopThread()
        self._stack = contextlib.ExitStack()
        self._client: RolloutSource | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._loop)
            client = self._loop.run(self._enter())
            stack.callback(lambda: self._loop.run(client.__aexit__(None, None, None)))
            self._client, self._stack = client, stack.pop_all()
        return self

    async def _enter(self) -> RolloutSource:
        # Fleets and futures belong to the loop that they are made on.
        servers = self._servers
        opened = servers if isinstance(servers, ResolvedConfig) else servers()
        if isinstance(opened, RolloutSource):
            return await opened.__aenter__()
        return await RolloutClient(opened, self._settings).__aenter__()

    def __exit__(self, *raised: object) -> None:
        del raised
        self._client = None
        self._stack.close()

    def submit(
        self, requests: Iterable[RolloutRequest], *, deadline_s: float | None = None
    ) -> SyncHandle:
        """Submit rollouts. Raises InputDataError: a row cannot be run, or a request occurs twice."""
        request_list = requests_in(requests)
        client = self._entered
        return SyncHandle(
            self._loop,
            self._loop.run(_called(lambda: client.submit(request_list, deadline_s=deadline_s))),
        )

    def over_sample(
        self,
        requests: Iterable[RolloutRequest],
        rule: OverSampling,
        *,
        deadline_s: float | None = None,
    ) -> SyncGroupBatch:
        """Sample the groups of these requests; see `palestra.training.over_sample`."""
        batch = over_sample(self._entered, requests, rule, deadline_s=deadline_s)
        return SyncGroupBatch(self._loop, batch)

    def dynamic_sample(
        self,
        queue: Iterator[Sequence[RolloutRequest]],
        rule: DynamicSampling,
        *,
        deadline_s: float | None = None,
    ) -> SyncGroupBatch:
        """Sample groups whose rewards differ; see `palestra.training.dynamic_sample`.

        The queue is read on the thread of the client.
        """
        batch = dynamic_sample(self._entered, queue, rule, deadline_s=deadline_s)
        return SyncGroupBatch(self._loop, batch)

    def health(self) -> Health:
        """Return the client's current state, and whether rollouts can come back."""
        return self._loop.run(self._entered.health())

    def pause(self) -> None:
        """Start no more rollouts until `resume`."""
        self._loop.run(_called(self._entered.pause))

    def resume(self) -> None:
        """Start rollouts again."""
        self._loop.run(_called(self._entered.resume))

    def hold_calls(self) -> None:
        """Let no rollout begin a call of the model until `set_weight_version`."""
        self._loop.run(self._entered.hold_calls())

    def set_weight_version(self, version: int) -> None:
        """Set the version of the model's weights from now on. Held calls go on."""
        self._loop.run(self._entered.set_weight_version(version))

    @property
    def _entered(self) -> RolloutSource:
        if self._client is None:
            raise RuntimeError(
                "the client has not been entered, or has been left: `with SyncRolloutClient(…)`"
            )
        return self._client


async def _telling(work: Coroutine[Any, Any, Result], work_ended: threading.Event) -> Result:
    try:
        return await work
    finally:
        work_ended.set()


def _running_task() -> asyncio.Task[Any] | None:
    """The task that this thread runs; None without an event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _iterate(loop: LoopThread, items: AsyncIterator[Result]) -> Iterator[Result]:
    while True:
        try:
            yield loop.run(_next(items))
        except StopAsyncIteration:
            return


async def _called(function: Callable[[], Result]) -> Result:
    return function()


async def _next(items: AsyncIterator[Result]) -> Result:
    return await anext(items)

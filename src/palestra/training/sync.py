"""The client for code that is not async: the same, on an event loop of a thread of its own.

    with SyncRolloutClient(config, settings) as client:
        with client.submit(requests) as batch:
            for group in batch.groups(8):
                train_on(group.completed)

As the loop is its own, it can be used where one already runs (a notebook, an async trainer's
callback). A call blocks its caller, and nothing else.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from typing import Any, Final, Self, TypeVar, final

from palestra.config import ResolvedConfig
from palestra.errors import ConfigError
from palestra.training.checks import shown
from palestra.training.client import Health, RolloutClient
from palestra.training.handle import Handle
from palestra.training.outcomes import Group, Outcome, Summary
from palestra.training.requests import Key, RolloutRequest, requests_in
from palestra.training.servers import OpenServers
from palestra.training.settings import ClientSettings, settings_of

Result = TypeVar("Result")

ENDS_WITHIN_S: Final = 30.0
"""What was interrupted may take so long to end; a second interrupt does not wait for it."""


@final
class LoopThread:
    """An event loop on a thread of its own; use as a context manager."""

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
        """Run `work` there, and wait for what it gives or raises.

        Interrupted, it is cancelled, and waited for: a fleet that was about to start is stopped.
        """
        work_ended = threading.Event()
        future = asyncio.run_coroutine_threadsafe(_telling(work, work_ended), self._loop)
        try:
            return future.result()
        except BaseException:
            if future.cancel():
                work_ended.wait(ENDS_WITHIN_S)
            raise


@final
class SyncHandle:
    """One submission; as `Handle`, without `await`."""

    def __init__(self, loop: LoopThread, handle: Handle) -> None:
        self._loop = loop
        self._handle = handle

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """Leaving early cancels what has not ended, and waits until it has."""
        del raised
        self.close()

    def __iter__(self) -> Iterator[Outcome]:
        """Every outcome, in the order in which they end."""
        while (outcome := self._loop.run(self._handle.next())) is not None:
            yield outcome

    def groups(self, size: int) -> Iterator[Group]:
        """Each group as soon as all of its `size` members have ended."""
        return self._each(self._handle.groups(size))

    def gather(self) -> list[Outcome]:
        """All outcomes, in the order of the requests."""
        return self._loop.run(self._handle.gather())

    def cancel(self, keys: Iterable[Key] | None = None) -> None:
        """Do not want these any more, or none at all."""
        self._loop.run(_called(lambda: self._handle.cancel(keys)))

    def summary(self) -> Summary:
        """What became of the submission so far."""
        return self._loop.run(_called(self._handle.summary))

    def close(self) -> None:
        """Cancel what has not ended, and wait until it has."""
        self._loop.run(self._handle.aclose())

    def _each(self, items: AsyncIterator[Result]) -> Iterator[Result]:
        while True:
            try:
                yield self._loop.run(_next(items))
            except StopAsyncIteration:
                return


@final
class SyncRolloutClient:
    """As `RolloutClient`, without `await`.

    `servers` is a configuration, or a function that makes a fleet: it is called on the thread that
    runs them.
    """

    def __init__(
        self,
        servers: ResolvedConfig | Callable[[], OpenServers],
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
        self._client: RolloutClient | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._loop)
            client = self._loop.run(self._enter())
            stack.callback(lambda: self._loop.run(client.__aexit__(None, None, None)))
            self._client, self._stack = client, stack.pop_all()
        return self

    async def _enter(self) -> RolloutClient:
        # Fleets and futures belong to the loop that they are made on.
        servers = self._servers
        opened = servers if isinstance(servers, ResolvedConfig) else servers()
        return await RolloutClient(opened, self._settings).__aenter__()

    def __exit__(self, *raised: object) -> None:
        del raised
        self._client = None
        self._stack.close()

    def submit(
        self, requests: Iterable[RolloutRequest], *, deadline_s: float | None = None
    ) -> SyncHandle:
        """Ask for rollouts. Raises InputDataError for rows that cannot be run, and duplicates."""
        request_list = requests_in(requests)
        client = self._entered
        return SyncHandle(
            self._loop,
            self._loop.run(_called(lambda: client.submit(request_list, deadline_s=deadline_s))),
        )

    def health(self) -> Health:
        """What is going on, and whether it can go on."""
        return self._loop.run(self._entered.health())

    def pause(self) -> None:
        """Start no rollout until `resume`."""
        self._loop.run(_called(self._entered.pause))

    def resume(self) -> None:
        """Start rollouts again."""
        self._loop.run(_called(self._entered.resume))

    def set_weight_version(self, version: int) -> None:
        """The model's weights are of this version from now on."""
        self._loop.run(self._entered.set_weight_version(version))

    @property
    def _entered(self) -> RolloutClient:
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


async def _called(function: Callable[[], Result]) -> Result:
    return function()


async def _next(items: AsyncIterator[Result]) -> Result:
    return await anext(items)

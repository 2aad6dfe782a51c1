"""Finds servers that do not respond although their process runs, and the rollouts that wait for
them.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Final, final

from msgspec import structs

from palestra.errors import DeadlineExceeded, InfraError
from palestra.fleet import (
    EMBEDDED,
    STUCK_AFTER_S,
    InstanceState,
    LagLog,
    RunningInstance,
    Watchdog,
    watchdog_threshold_s,
)
from palestra.training.errors import Cause
from palestra.training.outcomes import Failed
from palestra.training.requests import Key
from palestra.training.servers import Servers
from palestra.transport import HttpRequest

logger = logging.getLogger("palestra.training")

ANSWERS_WITHIN_S: Final = 1.0
"""Seconds within which a server answers its root page if its event loop runs."""
LATE_S: Final = 0.2
KNOWN_FOR_S: Final = 1.0
"""Seconds for which a result is reused: rollouts often time out together."""
ASKED_EVERY_S: Final = 2.5
UNANSWERED: Final = round(STUCK_AFTER_S / KNOWN_FOR_S)
"""The number of requests in a row without an answer after which a server counts as stuck."""
HINT: Final = (
    "an `async def` that blocks stops its whole server: no time.sleep and no long computation there "
    "(a thread or a process takes those); a longer rollout_timeout_s does not help"
)


def stuck_sentence(server: RunningInstance) -> str:
    """Return a sentence that names the stuck server and what it is executing, as its fleet reports."""
    reason = server.reason.partition("\n")[0]
    return f"{_server_text(server)} is stuck: {reason or 'its event loop does not run'}"


def stuck_cause(server: RunningInstance, waiting: Iterable[Key]) -> Cause:
    """Return the cause for rollouts that do not come back because a server is stuck."""
    sentence = stuck_sentence(server)
    return Cause(
        sentence=sentence,
        process=server.name,
        pid=server.pid,
        setting=f"`kill -CONT {server.pid}` lets it go on" if "SIGSTOP" in sentence else HINT,
        stack=tuple(server.reason.splitlines()[1:]),
        waiting=tuple(waiting),
    )


def watch_over_loop(servers: Servers) -> AbstractAsyncContextManager[object]:
    """Log what blocks this event loop, if servers run on it."""
    threshold_s = watchdog_threshold_s(servers.client.tree)
    embedded = any(server.placement == EMBEDDED for server in servers.instances.values())
    if not embedded or not threshold_s:
        return nullcontext()
    return Watchdog(LagLog(logger.warning), threshold_s=threshold_s)


@final
class StuckTimer:
    """Measures how long a server has been stuck: many recover by themselves."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._name = ""
        self._since = 0.0

    def is_over(self, server: RunningInstance | None, now: float) -> bool:
        """Whether `server` has been stuck for `patience_s`. `server`: the server that is stuck now,
        if any.
        """
        if server is None:
            self._name = ""
            return False
        if server.name != self._name:
            self._name, self._since = server.name, now
        return now - self._since >= self._patience_s


@final
class Unresponsive:
    """Finds the servers that do not respond, from their fleet's report and by requesting their root
    page.

    A fleet reports the state of its own processes. The requests also find stuck remote servers, and
    the blocked server when a rollout times out: the server that the rollout awaited is often
    blocked by another rollout's call.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._asked_at = 0.0
        self._asking: asyncio.Task[list[RunningInstance]] | None = None
        self._unanswered: Counter[str] = Counter()
        """Questions in a row that a server did not answer."""

    async def watch(self) -> None:
        """Request the root pages at intervals, until this is cancelled."""
        try:
            while True:
                silent = await self._silent()
                await asyncio.sleep(KNOWN_FOR_S if silent else ASKED_EVERY_S)
        finally:
            if self._asking is not None:
                self._asking.cancel()
                await asyncio.wait({self._asking})

    @property
    def stuck(self) -> RunningInstance | None:
        """The first server that is stuck; None when none is."""
        instances = self._servers.instances.values()
        for instance in instances:
            if instance.state is InstanceState.STUCK:
                return instance
        for instance in instances:
            if self._unanswered[instance.name] >= UNANSWERED:
                reason = f"it has answered nothing for {STUCK_AFTER_S:g} s"
                return replace(instance, state=InstanceState.STUCK, reason=reason)
        return None

    async def blamed(self, outcome: Failed) -> Failed:
        """Return the failure; if servers do not respond now, add their names to it."""
        silent = await self._silent()
        if not silent:
            return outcome
        names = " and ".join(map(_server_text, silent))
        evidence = structs.replace(outcome.evidence, hint=f"look at {silent[0].name}: {HINT}")
        return structs.replace(
            outcome,
            message=f"{names} answered nothing within {ANSWERS_WITHIN_S:g} s when asked, so some call "
            f"blocks it; this rollout: {outcome.message}",
            evidence=evidence,
        )

    async def _silent(self) -> list[RunningInstance]:
        now = time.monotonic()
        if self._asking is None or now - self._asked_at > KNOWN_FOR_S:
            self._asked_at = now
            self._asking = asyncio.create_task(self._ask(), name="asking who answers")
        return await asyncio.shield(self._asking)

    async def _ask(self) -> list[RunningInstance]:
        instances = [server for server in self._servers.instances.values() if server.urls]
        answers_of_instances = await asyncio.gather(*map(self._all_answer, instances))
        silent = [
            instance
            for instance, answers in zip(instances, answers_of_instances, strict=True)
            if not answers
        ]
        self._unanswered = Counter(
            {server.name: self._unanswered[server.name] + 1 for server in silent}
        )
        return silent

    async def _all_answer(self, instance: RunningInstance) -> bool:
        """Whether each process of the instance answers or has ended."""
        return all(await asyncio.gather(*map(self._answers, instance.urls)))

    async def _answers(self, url: str) -> bool:
        request = HttpRequest("GET", f"{url}/", timeout_s=ANSWERS_WITHIN_S, direct=True)
        began = time.monotonic()
        try:
            await self._servers.client.http.send(request)
        except DeadlineExceeded:
            # When this loop itself stood still (a training step on it), nobody is to blame.
            return time.monotonic() - began > ANSWERS_WITHIN_S + LATE_S
        except InfraError:
            return True  # a process that is gone: the watch over the servers says so
        return True


def _server_text(server: RunningInstance) -> str:
    process = f" (process {server.pid})" if server.pid is not None else ""
    return f"server {server.name}{process}"

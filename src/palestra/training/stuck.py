"""Servers whose process lives and does not go on: which they are, and who waits for them."""

import asyncio
import time
from collections.abc import Iterable
from typing import Final, final

from msgspec.structs import replace

from palestra.errors import DeadlineExceeded, InfraError
from palestra.serving import RunningInstance, State
from palestra.training.errors import Cause
from palestra.training.outcomes import Failed
from palestra.training.requests import Key
from palestra.training.servers import Servers
from palestra.transport import HttpRequest

ANSWERS_WITHIN_S: Final = 1.0
"""A server whose event loop runs answers its first page within this."""
KNOWN_FOR_S: Final = 1.0
"""Rollouts often time out together: what was found for one is true for the others."""
HINT: Final = (
    "its code runs without a pause: `async def` code must not block (no time.sleep, no long "
    "computation; a thread or a process takes those); a longer rollout_timeout_s does not help"
)


def stuck_server(servers: Servers) -> RunningInstance | None:
    """The first server that its fleet calls stuck; None when none is."""
    instances = servers.instances.values()
    return next((instance for instance in instances if instance.state is State.STUCK), None)


def stuck_sentence(server: RunningInstance) -> str:
    """Which server is stuck, and what its fleet says it does."""
    reason = server.reason.partition("\n")[0]
    return f"{_named(server)} is stuck: {reason or 'its event loop does not run'}"


def stuck_cause(server: RunningInstance, waiting: Iterable[Key]) -> Cause:
    """Why rollouts do not come back from a fleet with a server that is stuck."""
    return Cause(
        sentence=stuck_sentence(server),
        process=server.name,
        pid=server.pid,
        setting=HINT,
        stack=tuple(server.reason.splitlines()[1:]),
        waiting=tuple(waiting),
    )


@final
class Patience:
    """Counts for how long a server has been stuck: many go on by themselves."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._name = ""
        self._since = 0.0

    def is_over(self, server: RunningInstance | None, now: float) -> bool:
        """Whether `server` has been stuck for longer than that; it is what is stuck now."""
        if server is None:
            self._name = ""
            return False
        if server.name != self._name:
            self._name, self._since = server.name, now
        return now - self._since >= self._patience_s


@final
class Unresponsive:
    """Finds the servers that do not answer when a rollout has timed out.

    A rollout that timed out names the server that it awaited. Often another rollout's call blocks
    that server, so a longer timeout would not help.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._asked_at = 0.0
        self._asking: asyncio.Task[list[RunningInstance]] | None = None

    async def blamed(self, outcome: Failed) -> Failed:
        """The failure, with the servers that do not answer now where there are any."""
        silent = await self._silent()
        if not silent:
            return outcome
        names = " and ".join(map(_named, silent))
        return replace(
            outcome,
            message=f"{names} answered nothing within {ANSWERS_WITHIN_S:g} s when asked, so some call "
            f"blocks it; this rollout: {outcome.message}",
            evidence=replace(outcome.evidence, hint=f"look at {silent[0].name}: {HINT}"),
        )

    async def _silent(self) -> list[RunningInstance]:
        now = time.monotonic()
        if self._asking is None or now - self._asked_at > KNOWN_FOR_S:
            self._asked_at = now
            self._asking = asyncio.create_task(self._ask(), name="asking who answers")
        return await asyncio.shield(self._asking)

    async def _ask(self) -> list[RunningInstance]:
        instances = [each for each in self._servers.instances.values() if each.pid is not None]
        answered = await asyncio.gather(*map(self._all_answer, instances))
        pairs = zip(instances, answered, strict=True)
        return [instance for instance, answers in pairs if not answers]

    async def _all_answer(self, instance: RunningInstance) -> bool:
        """Whether each of its processes answers, or is gone."""
        return all(await asyncio.gather(*map(self._answers, instance.urls)))

    async def _answers(self, url: str) -> bool:
        request = HttpRequest("GET", f"{url}/", timeout_s=ANSWERS_WITHIN_S)
        try:
            await self._servers.client.http.send(request)
        except DeadlineExceeded:
            return False
        except InfraError:
            return True  # a process that is gone: the watch over the servers says so
        return True


def _named(server: RunningInstance) -> str:
    process = f" (process {server.pid})" if server.pid is not None else ""
    return f"server {server.name}{process}"

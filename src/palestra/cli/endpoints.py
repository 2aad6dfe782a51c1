"""Before the first rollout: is every model endpoint there, and does it take our key?"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, Field

from palestra.cli.console import notice
from palestra.config import ResolvedConfig, ServerType
from palestra.errors import CallError, Hopeless, RunFailed
from palestra.fleet import Fleet
from palestra.server import ModelServer, ask_endpoint
from palestra.settings import PatienceArgs, args_from
from palestra.transport import ServerClient

ASK_AGAIN_S = 2.0
SHORTEST_S = 1.0
"""What an endpoint that answers at all has for its first answer, however short the wait is."""
LINE_EVERY_S = 60.0
WAITING_LONGER = "model_endpoint_readiness_timeout_seconds"

T = TypeVar("T")

Check = Callable[[], Awaitable[str]]
"""What an endpoint said of itself. Raises `CallError` when it cannot be reached."""


async def wait_for_endpoints(fleet: Fleet) -> None:
    """Ask the endpoint of every embedded model server whether it is there.

    Raises what the endpoint said when it rejects the key, and RunFailed when it does not answer
    in time.
    """
    servers = [fleet.server(name) for name in fleet.instances]
    checks = {server.name: _masked(server) for server in servers if isinstance(server, ModelServer)}
    await _wait_for_all(checks, Wait.of(fleet.config.tree))


def _masked(server: ModelServer) -> Check:
    async def check() -> str:
        return server.server_client.mask(await server.check())

    return check


async def ask_endpoints(client: ServerClient, config: ResolvedConfig) -> None:
    """`wait_for_endpoints` for the model servers of a running fleet, over HTTP."""

    def check_of(name: str) -> Check:
        async def check() -> str:
            return (await ask_endpoint(client, name)).text

        return check

    models = [
        name for name, target in client.targets.items() if target.server_type == ServerType.MODEL
    ]
    await _wait_for_all({name: check_of(name) for name in models}, Wait.of(config.tree))


class _Readiness(BaseModel):
    """The field's own setting of how long an endpoint is waited for."""

    model_endpoint_readiness_timeout_seconds: float | None = Field(default=None, ge=0)


@dataclass(frozen=True, slots=True)
class Wait:
    """How long an endpoint that may still be starting is waited for, and what sets that."""

    limit_s: float | None
    """None: without end."""
    setting: str = "--patience SECONDS (+patience)"

    SETTINGS: ClassVar = (WAITING_LONGER, "patience")

    @classmethod
    def of(cls, tree: Mapping[str, Any]) -> Self:
        """The field's own setting where it is given, else the patience of the run."""
        limit_s = args_from(_Readiness, tree).model_endpoint_readiness_timeout_seconds
        if limit_s is not None:
            return cls(limit_s, f"++{WAITING_LONGER}=SECONDS")
        return cls(args_from(PatienceArgs, tree).patience)

    def ends_at(self) -> str:
        """`giving up at 14:03:10`, of a wait that begins now, by the clock of this machine."""
        if self.limit_s is None:
            return "without end"
        return (
            f"giving up at {time.strftime('%H:%M:%S', time.localtime(time.time() + self.limit_s))}"
        )


async def _wait_for_all(checks: Mapping[str, Check], wait: Wait) -> None:
    async with asyncio.TaskGroup() as tasks:
        for name, check in checks.items():
            tasks.create_task(_say_endpoint(name, check, wait), name=f"endpoint of {name}")


async def _say_endpoint(name: str, check: Check, wait: Wait) -> None:
    notice(f"{name}: {await wait_for(name, check, wait)}")


class ReminderPace:
    """When the next line about a wait is due: at once, after 2, 4, 8 seconds, then once a minute."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def is_due(self, elapsed_s: float) -> bool:
        """Whether to say it now, so many seconds into the wait; if so, it counts as said."""
        if elapsed_s < self._next_s:
            return False
        self._next_s = elapsed_s + min(elapsed_s, LINE_EVERY_S)
        return True


async def wait_for(name: str, check: Callable[[], Awaitable[T]], wait: Wait) -> T:
    """What `check` returns, asked again until the wait ends. Says what is waited for, and until when.

    Raises RunFailed at the end of the wait, and what `check` raises when waiting does not help.
    """
    started, pace, ends_at = time.monotonic(), ReminderPace(), wait.ends_at()
    deadline = None if wait.limit_s is None else started + wait.limit_s
    trouble: CallError | None = None
    while True:
        try:
            async with asyncio.timeout(_left_s(deadline, at_least=SHORTEST_S)) as limit:
                return await check()
        except Hopeless:
            raise
        except CallError as error:
            trouble = error
        except TimeoutError:
            if not limit.expired():
                raise
        left_s = _left_s(deadline)
        reason = "no answer" if trouble is None else trouble.message
        if left_s == 0:
            raise RunFailed(
                f"{name} has no endpoint after {wait.limit_s:g} s: {reason}",
                hint=f"is base_url right, and is the endpoint running? {wait.setting} waits longer",
            ) from trouble
        if pace.is_due(time.monotonic() - started):
            notice(f"{name}: waiting for its endpoint, {ends_at} ({wait.setting}): {reason}")
        await asyncio.sleep(ASK_AGAIN_S if left_s is None else min(ASK_AGAIN_S, left_s))


def _left_s(deadline: float | None, at_least: float = 0.0) -> float | None:
    return None if deadline is None else max(at_least, deadline - time.monotonic())

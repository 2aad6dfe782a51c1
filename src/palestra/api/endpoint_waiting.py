"""Waits for the inference endpoints of a fleet's model servers, and reports what they answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self, TypeVar

from pydantic import BaseModel, Field

from palestra.config import ConfigTree, ServerType
from palestra.errors import CallError, CredentialsRejected, Hopeless, RunFailed, reword
from palestra.fleet import Fleet
from palestra.server import ModelServer, ask_endpoint
from palestra.settings import PatienceArgs, args_from
from palestra.transport import ServerClient

ASK_AGAIN_S: Final = 2.0
SHORTEST_S: Final = 1.0
"""The least time, in seconds, that an endpoint has for its first answer, even in a shorter wait."""
LINE_EVERY_S: Final = 60.0
WAITING_LONGER: Final = "model_endpoint_readiness_timeout_seconds"

T = TypeVar("T")
Tell = Callable[[str], object]
"""A function that gets each line of text for people."""
Check = Callable[[], Awaitable[str]]
"""Returns the answer of an endpoint as text. Raises `CallError`: the endpoint cannot be reached."""
SecretOrigins = Callable[[str], Sequence[str]]
"""Returns where the secrets of a server come from, by its name; nothing where it is not known."""


async def wait_for_endpoints(fleet: Fleet, report: Tell) -> None:
    """Wait until the endpoint of every embedded model server answers; report each answer.

    Raises the endpoint's error when it rejects the key. Raises RunFailed: an endpoint does not
    answer in time.
    """

    def check_of(server: ModelServer) -> Check:
        async def check() -> str:
            return server.server_client.mask(await server.check())

        return _telling_origins(check, server.name, fleet.config.origins_of_secrets)

    servers = [fleet.server(name) for name in fleet.instances]
    checks = {
        server.name: check_of(server) for server in servers if isinstance(server, ModelServer)
    }
    await _wait_for_all(checks, Wait.of(fleet.config.tree), report)


async def ask_endpoints(
    client: ServerClient, tree: ConfigTree, origins: SecretOrigins, report: Tell
) -> None:
    """Like `wait_for_endpoints`, for the model servers of a running fleet, over HTTP. `tree`: the
    configuration with the length of the wait.
    """
    checks = {name: _telling_origins(check, name, origins) for name, check in _checks_of(client)}
    await _wait_for_all(checks, Wait.of(tree), report)


async def warn_of_endpoints(client: ServerClient, origins: SecretOrigins, report: Tell) -> None:
    """Report each endpoint that a model server of a running fleet cannot use now. It may be started
    later.
    """
    for name, check in _checks_of(client):
        try:
            await check()
        except CallError as error:
            keys = _key_of(name, origins) if isinstance(error, CredentialsRejected) else ""
            report(
                f"warning: {error.message}{keys}; rollouts that ask it will fail until this is mended"
            )


def _checks_of(client: ServerClient) -> list[tuple[str, Check]]:
    def check_of(name: str) -> Check:
        async def check() -> str:
            return (await ask_endpoint(client, name)).text

        return check

    targets = client.targets.items()
    return [(name, check_of(name)) for name, to in targets if to.server_type == ServerType.MODEL]


def _telling_origins(check: Check, name: str, origins: SecretOrigins) -> Check:
    """Return `check` with hints that say where a key that is refused comes from."""

    async def telling() -> str:
        try:
            return await check()
        except CredentialsRejected as error:
            keys = _key_of(name, origins)
            reword(error, message=str, hint=lambda hint: f"{hint}{keys}".removeprefix("; "))
            raise

    return telling


def _key_of(name: str, origins: SecretOrigins) -> str:
    texts = origins(name)
    return f"; {name} was started with {', '.join(texts)}" if texts else ""


class _Readiness(BaseModel):
    """NeMo Gym's setting for the time to wait for an endpoint."""

    model_endpoint_readiness_timeout_seconds: float | None = Field(default=None, ge=0)


@dataclass(frozen=True, slots=True)
class Wait:
    """How long to wait for an endpoint that may still be starting. `setting`: the setting that
    changes it, for messages.
    """

    limit_s: float | None
    """The length of the wait in seconds; None waits without end."""
    setting: str = "--patience SECONDS"

    SETTINGS: ClassVar = (WAITING_LONGER, "patience")

    @classmethod
    def of(cls, tree: ConfigTree) -> Self:
        """Return NeMo Gym's setting when it is given, else the `patience` of the run."""
        limit_s = args_from(_Readiness, tree).model_endpoint_readiness_timeout_seconds
        if limit_s is not None:
            return cls(limit_s, f"++{WAITING_LONGER}=SECONDS")
        return cls(args_from(PatienceArgs, tree).patience)

    def ends_at(self) -> str:
        """Return the end of a wait that starts now, such as `giving up at 14:03:10`, in local time."""
        if self.limit_s is None:
            return "without end"
        return (
            f"giving up at {time.strftime('%H:%M:%S', time.localtime(time.time() + self.limit_s))}"
        )


async def _wait_for_all(checks: Mapping[str, Check], wait: Wait, report: Tell) -> None:
    async def tell_endpoint(name: str, check: Check) -> None:
        report(f"{name}: {await wait_for(name, check, wait, report)}")

    async with asyncio.TaskGroup() as tasks:
        for name, check in checks.items():
            tasks.create_task(tell_endpoint(name, check), name=f"endpoint of {name}")


class ReminderPace:
    """Decides when the next line about a wait is due: at once, after about 2, 4, 8 seconds, then
    once a minute.
    """

    def __init__(self) -> None:
        self._next_s = 0.0

    def is_due(self, elapsed_s: float) -> bool:
        """Whether a line is due `elapsed_s` seconds after the start. If so, the time of the next
        line is set.
        """
        if elapsed_s < self._next_s:
            return False
        self._next_s = elapsed_s + min(elapsed_s, LINE_EVERY_S)
        return True


async def wait_for(name: str, check: Callable[[], Awaitable[T]], wait: Wait, report: Tell) -> T:
    """Call `check` until it succeeds or the wait ends; return its result. Reports what it waits for
    and when the wait ends.

    Raises RunFailed: the wait ended. Raises the error of `check` at once when waiting cannot help.
    """
    started, pace, ends_at = time.monotonic(), ReminderPace(), wait.ends_at()
    deadline = None if wait.limit_s is None else started + wait.limit_s
    trouble: CallError | None = None
    reported_reason = ""
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
                f"model server {name} has no endpoint after {wait.limit_s:g} s: {reason}",
                hint="check that base_url is right and that the endpoint is running; "
                f"{wait.setting} waits longer",
            ) from trouble
        elapsed_s = time.monotonic() - started
        if pace.is_due(elapsed_s):
            news = f"{ends_at} ({wait.setting}): {reason}"
            if reason == reported_reason:
                news = f"for {elapsed_s:.0f} s now"
            report(f"{name}: waiting for its endpoint, {news}")
            reported_reason = reason
        await asyncio.sleep(ASK_AGAIN_S if left_s is None else min(ASK_AGAIN_S, left_s))


def _left_s(deadline: float | None, at_least: float = 0.0) -> float | None:
    return None if deadline is None else max(at_least, deadline - time.monotonic())

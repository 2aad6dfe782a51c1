"""One attempt whose fleet has a blocked server process, or has ended."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from palestra.engine import Job, attempt
from palestra.errors import (
    AgentError,
    CallError,
    CallEvidence,
    DeadlineExceeded,
    Hop,
    InfraError,
    KeptWaiting,
    RowIdentity,
    ServerDied,
    VerifierError,
)
from palestra.schema import RolloutKey
from palestra.transport import ASGIApp, BlockedServer, HttpClient, ServerClient, Target

ROW = RowIdentity(task=3, rollout=0, attempt=2, agent="agent", run="run")
EARLIER = RowIdentity(task=3, rollout=0, attempt=1, agent="agent", run="run")
OTHER = RowIdentity(task=2, rollout=0, attempt=1, agent="agent", run="run")


@dataclass
class LocalAgent:
    """An agent in this process whose `/run` does what the test says."""

    run: Callable[[], Awaitable[Any]]
    is_tool: bool = False

    def typed_endpoint(self, _path: str) -> "LocalAgent":
        return self

    def invoke(self, _body: Any, *, session_id: str) -> Awaitable[Any]:
        del session_id
        return self.run()

    def asgi_app(self) -> ASGIApp:
        raise NotImplementedError


def blocked(server: str, *rows: RowIdentity | None) -> BlockedServer:
    """A server that the calls of `rows` block."""
    failures = (VerifierError("did not return", evidence=CallEvidence(row=row)) for row in rows)
    return BlockedServer(server, f"{server} has been blocking", tuple(failures))


@dataclass
class FleetOfOne:
    """A fleet with one agent, some blocked servers, and perhaps an end."""

    servers: list[BlockedServer] = field(default_factory=list)
    end: Exception | None = None
    ends_after_s: float = 0.0
    """The fleet notices its end so late."""

    async def ask(self, within_s: float) -> None:
        if self.end is not None and within_s >= self.ends_after_s:
            raise self.end

    def failure(self, run: Callable[[], Awaitable[Any]]) -> BaseException:
        """What an attempt at ROW raises."""
        client = ServerClient({"agent": Target("agent", "x", local=LocalAgent(run))}, HttpClient())
        client.blocked_servers = lambda: self.servers
        client.ask_fleet = self.ask
        job = Job(key=RolloutKey(3, 0), agent="agent")
        with pytest.raises((CallError, ServerDied)) as caught:
            asyncio.run(attempt(client, {}, ROW, job, limit_s=0.05))
        return caught.value


async def hang() -> None:
    await asyncio.Event().wait()


def test_a_timeout_names_the_line_at_which_an_author_s_code_of_this_process_waited() -> None:
    failure = FleetOfOne().failure(hang)

    assert isinstance(failure, DeadlineExceeded)
    line = f"{__file__}:{hang.__code__.co_firstlineno + 1} in hang"
    assert failure.evidence.traceback == line
    assert failure.message.endswith(f" at {line}")


@pytest.mark.parametrize("row", [ROW, EARLIER])
def test_a_rollout_whose_own_call_blocks_its_server_fails_by_that_call(row: RowIdentity) -> None:
    failure = FleetOfOne([blocked("agent", OTHER), blocked("env", row)]).failure(hang)

    assert isinstance(failure, VerifierError)
    assert failure.evidence.row == row


def test_a_rollout_that_awaited_a_server_which_another_one_blocks_was_kept_waiting() -> None:
    failure = FleetOfOne([blocked("agent", OTHER)]).failure(hang)

    assert isinstance(failure, KeptWaiting)


@pytest.mark.parametrize(
    "server", [blocked("env", OTHER), blocked("agent"), blocked("agent", None)]
)
def test_a_block_elsewhere_or_of_no_known_rollout_leaves_a_timeout(server: BlockedServer) -> None:
    failure = FleetOfOne([server]).failure(hang)

    assert type(failure) is DeadlineExceeded
    assert server.message in failure.message


@pytest.mark.parametrize("kind", [InfraError, AgentError, DeadlineExceeded])
def test_what_fails_because_the_fleet_has_ended_is_no_failure_of_the_rollout(
    kind: type[CallError],
) -> None:
    async def broken() -> None:
        raise kind("the connection broke")

    died = ServerDied("server env ended")

    assert FleetOfOne(end=died).failure(broken) is died


@pytest.mark.parametrize(("status", "is_awaited"), [(None, True), (500, False)])
def test_the_end_of_the_fleet_is_awaited_after_a_request_without_a_reply(
    status: int | None, *, is_awaited: bool
) -> None:
    hops = (Hop("env", status=status),)

    async def broken() -> None:
        raise InfraError("the connection broke", evidence=CallEvidence(hops))

    fleet = FleetOfOne(end=ServerDied("server env ended"), ends_after_s=1.0)

    assert isinstance(fleet.failure(broken), ServerDied) is is_awaited


def test_what_blocks_a_server_is_the_same_in_another_process() -> None:
    server = blocked("env", OTHER)

    received = BlockedServer.from_json(server.as_json())

    assert (received.server, received.message) == (server.server, server.message)
    assert [failure.evidence.row for failure in received.failures] == [OTHER]
    assert received.failure_of(OTHER) is not None

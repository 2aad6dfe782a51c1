"""What a rollout says that it awaits is what it awaits."""

import asyncio
import logging
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import pytest
from transport_worlds import HTTP, IN_PROCESS, TASK, TURN, Counter, running

from palestra.config import ServerType
from palestra.errors import DeadlineExceeded
from palestra.schema import VerifyResponse
from palestra.transport import (
    Activity,
    AwaitedCall,
    CallContext,
    ConnectionFailed,
    HttpReply,
    RetryCount,
    RetryPolicy,
    Target,
    awaiting,
    calling,
    note_tool_failures,
    with_retries,
)


@pytest.mark.parametrize("placement", [IN_PROCESS, HTTP])
def test_a_call_that_was_answered_is_awaited_no_more(placement: str) -> None:
    activity = Activity("its own code")

    async def called() -> None:
        async with running(placement, {"environment": Counter}) as client:
            with calling(CallContext(activity=activity)):
                peer = client.peer("environment")
                await peer.notify("/seed_session", TASK)
                await peer.call_tool("add", {"amount": 1})
                await peer.call("/verify", TURN, VerifyResponse)

    asyncio.run(called())

    assert activity.describe().startswith("its own code for ")


@dataclass(slots=True)
class NotedActivity(Activity):
    """An activity that keeps all that was awaited."""

    noted: list[tuple[str, str]] = field(default_factory=list)

    def now(self, phase: str, awaiting: str) -> None:
        self.noted.append((phase, awaiting))
        self.phase, self.awaiting = phase, awaiting


@pytest.mark.parametrize("placement", [IN_PROCESS, HTTP])
def test_a_generic_request_is_awaited_by_the_name_of_its_server(placement: str) -> None:
    activity = NotedActivity("its own code")

    async def called() -> None:
        async with running(placement, {"environment": Counter}) as client:
            with calling(CallContext(activity=activity)):
                await client.post("environment", "/seed_session", json=TASK)
                await client.post("environment", "/add", json={"amount": 1})

    asyncio.run(called())

    own = ("its own code", "")
    seed, add = ("/seed_session", "environment /seed_session"), ("tool", "tool add of environment")
    assert activity.noted == [seed, own, add, own]


@pytest.mark.parametrize("path", ["/step", "/reset", "/verify"])
def test_a_path_of_the_protocol_is_awaited_as_no_tool(path: str) -> None:
    activity = Activity()

    with (
        calling(CallContext(activity=activity)),
        awaiting(Target("environment", ServerType.RESOURCES), path),
    ):
        assert activity.phase == path


def test_of_calls_side_by_side_one_that_is_not_answered_is_awaited() -> None:
    activity = Activity("its own code")
    first, second = AwaitedCall(activity, "tool", "first"), AwaitedCall(activity, "tool", "second")
    shown: list[str] = []

    with ExitStack() as later:
        with ExitStack() as sooner:
            sooner.enter_context(first)
            later.enter_context(second)
        shown.append(activity.awaiting)
    shown.append(activity.phase)

    assert shown == ["second", "its own code"]


def test_a_call_that_failed_is_shown_until_the_next_one() -> None:
    activity = Activity("its own code")

    with suppress(KeyError), AwaitedCall(activity, "tool", "failed"):
        raise KeyError
    assert activity.awaiting == "failed"

    with AwaitedCall(activity, "tool", "answered"):
        pass
    assert (activity.phase, activity.awaiting) == ("its own code", "")


def test_what_is_tried_again_is_named_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    activity = Activity()

    async def refused(_remaining_s: float | None) -> HttpReply:
        raise ConnectionFailed("http://x: Connection refused", was_sent=False)

    async def tried() -> None:
        context = CallContext(deadline=time.monotonic() + 5, activity=activity)
        policy = RetryPolicy(first_wait_s=2)
        with calling(context):
            async with asyncio.timeout(0.05):
                await with_retries(
                    refused, what="x", stateless=True, policy=policy, count=RetryCount()
                )

    with caplog.at_level(logging.CRITICAL), pytest.raises((TimeoutError, DeadlineExceeded)):
        asyncio.run(tried())
    assert "another try, as http://x: Connection refused" in activity.describe()


@pytest.mark.parametrize("body", [b'{"reward": 1.0}', b"no JSON, with tool_failures"])
def test_a_later_verification_without_failed_tools_drops_those_of_an_earlier_one(
    body: bytes,
) -> None:
    activity = Activity()

    with calling(CallContext(activity=activity)):
        note_tool_failures("/verify", b'{"tool_failures": [{"tool": "lookup"}]}')
        assert activity.tool_failures == [{"tool": "lookup"}]
        note_tool_failures("/verify", body)

    assert activity.tool_failures == []


def test_calls_that_always_overlap_are_not_kept() -> None:
    activity = Activity()
    activity.now("own", "")
    earlier = AwaitedCall(activity, "tool", "0")
    earlier.__enter__()
    for number in range(1, 50):
        later = AwaitedCall(activity, "tool", str(number))
        later.__enter__()
        earlier.__exit__(None, None, None)
        earlier = later

    assert activity.awaited_calls == [earlier]
    earlier.__exit__(None, None, None)
    assert (activity.phase, activity.awaiting) == ("own", "")

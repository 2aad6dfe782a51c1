"""What a rollout says that it awaits is what it awaits."""

import asyncio
import logging
import time

import pytest
from transport_worlds import HTTP, IN_PROCESS, TASK, TURN, Counter, running

from palestra.errors import DeadlineExceeded
from palestra.schema import VerifyResponse
from palestra.transport import (
    Activity,
    CallContext,
    ConnectionFailed,
    HttpReply,
    RetryCount,
    RetryPolicy,
    calling,
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

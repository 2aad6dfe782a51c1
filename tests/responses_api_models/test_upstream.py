import asyncio
import time
from email.utils import formatdate

import pytest
from endpoint_fakes import VLLM, ScriptedTransport, fake_endpoint, reply

from palestra.errors import (
    CredentialsRejected,
    DeadlineExceeded,
    KnownCause,
    ModelError,
    ModelRejectedRow,
)
from palestra.responses_api_models.chat import ContextOverflow, Upstream
from palestra.transport import (
    CallContext,
    ConnectionFailed,
    HttpClient,
    HttpReply,
    RetryCount,
    RetryPolicy,
    calling,
    retry_after_s,
)

QUICK = RetryPolicy(first_wait_s=0.001, give_up_after_s=5.0)
KEY = "sk-a-secret-key"


def vllm(name: str) -> HttpReply:
    return reply(*VLLM[name])


async def post(
    *replies: HttpReply, policy: RetryPolicy = QUICK, count: RetryCount | None = None
) -> bytes | ContextOverflow:
    """POST once, through a real socket, to an endpoint that answers with `replies`."""
    http = HttpClient()
    upstream = Upstream(
        http, server="policy_model", model="smollm2", api_key=KEY, policy=policy, count=count
    )
    try:
        async with fake_endpoint(*replies) as url:
            return await upstream.post(f"{url}/chat/completions", {"messages": []})
    finally:
        await http.aclose()


def test_an_answer_is_handed_over_as_it_came() -> None:
    assert asyncio.run(post(vllm("chat"))) == vllm("chat").body


def test_a_busy_endpoint_is_asked_again_when_it_says() -> None:
    count = RetryCount()
    busy = reply(429, b"slow down", **{"retry-after": "0.05"})
    started = time.monotonic()

    asyncio.run(post(busy, busy, vllm("chat"), count=count))

    assert count.retries == 2
    assert time.monotonic() - started >= 0.1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7.0), ("0.5", 0.5), ("-3", 0.0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("soon", None)],
)
def test_how_long_to_wait_may_be_seconds_or_a_date(value: str, seconds: float | None) -> None:
    assert retry_after_s(reply(429, b"", **{"retry-after": value})) == seconds


def test_a_date_to_come_is_counted_from_now() -> None:
    then = formatdate(time.time() + 60, usegmt=True)

    asked = retry_after_s(reply(429, b"", **{"retry-after": then}))

    assert asked is not None
    assert 50 < asked <= 60


def test_an_endpoint_that_stays_busy_is_quoted() -> None:
    # No socket: the deadline passes between two tries, however slow the machine is.
    upstream = Upstream(
        ScriptedTransport([reply(503, b"no slot is free")] * 1000),
        server="policy_model",
        model="smollm2",
        policy=QUICK,
    )
    with (
        calling(CallContext(deadline=time.monotonic() + 0.2)),
        pytest.raises(DeadlineExceeded) as e,
    ):
        asyncio.run(upstream.post("http://fake/v1/chat/completions", {"messages": []}))

    [hop] = e.value.evidence.hops
    assert (hop.status, hop.body) == (503, "no slot is free")


def test_an_account_without_credit_is_not_waited_for() -> None:
    said = "You exceeded your current quota, please check your plan and billing details."
    spent = reply(429, {"error": {"message": said, "code": "insufficient_quota"}})
    count = RetryCount()

    with pytest.raises(CredentialsRejected, match="exceeded your current quota") as refusal:
        asyncio.run(post(spent, vllm("chat"), count=count))

    assert count.retries == 0
    assert refusal.value.cause is KnownCause.NO_CREDIT
    assert "credit" in refusal.value.hint
    assert "permissions" not in refusal.value.hint


def test_a_quota_of_the_minute_is_waited_for() -> None:
    said = "You exceeded your current quota, please check your plan and billing details."
    busy = reply(429, {"error": {"message": said, "code": 429, "status": "RESOURCE_EXHAUSTED"}})

    assert asyncio.run(post(busy, vllm("chat"))) == vllm("chat").body


def test_a_server_error_is_tolerated_twice() -> None:
    broken = reply(500, {"error": {"message": "EngineCore encountered an issue"}})

    assert asyncio.run(post(broken, broken, vllm("chat"))) == vllm("chat").body
    with pytest.raises(ModelError, match="EngineCore encountered an issue"):
        asyncio.run(post(broken))


def test_a_refusal_is_not_repeated() -> None:
    with pytest.raises(ModelRejectedRow, match="Invalid grammar"):
        asyncio.run(post(vllm("bad grammar"), vllm("chat")))


def test_an_overflow_is_a_value_and_no_error() -> None:
    found = asyncio.run(post(vllm("prompt overflow")))

    assert isinstance(found, ContextOverflow)
    assert "maximum context length is 2048" in found.sentence


def test_the_key_is_sent_and_never_shown() -> None:
    http = ScriptedTransport([reply(401, {"error": {"message": f"bad key {KEY}"}})])
    upstream = Upstream(http, server="policy_model", model="m", api_key=KEY)

    with pytest.raises(CredentialsRejected) as caught:
        asyncio.run(upstream.post("http://fake/v1/chat/completions", {}))

    assert http.requests[0]["headers"]["authorization"] == f"Bearer {KEY}"
    assert "bad key ****" in caught.value.message
    assert KEY not in str(caught.value.evidence)


def test_without_a_key_no_authorization_is_sent() -> None:
    http = ScriptedTransport([vllm("chat")])

    asyncio.run(Upstream(http, server="s", model="m", headers={"x-a": "b"}).post("http://f", {}))

    assert http.requests[0]["headers"] == {"content-type": "application/json", "x-a": "b"}


def test_the_rollouts_deadline_bounds_the_wait() -> None:
    async def run() -> None:
        with calling(CallContext(deadline=time.monotonic() + 0.2)):
            await post(reply(503, b"loading"), policy=RetryPolicy(first_wait_s=30.0))

    with pytest.raises(DeadlineExceeded, match="answered 503") as caught:
        asyncio.run(run())

    assert caught.value.evidence.hops[0].server == "policy_model"


def test_an_endpoint_that_is_not_there_is_named() -> None:
    async def run() -> None:
        async with fake_endpoint(vllm("chat")) as url:
            pass
        http = HttpClient()
        policy = RetryPolicy(give_up_after_s=0.0)
        try:
            upstream = Upstream(http, server="policy_model", model="m", policy=policy)
            await upstream.post(f"{url}/chat/completions", {})
        finally:
            await http.aclose()

    with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1") as caught:
        asyncio.run(run())

    assert caught.value.evidence.hops[0].url.endswith("/v1/chat/completions")


def test_models_are_listed_with_one_try_and_a_bound() -> None:
    http = ScriptedTransport([vllm("models")])

    found = asyncio.run(Upstream(http, server="s", model="m").models("http://fake/v1"))

    assert found == ["smollm2"]
    assert http.requests[0]["url"] == "http://fake/v1/models"
    assert http.requests[0]["timeout_s"] == 10.0


def test_a_list_of_models_that_is_none_is_shown() -> None:
    http = ScriptedTransport([reply(200, b"<html>hello</html>")])

    with pytest.raises(ModelError, match=r"not a valid list of models.*<html>hello"):
        asyncio.run(Upstream(http, server="s", model="m").models("http://fake/v1"))

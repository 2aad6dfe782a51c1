"""Trying again: only what is safe, only while there is time, and counted."""

import asyncio
import logging
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from palestra.errors import CallError, DeadlineExceeded, EndpointRefuses, RowIdentity
from palestra.transport import (
    BUSY_STATUSES,
    CallContext,
    ConnectionFailed,
    HttpReply,
    Refusals,
    RetryCount,
    RetryPolicy,
    RetryReport,
    calling,
    context_from_headers,
    context_headers,
    with_retries,
)

QUICK = RetryPolicy(first_wait_s=0.001, longest_wait_s=0.01, give_up_after_s=5)
OK = HttpReply(200, b"ok")
REFUSED = ConnectionFailed("refused", was_sent=False)
BROKEN = ConnectionFailed("broke", was_sent=True)


def status(code: int, **headers: str) -> HttpReply:
    return HttpReply(code, b"", headers={k.replace("_", "-"): v for k, v in headers.items()})


@dataclass
class Endpoint:
    """Ends each try as told, in order, and the last one again; notes when and with what left."""

    ends: list[HttpReply | CallError]
    tries: list[float] = field(default_factory=list)
    left: list[float | None] = field(default_factory=list)
    count: RetryCount = field(default_factory=RetryCount)

    async def send(self, remaining_s: float | None) -> HttpReply:
        self.tries.append(time.monotonic())
        self.left.append(remaining_s)
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if isinstance(end, CallError):
            raise end
        return end

    def ask(
        self,
        *,
        stateless: bool = True,
        policy: RetryPolicy = QUICK,
        within_s: float | None = None,
    ) -> HttpReply:
        deadline = None if within_s is None else time.monotonic() + within_s

        async def asked() -> HttpReply:
            with calling(CallContext(deadline=deadline)):
                return await with_retries(
                    self.send, what="x", stateless=stateless, policy=policy, count=self.count
                )

        return asyncio.run(asked())


def test_a_request_that_never_left_is_tried_again_whatever_it_is() -> None:
    endpoint = Endpoint([REFUSED, REFUSED, OK])

    assert endpoint.ask(stateless=False) is OK
    assert endpoint.count.retries == 2
    assert endpoint.count.last_reason == "refused"


def test_a_request_that_may_have_been_acted_on_is_never_repeated() -> None:
    endpoint = Endpoint([BROKEN, OK])

    with pytest.raises(ConnectionFailed, match="broke"):
        endpoint.ask(stateless=False)
    assert len(endpoint.tries) == 1


def test_a_stateless_request_is_repeated_after_a_broken_connection() -> None:
    assert Endpoint([BROKEN, OK]).ask() is OK


@pytest.mark.parametrize("code", sorted(BUSY_STATUSES))
def test_a_busy_endpoint_is_asked_again(code: int) -> None:
    assert Endpoint([status(code), status(code), OK]).ask() is OK


@pytest.mark.parametrize("code", [*sorted(BUSY_STATUSES), 500])
def test_the_answer_to_a_call_with_effects_is_final(code: int) -> None:
    endpoint = Endpoint([status(code), OK])

    assert endpoint.ask(stateless=False).status == code
    assert len(endpoint.tries) == 1


@pytest.mark.parametrize("code", [400, 401, 404, 422])
def test_a_refusal_is_final(code: int) -> None:
    endpoint = Endpoint([status(code), OK])

    assert endpoint.ask().status == code
    assert len(endpoint.tries) == 1


def test_a_busy_answers_words_are_in_the_error_when_the_time_is_up() -> None:
    async def busy(_left: float | None) -> HttpReply:
        return HttpReply(429, b"quota used up")

    async def ask() -> HttpReply:
        with calling(CallContext(deadline=time.monotonic() + 0.05)):
            return await with_retries(
                busy,
                what="x",
                stateless=True,
                policy=QUICK,
                count=RetryCount(),
                words=bytes.decode,
            )

    with pytest.raises(DeadlineExceeded, match=r"x answered 429 \(quota used up\); the deadline"):
        asyncio.run(ask())


def test_server_errors_are_tolerated_a_few_times() -> None:
    endpoint = Endpoint([status(500)])

    assert endpoint.ask().status == 500
    assert len(endpoint.tries) == QUICK.server_errors


def test_retry_after_is_honoured() -> None:
    endpoint = Endpoint([status(429, retry_after="0.2"), OK])
    endpoint.ask()

    assert endpoint.tries[1] - endpoint.tries[0] >= 0.2


@pytest.mark.parametrize("asked", ["0", "-3", "nan", "Wed, 21 Oct 2015 07:28:00 GMT", ""])
def test_retry_after_is_no_leave_to_hammer(asked: str) -> None:
    endpoint = Endpoint([status(429, retry_after=asked), OK])
    endpoint.ask(policy=RetryPolicy(first_wait_s=0.1))

    assert endpoint.tries[1] - endpoint.tries[0] >= 0.05


def test_waits_grow_up_to_the_longest() -> None:
    policy = RetryPolicy(first_wait_s=0.01, longest_wait_s=0.04)
    endpoint = Endpoint([status(503)] * 6 + [OK])
    endpoint.ask(policy=policy)
    waits = [
        after - before for before, after in zip(endpoint.tries, endpoint.tries[1:], strict=False)
    ]

    assert all(wait >= least for wait, least in zip(waits, [0.005, 0.01, 0.02, 0.02], strict=False))


def test_a_busy_endpoint_at_the_deadline_is_named() -> None:
    endpoint = Endpoint([status(503)])
    started = time.monotonic()

    with pytest.raises(DeadlineExceeded, match="x answered 503; the deadline leaves no time"):
        endpoint.ask(within_s=0.2)
    assert time.monotonic() - started < 1


def test_a_wait_that_would_outlive_the_deadline_is_not_begun() -> None:
    endpoint = Endpoint([status(429, retry_after="60"), OK])
    started = time.monotonic()

    with pytest.raises(DeadlineExceeded):
        endpoint.ask(within_s=5)
    assert time.monotonic() - started < 1
    assert len(endpoint.tries) == 1


def test_a_refused_connection_at_the_deadline_is_what_is_raised() -> None:
    with pytest.raises(ConnectionFailed, match="refused"):
        Endpoint([REFUSED]).ask(within_s=0.05)


def test_every_try_gets_the_time_that_is_left() -> None:
    endpoint = Endpoint([REFUSED, REFUSED, OK])
    endpoint.ask(within_s=5)

    left = [seconds for seconds in endpoint.left if seconds is not None]
    assert len(left) == 3
    assert 5 >= left[0] > left[1] > left[2] > 4


@pytest.mark.slow
def test_a_try_with_a_sliver_of_time_does_not_hide_what_failed_before_it() -> None:
    endpoint = Endpoint([BROKEN, DeadlineExceeded("no answer within 0.0 s")])

    with pytest.raises(ConnectionFailed, match="broke"):
        endpoint.ask(within_s=5)


def test_a_first_try_that_the_deadline_ends_is_a_timeout() -> None:
    with pytest.raises(DeadlineExceeded, match="no answer"):
        Endpoint([DeadlineExceeded("no answer within 0.0 s")]).ask(within_s=5)


def test_a_later_try_that_had_time_is_what_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palestra.transport.retry.SLIVER_S", -1.0)
    endpoint = Endpoint([BROKEN, DeadlineExceeded("no answer within 9.0 s")])

    with pytest.raises(DeadlineExceeded, match="no answer"):
        endpoint.ask(within_s=5)


def test_without_a_deadline_it_gives_up_and_returns_the_last_answer() -> None:
    policy = RetryPolicy(first_wait_s=0.01, give_up_after_s=0.05)

    assert Endpoint([status(503)]).ask(policy=policy).status == 503
    with pytest.raises(ConnectionFailed):
        Endpoint([REFUSED]).ask(policy=policy)


def test_the_first_retry_is_said_at_once_and_the_next_ones_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    endpoint = Endpoint([status(503)] * 20 + [OK])
    with caplog.at_level(logging.WARNING, logger="palestra.transport"):
        endpoint.ask()

    assert [record.message.split(";")[0] for record in caplog.records] == ["x answered 503"]
    assert endpoint.count.retries == 20


def test_an_endpoint_that_asks_for_more_than_anybody_waits_is_busy_and_not_late() -> None:
    endpoint = Endpoint([status(503, retry_after="600")])

    assert endpoint.ask(within_s=3600).status == 503
    assert len(endpoint.tries) == 1


def test_what_waits_says_when_the_next_try_comes_and_when_there_are_no_more() -> None:
    count = RetryCount()

    count.again("answered 429", 28.0, "giving up at 14:03:10")

    now = time.monotonic()
    assert count.plan_at(now) == "next try in 28 s, giving up at 14:03:10"
    assert count.plan_at(now + 30.0) == ""
    assert count.retries == 1


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (503, r"giving up at \d\d:\d\d:\d\d"),
        (500, r"giving up after 3 answers of 500, at \d\d:\d\d:\d\d at the latest"),
    ],
)
def test_the_plan_names_the_limit_that_ends_the_retries(
    code: int, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = Endpoint([status(code), OK])
    with caplog.at_level(logging.WARNING, logger="palestra.transport"):
        endpoint.ask()

    [record] = caplog.records
    assert re.search(rf", {end} \(1 retry so far\)$", record.getMessage())


def test_retries_of_another_process_are_counted_from_the_first_report_on() -> None:
    count = RetryCount()

    for total in (5, 7, 7, 1):  # the last one: the process was started anew
        count.add_report("model http://m", RetryReport(total, f"busy {total}", ""))

    assert (count.retries, count.last_reason) == (3, "busy 1")


def test_what_another_process_waits_for_is_known_from_its_first_report() -> None:
    count, other = RetryCount(), RetryCount()
    plan = other.again("m answered 429", 28.0, "giving up at 14:03:10")

    count.add_report("model http://m", other.report())

    assert (count.retries, count.last_reason) == (0, "m answered 429")
    assert count.plan_at(time.monotonic()) == plan


def test_what_waits_is_forgotten_with_its_caller() -> None:
    count = RetryCount()

    async def send(_left_s: float | None) -> HttpReply:
        return status(429)

    async def leave() -> None:
        call = with_retries(
            send, what="x", stateless=True, policy=RetryPolicy(first_wait_s=9.0), count=count
        )
        with suppress(TimeoutError):
            await asyncio.wait_for(call, 0.05)

    asyncio.run(leave())

    assert count.retries == 1
    assert count.report().plan == ""


def test_a_long_pause_is_cut_short_where_the_run_s_patience_ends() -> None:
    refusals = Refusals()
    endpoint = Endpoint([status(429, retry_after="600")])

    async def asked() -> None:
        context = CallContext(RowIdentity(run="run"), patience_s=0.2)
        patience = refusals.patience_of(context)
        assert patience is not None

        async def send(left_s: float | None) -> HttpReply:
            reply = await endpoint.send(left_s)
            patience.refused()
            return reply

        with calling(context), patience:
            await with_retries(
                send,
                what="x",
                stateless=True,
                policy=RetryPolicy(give_up_after_s=3600.0),
                count=RetryCount(),
                patience=patience,
            )

    with pytest.raises(EndpointRefuses, match="x answered 429; all 1 requests"):
        asyncio.run(asked())


def test_the_patience_of_a_run_travels_with_its_calls() -> None:
    context = context_from_headers(context_headers(CallContext(patience_s=90.0)))

    assert context.patience_s == 90.0
    assert context_from_headers({}).patience_s is None

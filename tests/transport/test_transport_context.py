"""The rollout and its deadline travel with every call."""

import asyncio
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transport_worlds import ASKED, HTTP, PLACEMENTS, TURN, Counter, running

from palestra.errors import RowIdentity
from palestra.schema import VerifyResponse
from palestra.transport import (
    Activity,
    CallContext,
    calling,
    context_from_headers,
    context_headers,
    current_call,
)

ROWS = st.builds(
    RowIdentity,
    task=st.none() | st.integers(0, 2**63) | st.text(max_size=20),
    rollout=st.none() | st.integers(0, 2**31),
    attempt=st.integers(1, 99),
    agent=st.text(max_size=20),
    run=st.text(max_size=20),
)


@given(ROWS)
def test_a_row_survives_its_header_which_is_ascii(row: RowIdentity) -> None:
    headers = context_headers(CallContext(row=row))

    assert all(value.isascii() and value.isprintable() for value in headers.values())
    assert context_from_headers(headers).row == row


@given(st.floats(0.0, 10_000.0))
def test_a_deadline_survives_its_header_within_a_moment(seconds: float) -> None:
    sent = CallContext(deadline=time.monotonic() + seconds)
    found = context_from_headers(context_headers(sent)).remaining_s()

    assert found is not None
    assert seconds - 1 <= found <= seconds + 0.001


@given(st.floats(0.1, 10_000.0))
def test_a_callee_gives_up_before_its_caller_does(seconds: float) -> None:
    sent = CallContext(deadline=time.monotonic() + seconds)
    found = context_from_headers(context_headers(sent)).deadline

    assert found is not None
    assert sent.deadline is not None
    assert found < sent.deadline


@given(st.text(max_size=30), st.text(max_size=10))
def test_headers_that_cannot_be_read_are_taken_as_absent(row: str, timeout: str) -> None:
    found = context_from_headers({"x-palestra-rollout": row, "x-palestra-timeout": timeout})

    assert found.row is None
    assert found.remaining_s() is None or found.remaining_s() >= 0


@pytest.mark.parametrize("raw", ["5", "[]", "[1,2]", "{}", "null", '"text"'])
def test_a_row_header_of_another_shape_is_absent(raw: str) -> None:
    assert context_from_headers({"x-palestra-rollout": raw}).row is None


@pytest.mark.parametrize("raw", ["nan", "inf", "-inf", "soon", ""])
def test_a_timeout_that_is_no_number_of_seconds_is_absent(raw: str) -> None:
    assert context_from_headers({"x-palestra-timeout": raw}).deadline is None


def test_an_empty_context_adds_no_headers_and_has_no_end() -> None:
    assert context_headers(CallContext()) == {}
    assert CallContext().remaining_s() is None
    assert CallContext(deadline=time.monotonic() - 5).remaining_s() == 0


def test_a_context_ends_with_its_block_and_is_inherited_by_tasks() -> None:
    async def check() -> CallContext:
        with calling(ASKED):
            return await asyncio.create_task(seen())

    async def seen() -> CallContext:
        return current_call()

    assert asyncio.run(check()) is ASKED
    assert current_call() == CallContext()


def test_an_activity_says_what_is_awaited() -> None:
    activity = Activity()
    assert activity.describe().startswith("queued for ")

    activity.now("tool", "tool add of counter")

    assert activity.describe() == "tool add of counter for 0.0 s"


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_server_knows_for_which_row_it_is_called(placement: str) -> None:
    async def verified() -> Any:
        async with running(placement, {"counter": Counter}) as client:
            with calling(ASKED):
                return await client.peer("counter").call("/verify", TURN, VerifyResponse)

    assert asyncio.run(verified()).task == 7


def test_a_row_named_in_any_script_reaches_the_server() -> None:
    async def verified() -> Any:
        async with running(HTTP, {"counter": Counter}) as client:
            with calling(CallContext(row=RowIdentity(task="задача ∑ 1"))):
                return await client.peer("counter").call("/verify", TURN, VerifyResponse)

    assert asyncio.run(verified()).task == "задача ∑ 1"

import asyncio
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from verifying import (
    PARAMS,
    agrees,
    answered,
    called,
    post_verify,
    recorded,
    response,
    said,
    server_of,
    verify,
)

from palestra.resources_servers.example_session_state_mgmt.app import CounterServer
from palestra.schema import VerifyResponse
from palestra.transport import HttpClient, ServerClient, Target

ROW = {"initial_count": 3, "expected_count": 6}
DONE = '{"success": true}'


async def play(
    server: CounterServer, *calls: tuple[str, dict[str, Any]]
) -> tuple[list[Any], float]:
    """One rollout in one session: what the tools answered, and the reward."""
    target = Target("counter", "resources_servers", local=server)
    peer = ServerClient({"counter": target}, HttpClient()).peer("counter")
    row = {"responses_create_params": PARAMS, **ROW}
    await peer.notify("/seed_session", row)
    answers = [orjson.loads(await peer.call_tool(name, arguments)) for name, arguments in calls]
    result = await peer.call("/verify", {**row, "response": response()}, VerifyResponse)
    return answers, result.reward


def test_the_counter_starts_where_the_row_says_and_is_moved_by_calls() -> None:
    answers, reward = asyncio.run(
        play(
            server_of(CounterServer),
            ("get_counter_value", {}),
            ("increment_counter", {"count": 1}),
            ("increment_counter", {"count": 2}),
            ("get_counter_value", {}),
        )
    )

    assert answers == [{"count": 3}, {"success": True}, {"success": True}, {"count": 6}]
    assert reward == 1.0


def test_sessions_do_not_share_their_counter() -> None:
    server = server_of(CounterServer)

    async def both() -> list[float]:
        step = ("increment_counter", {"count": 3})
        played = await asyncio.gather(play(server, step), play(server, step, step))
        return [reward for _, reward in played]

    assert asyncio.run(both()) == [1.0, 0.0]


def test_an_increment_that_cannot_be_counted_is_refused() -> None:
    refused = ("increment_counter", {"count": 10**30})

    answers, reward = asyncio.run(play(server_of(CounterServer), refused))

    assert "error" in answers[0]
    assert reward == 0.0


def test_without_a_session_the_increments_are_replayed_from_the_trajectory() -> None:
    result = verify(
        server_of(CounterServer),
        ROW,
        called("increment_counter", '{"count": 1}', "a"),
        called("increment_counter", '{"count": 2}', "b"),
        answered(DONE, "a"),
        answered(DONE, "b"),
    )

    assert result["reward"] == 1.0


def test_a_call_that_was_never_run_is_not_replayed() -> None:
    result = verify(server_of(CounterServer), ROW, called("increment_counter", '{"count": 3}'))

    assert result["reward"] == 0.0


def test_a_row_without_the_expected_count_is_the_rows_fault() -> None:
    status, body = post_verify(server_of(CounterServer), {"initial_count": 3}, said("3"))

    assert status == 422
    assert "/expected_count" in body["error"]["message"]


@given(arguments=st.text() | st.from_regex(r'\A\{"count": .*\}\Z'))
def test_no_arguments_a_model_writes_make_the_replay_raise(arguments: str) -> None:
    result = verify(
        server_of(CounterServer), ROW, called("increment_counter", arguments), answered(DONE)
    )

    assert result["reward"] in {0.0, 1.0}


def test_recorded_rollouts_get_the_reward_they_had() -> None:
    server = server_of(CounterServer)

    assert all(
        agrees(server, row, result) for row, result in recorded("example_session_state_mgmt")
    )

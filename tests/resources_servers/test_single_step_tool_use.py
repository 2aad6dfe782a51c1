from typing import Any

import pytest
from verifying import agrees, answered, called, post_verify, recorded, said, verify

from palestra.resources_servers.single_step_tool_use_with_argument_comparison.app import (
    StepServer,
    StepServerConfig,
)
from palestra.transport import HttpClient, ServerClient

NAME = "single_step_tool_use_with_argument_comparison"
MESSAGE = {"type": "message", "content": "May I have your card?"}
CALL = {"type": "function_call", "name": "renew", "arguments": '{"book": "Emma", "weeks": 3}'}
RENEW = called("renew", '{"weeks": 3, "book": "Emma"}')


def server(**settings: Any) -> StepServer:
    return StepServer(
        config=StepServerConfig(name="under_test", **settings),
        server_client=ServerClient({}, HttpClient()),
    )


@pytest.mark.parametrize(
    ("expected", "output", "reward", "category"),
    [
        (MESSAGE, [said("Your card, please.")], 1.0, "A chat message was found as expected"),
        (MESSAGE, [said("One moment"), RENEW], 0.0, "A tool call was found when a chat message"),
        (MESSAGE, [said(" \n")], 0.0, "No chat message"),
        (MESSAGE, [], 0.0, "No chat message"),
        (CALL, [RENEW], 1.0, "The expected tool call"),
        (CALL, [said("\n\n"), RENEW], 1.0, "The expected tool call"),
        (CALL, [RENEW, answered("done"), called("renew", "{}")], 1.0, "The expected tool call"),
        (CALL, [said("Shall I?")], 0.0, "No tool call was found when one was expected"),
        (CALL, [RENEW, RENEW], 0.0, "Several tool calls"),
        (CALL, [called("find", '{"book": "Emma", "weeks": 3}')], 0.0, "A call of another tool"),
        (CALL, [called("renew", '{"book": "Emma"}')], 0.0, "The arguments of the tool call differ"),
        (CALL, [called("renew", "Emma")], 0.0, "are not a JSON object"),
    ],
)
def test_the_step_must_be_the_one_that_is_due(
    expected: dict[str, str], output: list[dict[str, Any]], reward: float, category: str
) -> None:
    found = verify(server(), {"expected_action": expected}, *output)

    assert found["reward"] == reward
    assert category in found["category"]


@pytest.mark.parametrize(("last", "reward"), [("3", 1.0), ("4", 0.0)])
def test_long_integers_are_compared_digit_for_digit(last: str, reward: float) -> None:
    row = {"expected_action": {**CALL, "arguments": '{"book": 12345678901234567890123}'}}
    made = called("renew", f'{{"book": 1234567890123456789012{last}}}')

    assert verify(server(), row, made)["reward"] == reward


def test_arguments_in_free_text_can_be_left_out_of_it() -> None:
    row = {"expected_action": CALL}
    other = called("renew", '{"book": "Persuasion", "weeks": 3}')

    assert verify(server(ignored_arguments={"renew": ["book"]}), row, other)["reward"] == 1.0
    assert verify(server(ignored_arguments={"*": ["book"]}), row, other)["reward"] == 1.0
    assert verify(server(ignored_arguments={"find": ["book"]}), row, other)["reward"] == 0.0


def test_expected_arguments_that_are_no_object_are_refused() -> None:
    row = {"expected_action": {**CALL, "arguments": "Emma"}}

    assert post_verify(server(), row, RENEW)[0] == 422


def test_recorded_rollouts_get_the_reward_they_had() -> None:
    judge = server()

    assert all(agrees(judge, row, result) for row, result in recorded(NAME))

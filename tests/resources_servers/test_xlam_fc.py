import json
from typing import Any

import pytest
from verifying import agrees, answered, called, post_verify, recorded, said, server_of, verify

from palestra.resources_servers.xlam_fc.app import XlamServer

A, B = {"name": "tide", "arguments": {"of": "Oban"}}, {"name": "rate", "arguments": {"days": 14}}


def made(name: str, **arguments: Any) -> dict[str, Any]:
    return called(name, json.dumps(arguments))


def reward(expected: list[dict[str, Any]], *output: dict[str, Any]) -> float:
    return verify(server_of(XlamServer), {"expected_answers": expected}, *output)["reward"]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ([made("tide", of="Oban"), made("rate", days=14)], 1.0),
        ([made("rate", days=14.0), said("and"), made("tide", of="Oban")], 1.0),
        ([made("tide", of="Oban"), answered("404"), made("rate", days=14)], 1.0),
        ([made("tide", of="Oban")], 0.0),
        ([made("tide", of="Oban"), made("rate", days="14")], 0.0),
        ([made("tide", of="oban"), made("rate", days=14)], 0.0),
        ([made("tide", of="Oban"), made("rate", days=14, of="EUR")], 0.0),
        ([made("tide", of="Oban"), made("tide", of="Oban"), made("rate", days=14)], 0.0),
        ([made("tide", of="Oban"), called("rate", '{"days": 14')], 0.0),
        ([made("tide", of="Oban"), called("rate", "[14]")], 0.0),
        ([said('tide(of="Oban"), rate(days=14)')], 0.0),
        ([], 0.0),
    ],
)
def test_the_calls_made_must_be_exactly_the_expected_ones(
    output: list[dict[str, Any]], expected: float
) -> None:
    assert reward([A, B], *output) == expected


def test_a_call_expected_twice_must_be_made_twice() -> None:
    assert reward([A, A], made("tide", of="Oban"), made("tide", of="Oban")) == 1.0
    assert reward([A, A], made("tide", of="Oban")) == 0.0


def test_calling_nothing_can_be_right() -> None:
    assert reward([], said("Gulls, gulls, gulls")) == 1.0
    assert reward([], made("tide", of="Oban")) == 0.0


def test_true_is_not_one() -> None:
    row = [{"name": "set", "arguments": {"on": True, "more": [None, {"n": 1}]}}]

    assert reward(row, made("set", on=True, more=[None, {"n": 1}])) == 1.0
    assert reward(row, made("set", on=1, more=[None, {"n": 1}])) == 0.0
    assert reward(row, made("set", on=True, more=[None, {"n": True}])) == 0.0


def test_arguments_nested_without_end_are_wrong_and_no_error() -> None:
    assert reward([A], called("tide", '{"of":' + "[" * 100_000 + "]" * 100_000 + "}")) == 0.0
    assert reward([A], called("tide", '{"of":' + "[" * 900 + "]" * 900 + "}")) == 0.0


def test_what_was_called_is_reported() -> None:
    row = {"expected_answers": [A, B]}
    found = verify(server_of(XlamServer), row, made("tide", of="Oban"), called("rate", "oops"))

    assert (found["num_expected"], found["num_predicted"], found["num_correct"]) == (2, 2, 1)
    assert found["predicted_calls"] == [A, {"name": "rate", "arguments": None}]


def test_a_row_without_expected_answers_is_refused() -> None:
    status, _ = post_verify(server_of(XlamServer), {}, said("?"))

    assert status == 422


def test_recorded_rollouts_get_the_reward_they_had() -> None:
    server = server_of(XlamServer)

    assert all(agrees(server, row, result) for row, result in recorded("xlam_fc"))


def test_long_integers_are_compared_digit_for_digit() -> None:
    def reward_of(expected: int, given: str) -> float:
        wanted = [{"name": "tide", "arguments": {"of": expected}}]
        return reward(wanted, called("tide", f'{{"of": {given}}}'))

    assert reward_of(18446744073709551615, "18446744073709551615") == 1.0
    assert reward_of(18446744073709551615, "18446744073709551616") == 0.0
    assert reward_of(9007199254740993, "9007199254740992") == 0.0


def test_a_call_with_a_longer_integer_than_json_keeps_is_reported() -> None:
    digits = "1" * 30

    result = verify(
        server_of(XlamServer), {"expected_answers": [A]}, called("tide", f'{{"of": {digits}}}')
    )

    assert result["predicted_calls"] == [{"name": "tide", "arguments": {"of": float(digits)}}]

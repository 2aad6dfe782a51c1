import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verifying import agrees, called, example_rows, recorded, said, server_of, verify

from palestra.resources_servers.example_multi_step.app import HAND_IN, SynonymServer

ROW = {"expected_synonym_values": [711, 407], "minefield_label_value": 299}


def hand_in(values: Any) -> dict[str, Any]:
    return called(HAND_IN, f'{{"synonym_values": {values}}}')


@pytest.mark.parametrize(
    ("word", "value"), [("Blazing", 711), ("Warm", 407), ("Hot", 299), ("", 0)]
)
def test_a_words_value_is_the_sum_of_its_code_points(word: str, value: int) -> None:
    answer = asyncio.run(server_of(SynonymServer).get_synonym_value(word))

    assert answer == {"synonym_value": value}


def test_the_expected_values_in_order_are_rewarded() -> None:
    result = verify(server_of(SynonymServer), ROW, hand_in([711, 407]))

    assert result["reward"] == 1.0
    assert result["accuracy"] is True
    assert result["parsed_synonym_values"] == [711, 407]


def test_the_right_values_in_another_order_are_a_failure_to_follow_instructions() -> None:
    result = verify(server_of(SynonymServer), ROW, hand_in([407, 711]))

    assert result["reward"] == 0.0
    assert result["set_overlap"] == 1.0
    assert result["order_instruction_following_failure"] is True


def test_the_value_of_the_term_itself_is_a_mine() -> None:
    result = verify(server_of(SynonymServer), ROW, hand_in([711, 299]))

    assert result["reward"] == 0.0
    assert result["set_overlap"] == 0.5
    assert result["original_term_minefield_hit"] is True


def test_only_the_last_hand_in_counts() -> None:
    server = server_of(SynonymServer)

    assert verify(server, ROW, hand_in([1]), hand_in([711, 407]))["reward"] == 1.0
    assert verify(server, ROW, hand_in([711, 407]), hand_in([1]))["reward"] == 0.0


@pytest.mark.parametrize("values", ['["711", "407"]', "[711.0, 407.0]", "711", "[true]", "null"])
def test_what_is_no_list_of_integers_is_nothing_handed_in(values: str) -> None:
    result = verify(server_of(SynonymServer), ROW, hand_in(values))

    assert result["reward"] == 0.0
    assert result["parsed_synonym_values"] == []


@pytest.mark.slow
@given(arguments=st.text() | st.just("[" * 5000) | st.just("9" * 5000))
def test_no_arguments_a_model_writes_make_the_verifier_raise(arguments: str) -> None:
    result = verify(server_of(SynonymServer), ROW, called(HAND_IN, arguments), said(arguments))

    assert result["reward"] == 0.0


def test_the_shipped_rows_can_be_won() -> None:
    server = server_of(SynonymServer)

    for row in example_rows("example_multi_step"):
        assert verify(server, row, hand_in(row["expected_synonym_values"]))["reward"] == 1.0


def test_recorded_rollouts_get_the_reward_they_had() -> None:
    server = server_of(SynonymServer)

    assert all(agrees(server, row, result) for row, result in recorded("example_multi_step"))

"""What is planted in a rollout that was on policy is found, every time."""

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from test_vllm_turns import converse, params, whole
from token_fakes import CALL_AS_WRITTEN, FakeVLLM, token_model

from palestra.responses_api_models.vllm_model.on_policy import Checked, check_row

Row = dict[str, Any]


def sound_row() -> Row:
    answers = converse(token_model(FakeVLLM([CALL_AS_WRITTEN] * 2 + ["Cold."])), params(), 3)
    response = whole(answers).model_dump(mode="json")
    return {"responses_create_params": params().model_dump(mode="json"), "response": response}


SOUND = sound_row()
turns = st.integers(0, 2)


def turn_items(row: Row) -> list[Row]:
    return [item for item in row["response"]["output"] if item.get("generation_token_ids")]


def planted(edit: Callable[[Row], None], *, sealed: bool = True) -> Checked:
    row = deepcopy(SOUND)
    edit(row)
    if not sealed:
        for item in turn_items(row):
            del item["token_continuity"]
    return check_row(row)


def test_a_sound_rollout_has_no_problem() -> None:
    found = check_row(SOUND)

    assert found.on_policy
    assert (found.turns, found.continued, found.unsealed) == (3, 2, 0)


@given(turns, st.sampled_from(["prompt_token_ids", "generation_token_ids"]), st.data())
def test_two_tokens_made_one_are_found(turn: int, name: str, data: st.DataObject) -> None:
    def retokenize(row: Row) -> None:
        item = turn_items(row)[turn]
        ids = item[name]
        at = data.draw(st.integers(0, len(ids) - 2))
        ids[at : at + 2] = [70_000]
        if name == "generation_token_ids":
            del item["generation_log_probs"][at]

    assert planted(retokenize).problems


@given(turns, st.sampled_from(["prompt_token_ids", "generation_token_ids"]), st.integers(1, 3))
def test_shifted_ids_are_found(turn: int, name: str, by: int) -> None:
    def shift(row: Row) -> None:
        ids = turn_items(row)[turn][name]
        shifted = ids[by:] + ids[:by]
        assume(shifted != ids)
        turn_items(row)[turn][name] = shifted

    assert planted(shift).problems


@given(turns, st.data())
def test_a_fabricated_turn_is_found(turn: int, data: st.DataObject) -> None:
    def fabricate(row: Row) -> None:
        item = turn_items(row)[turn]
        ids = data.draw(st.lists(st.integers(0, 50_000), min_size=1, max_size=9))
        assume(ids != item["generation_token_ids"])
        item["generation_token_ids"] = ids
        item["generation_log_probs"] = [-0.5] * len(ids)

    assert planted(fabricate).problems


@given(turns, st.floats(max_value=0, allow_infinity=False, allow_nan=False), st.data())
def test_a_changed_log_prob_is_found(turn: int, value: float, data: st.DataObject) -> None:
    def change(row: Row) -> None:
        log_probs = turn_items(row)[turn]["generation_log_probs"]
        at = data.draw(st.integers(0, len(log_probs) - 1))
        assume(log_probs[at] != value)
        log_probs[at] = value

    assert planted(change).problems


@given(st.sampled_from(["user", "arguments", "output", "said", "tool", "dropped"]))
def test_an_edited_history_is_found(where: str) -> None:
    def edit(row: Row) -> None:
        output = row["response"]["output"]
        match where:
            case "user":
                row["responses_create_params"]["input"] = "Weather today?"
            case "arguments":
                output[0]["arguments"] = '{"at":"Oslo"}'
            case "output":
                output[1]["output"] = "warm"
            case "said":
                output[-1]["content"][0]["text"] = "Warm."
            case "tool":
                row["responses_create_params"]["tools"][0]["name"] = "see"
            case "dropped":
                del output[1]

    assert planted(edit).problems


@given(st.integers(0, 1), st.data())
def test_without_seals_a_prompt_that_leaves_the_ids_before_it_is_still_found(
    turn: int, data: st.DataObject
) -> None:
    def change(row: Row) -> None:
        ids = turn_items(row)[turn]["generation_token_ids"]
        ids[data.draw(st.integers(0, len(ids) - 1))] = 70_000

    found = planted(change, sealed=False)

    assert found.problems
    assert found.unsealed == 3


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "x", 0.5])
def test_what_is_no_log_probability_is_found(value: Any) -> None:
    def spoil(row: Row) -> None:
        turn_items(row)[1]["generation_log_probs"][0] = value

    assert any("no log probability" in p.what for p in planted(spoil, sealed=False).problems)


@pytest.mark.parametrize("name", ["prompt_token_ids", "generation_token_ids"])
def test_a_turn_without_its_ids_is_found(name: str) -> None:
    def lose(row: Row) -> None:
        turn_items(row)[1].pop(name)

    assert any("missing" in problem.what for problem in planted(lose).problems)


def test_lists_of_different_lengths_are_found() -> None:
    found = planted(lambda row: turn_items(row)[2]["generation_log_probs"].pop(), sealed=False)

    assert any("6 generation ids and 5 log probs" in p.what for p in found.problems)


def test_a_row_that_is_no_rollout_is_refused() -> None:
    with pytest.raises(ValueError, match="no stored rollout"):
        check_row({"response": {}})

"""What is planted in a rollout that was on policy is found, every time."""

import asyncio
import math
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from test_vllm_turns import converse, params, whole
from token_fakes import CALL_AS_WRITTEN, FakeVLLM, token_model

from palestra.errors import Hop
from palestra.responses_api_models.chat import ContextOverflow
from palestra.responses_api_models.chat.response import overflow_response
from palestra.responses_api_models.vllm_model.on_policy import (
    OnPolicyTally,
    check_rollout,
    check_row,
    main,
)
from palestra.server import Session

Row = dict[str, Any]


def sound_row() -> Row:
    answers = converse(token_model(FakeVLLM([CALL_AS_WRITTEN] * 2 + ["Cold."])), params(), 3)
    response = whole(answers).model_dump(mode="json")
    return {"responses_create_params": params().model_dump(mode="json"), "response": response}


SOUND = sound_row()
turns = st.integers(0, 2)


def turn_items(row: Row) -> list[Row]:
    return [item for item in row["response"]["output"] if item.get("generation_token_ids")]


def planted(edit: Callable[[Row], None], *, sealed: bool = True) -> OnPolicyTally:
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

    assert any("not a log probability" in p.what for p in planted(spoil, sealed=False).problems)


@pytest.mark.parametrize("name", ["prompt_token_ids", "generation_token_ids"])
def test_a_turn_without_its_ids_is_found(name: str) -> None:
    def lose(row: Row) -> None:
        turn_items(row)[1].pop(name)

    assert any("missing" in problem.what for problem in planted(lose).problems)


def test_lists_of_different_lengths_are_found() -> None:
    found = planted(lambda row: turn_items(row)[2]["generation_log_probs"].pop(), sealed=False)

    assert any("5 log probs for 6 ids" in p.what for p in found.problems)


def written(folder: Path, *rows: Row) -> str:
    path = folder / "rollouts.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return str(path)


def unsealed_row() -> Row:
    row = deepcopy(SOUND)
    for item in turn_items(row):
        del item["token_continuity"]
    return row


def test_the_command_succeeds_for_rollouts_on_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([written(tmp_path, SOUND, SOUND)]) == 0
    assert capsys.readouterr().out.startswith("2 rollouts, 6 turns")


def test_rows_without_a_seal_do_not_count_as_on_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, SOUND, unsealed_row())

    assert main([path]) == 1
    assert "3 carry no seal" in capsys.readouterr().out
    assert main(["--allow-unsealed", path]) == 0


def test_rows_without_a_seal_that_are_broken_are_no_success_even_if_that_is_allowed(
    tmp_path: Path,
) -> None:
    row = unsealed_row()
    turn_items(row)[0]["generation_token_ids"][0] = 70_000

    assert main(["--allow-unsealed", written(tmp_path, row)]) == 1


def test_no_rollouts_are_no_success(tmp_path: Path) -> None:
    assert main([written(tmp_path)]) == 1


def test_a_rollout_without_any_turn_is_a_problem() -> None:
    found = check_row({**SOUND, "response": {**SOUND["response"], "output": []}})

    assert "no turn of the model" in found.problems[0].what


@pytest.mark.parametrize("line", [b"{", b"{}\n", b"\n"])
def test_a_line_that_is_no_rollout_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: bytes
) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(orjson.dumps(SOUND) + b"\n" + line)

    assert main([str(path)]) == 2
    assert f"{path}:2: " in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl cannot be read" in capsys.readouterr().err


def continuing_row(*, edited: bool = False) -> Row:
    """A rollout whose task began with a turn that carries ids."""
    model = token_model(FakeVLLM([CALL_AS_WRITTEN, "Cold."]))
    (first,) = converse(model, params(), 1)
    said = "Weather in Oslo?" if edited else "Weather?"
    items: list[Any] = [{"role": "user", "content": said}]
    items += [item.model_dump(mode="json") for item in first.output]
    items.append({"type": "function_call_output", "call_id": "call_1", "output": "cold"})
    asked = params(input=items)
    answer = asyncio.run(model.responses(asked, Session("s")))
    return {
        "responses_create_params": asked.model_dump(mode="json"),
        "response": answer.model_dump(mode="json"),
    }


def test_a_first_turn_that_continues_the_tasks_history_is_held_against_it() -> None:
    found = check_row(continuing_row())

    assert (found.turns, found.continued, found.problems) == (1, 1, [])


def test_a_first_turn_that_is_broken_is_counted() -> None:
    found = check_row(continuing_row(edited=True))

    assert sum(found.broken.values()) == 1
    assert not found.on_policy


def test_a_first_turn_that_leaves_the_tasks_history_is_found() -> None:
    row = continuing_row()
    item = next(i for i in row["responses_create_params"]["input"] if i.get("prompt_token_ids"))
    item["generation_token_ids"][0] = 70_000

    assert any("does not start with" in p.what for p in check_row(row).problems)


def test_a_first_turn_that_claims_to_continue_nothing_is_found() -> None:
    def claim(row: Row) -> None:
        turn_items(row)[0]["token_continuity"]["state"] = "continued"

    assert any("there is no earlier turn" in p.what for p in planted(claim).problems)


def overflowing(**message: Any) -> Row:
    """A rollout whose last turn had no room."""
    row = deepcopy(SOUND)
    said = [{"type": "output_text", "text": ""}]
    empty = {"type": "message", "role": "assistant", "content": said, "status": "incomplete"}
    row["response"]["output"][-1] = {**empty, **message}
    row["response"]["incomplete_details"] = {"reason": "max_output_tokens"}
    return row


def test_a_turn_that_the_context_had_no_room_for_is_truncated_and_no_problem() -> None:
    found = check_row(overflowing())

    assert (found.turns, found.truncated, found.problems) == (2, 1, [])
    assert found.on_policy
    assert "1 were never made as the context was full" in found.lines()[0]


def test_a_rollout_that_never_had_room_is_truncated_as_a_whole() -> None:
    spent = "max_tokens or model output limit was reached"
    overflow = ContextOverflow(spent, Hop("m"))
    response = overflow_response(params(), model="m", overflow=overflow)

    found = check_rollout(params(), response)

    assert (found.turns, found.truncated, found.on_policy) == (0, 1, True)


@pytest.mark.parametrize(
    "lost", [{"content": [{"type": "output_text", "text": "Cold."}]}, {"status": "completed"}]
)
def test_a_turn_that_lost_its_ids_does_not_pass_for_truncated(lost: dict[str, Any]) -> None:
    assert any("missing" in problem.what for problem in check_row(overflowing(**lost)).problems)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"response": {}}, "it has no responses_create_params"),
        ([], "it has no responses_create_params"),
        ({"responses_create_params": {"input": "q"}}, "it has no response"),
        (
            {"responses_create_params": {"input": 5}},
            "/responses_create_params/input: Input should be a valid",
        ),
        (
            {"responses_create_params": {"input": "q"}, "response": {}},
            "/response/id: Field required",
        ),
    ],
)
def test_a_row_that_is_no_rollout_is_refused_with_its_field(row: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"not a stored rollout: {problem}")):
        check_row(row)

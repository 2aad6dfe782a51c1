"""What every adapter makes of outcomes: shapes, masks, and what it refuses."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from outcome_samples import FIRST, SECOND, completed, failed

from palestra.errors import ConfigError, InputDataError, RunFailed
from palestra.training import Chain, Completed, IncompleteRollouts, Outcome, Turn
from palestra.training.adapters import nemo_rl, skyrl, verl
from palestra.training.adapters.asking import row_of, sampling_for
from palestra.training.adapters.trl import _sample as trl_sample

PAD = 99
ROW = {"responses_create_params": {"input": "1 + 1 =", "metadata": {"extra_body": '{"seed":3}'}}}


def of_verl(outcome: Outcome) -> verl.LoopOutput:
    return verl.agent_loop_output(outcome, pad_id=PAD)


def of_skyrl(outcome: Outcome) -> skyrl.GeneratorOutput:
    return skyrl.generator_output([outcome], pad_id=PAD)


def of_nemo_rl(outcome: Outcome) -> nemo_rl.RolloutResult:
    return nemo_rl.rollout_results([outcome], pad_id=PAD)[0]


EACH: list[Callable[[Outcome], Any]] = [of_verl, of_skyrl, of_nemo_rl]


def test_verl_gets_everything_after_the_first_prompt_with_a_mask_over_what_tools_said() -> None:
    found = of_verl(completed())

    assert found["prompt_ids"] == [1, 2, 3]
    assert found["response_ids"] == [4, 5, 6, 7, 8]
    assert found["response_mask"] == [1, 1, 0, 0, 1]
    assert found["response_logprobs"] == [-0.1, -0.2, 0.0, 0.0, -0.3]
    assert found["reward_score"] == 1.0
    assert found["num_turns"] == 4
    assert found["extra_fields"]["min_global_steps"] == 7
    assert found["extra_fields"]["max_global_steps"] == 8


def test_verl_gets_no_longer_response_than_it_is_configured_for() -> None:
    found = verl.agent_loop_output(completed(), pad_id=PAD, response_length=3)

    assert found["response_ids"] == [4, 5, 6]
    assert found["response_mask"] == [1, 1, 0]
    assert found["response_logprobs"] == [-0.1, -0.2, 0.0]


def test_skyrl_gets_lists_of_equal_length_in_the_order_of_its_prompts() -> None:
    found = skyrl.generator_output(
        [completed(), completed(FIRST, reward=0.5, stop_reason="max_output_tokens")], pad_id=PAD
    )

    assert found["prompt_token_ids"] == [[1, 2, 3], [1, 2, 3]]
    assert found["response_ids"] == [[4, 5, 6, 7, 8], [4, 5]]
    assert found["loss_masks"] == [[1, 1, 0, 0, 1], [1, 1]]
    assert found["rollout_logprobs"] == [[-0.1, -0.2, 0.0, 0.0, -0.3], [-0.1, -0.2]]
    assert found["rewards"] == [1.0, 0.5]
    assert found["stop_reasons"] == ["stop", "length"]
    assert found["trajectory_generation_times"] == [4.0, 4.0]


def test_nemo_rl_gets_a_message_for_all_that_was_read_or_said_in_a_turn() -> None:
    log = of_nemo_rl(completed())["message_log"]

    assert [message["role"] for message in log] == ["user", "assistant", "user", "assistant"]
    assert [message["token_ids"] for message in log] == [[1, 2, 3], [4, 5], [6, 7], [8]]
    assert log[1]["generation_logprobs"] == [-0.1, -0.2]


def test_nemo_rls_rows_say_the_same_as_the_flat_view() -> None:
    outcome = completed()
    log = of_nemo_rl(outcome)["message_log"]

    ids = [token for message in log for token in message["token_ids"]]
    mask = [int(message["role"] == "assistant") for message in log for _ in message["token_ids"]]
    logprobs = [
        value
        for message in log
        for value in message.get("generation_logprobs", [0.0] * len(message["token_ids"]))
    ]

    assert (ids, mask, logprobs) == (
        outcome.flat.ids,
        outcome.flat.loss_mask,
        outcome.flat.logprobs,
    )


def test_verls_and_skyrls_sequences_say_the_same_as_the_flat_view() -> None:
    outcome = completed()
    one, other = of_verl(outcome), of_skyrl(outcome)

    assert one["prompt_ids"] + one["response_ids"] == outcome.flat.ids
    assert [0, 0, 0, *one["response_mask"]] == outcome.flat.loss_mask
    assert other["prompt_token_ids"][0] + other["response_ids"][0] == outcome.flat.ids
    assert [0, 0, 0, *other["loss_masks"][0]] == outcome.flat.loss_mask


def test_tensors_and_texts_are_made_by_what_the_trainer_gives() -> None:
    (found,) = nemo_rl.rollout_results(
        [completed()], pad_id=PAD, tensor=tuple, decode=lambda ids: "/".join(map(str, ids))
    )

    assert found["message_log"][1]["token_ids"] == (4, 5)
    assert found["message_log"][1]["content"] == "4/5"


@pytest.mark.parametrize("adapt", EACH)
def test_a_failed_rollout_never_becomes_a_row(adapt: Callable[[Outcome], Any]) -> None:
    with pytest.raises(IncompleteRollouts) as refused:
        adapt(failed(task=4, rollout=2))

    assert [str(key) for key in refused.value.missing] == ["4:2"]
    assert "the agent died" in str(refused.value)
    assert "drop_group" in refused.value.hint


@pytest.mark.parametrize("adapt", EACH)
def test_a_rollout_of_several_sequences_is_refused(adapt: Callable[[Outcome], Any]) -> None:
    split = completed(chains=[Chain([FIRST]), Chain([Turn([9, 9], [8], [-0.3])])])

    with pytest.raises(RunFailed, match="2 sequences"):
        adapt(split)


@pytest.mark.parametrize("adapt", [*EACH, lambda one: trl_sample(one, PAD)])
def test_a_masked_rollout_of_several_sequences_is_a_masked_row(
    adapt: Callable[[Outcome], Any],
) -> None:
    chains = [Chain([FIRST]), Chain([Turn([9, 9], [8], [-0.3])])]

    found = str(adapt(completed(chains=chains, masked=True, mask_reason="rewritten")))

    assert "[1, 2, 3]" in found
    assert "9, 9" not in found


def test_a_masked_rollout_keeps_its_reward_and_is_not_trained_on() -> None:
    masked = completed(masked=True, mask_reason="incomplete capture")

    assert of_verl(masked)["response_mask"] == [0, 0, 0, 0, 0]
    assert of_verl(masked)["reward_score"] == 1.0
    assert of_skyrl(masked)["loss_masks"] == [[0, 0, 0, 0, 0]]
    assert of_skyrl(masked)["rewards"] == [1.0]
    assert of_nemo_rl(masked)["full_result"]["mask_sample"]
    assert of_nemo_rl(masked)["full_result"]["reward"] == 1.0
    assert "assistant" not in {message["role"] for message in of_nemo_rl(masked)["message_log"]}


@pytest.mark.parametrize(
    ("silent", "prompt"),
    [
        (completed(chains=[], masked=True), [PAD]),
        (completed(Turn([1, 2, 3], [], []), truncated=True), [1, 2, 3]),
    ],
    ids=["no ids were captured", "the context was full"],
)
def test_where_there_are_no_tokens_a_masked_pad_stands_for_them(
    silent: Completed, prompt: list[int]
) -> None:
    one, other, third = of_verl(silent), of_skyrl(silent), of_nemo_rl(silent)

    assert (one["prompt_ids"], one["response_ids"], one["response_mask"]) == (prompt, [PAD], [0])
    assert (other["prompt_token_ids"], other["response_ids"]) == ([prompt], [[PAD]])
    assert other["loss_masks"] == [[0]]
    assert [message["token_ids"] for message in third["message_log"]] == [prompt, [PAD]]
    assert third["full_result"]["mask_sample"]


def test_a_turn_without_valid_log_probs_is_no_assistants() -> None:
    found = of_nemo_rl(completed(Turn([1], [2, 3], []), SECOND))

    assert [message["role"] for message in found["message_log"]] == [
        "user",
        "environment",
        "user",
        "assistant",
    ]


def test_skyrls_prompts_become_requests_named_by_its_trajectories() -> None:
    asked: skyrl.GeneratorInput = {
        "prompts": ["-", "-"],
        "env_extras": [{"row": orjson.dumps(ROW).decode()}] * 2,
        "sampling_params": {"temperature": 0.5, "max_generate_length": 32, "logprobs": 1},
        "trajectory_ids": [SimpleNamespace(instance_id="t", repetition_id=k) for k in range(2)],
    }

    found = skyrl.requests_of(asked)

    assert [str(request.key) for request in found] == ["t:0", "t:1"]
    assert found[0].row == ROW
    assert found[0].sampling == {"temperature": 0.5, "max_output_tokens": 32}


def test_skyrls_lists_must_be_equally_long() -> None:
    with pytest.raises(InputDataError, match="2 prompts with 1 env_extras"):
        skyrl.requests_of({"prompts": ["-", "-"], "env_extras": [{"row": ROW}]})


def test_parameters_that_the_responses_api_lacks_go_to_the_endpoint_beside_the_rows_own() -> None:
    found = sampling_for(
        ROW, {"top_k": 20, "min_p": 0.0, "max_tokens": 7, "repetition_penalty": 1.0}
    )

    assert found["max_output_tokens"] == 7
    assert orjson.loads(found["metadata"]["extra_body"]) == {"seed": 3, "top_k": 20}


def test_values_that_mean_nothing_are_not_sent() -> None:
    assert sampling_for(ROW, {"top_k": -1, "top_p": 1.0, "min_p": None}) == {"top_p": 1.0}


def test_several_answers_to_one_request_are_refused() -> None:
    with pytest.raises(ConfigError, match="n is 4"):
        sampling_for(ROW, {"n": 4})


@pytest.mark.parametrize("given", [{"input": "hi"}, "{", None, "[1]"])
def test_what_is_no_task_is_refused_with_its_place(given: Any) -> None:
    with pytest.raises(InputDataError, match="column row"):
        row_of(given, "column row")

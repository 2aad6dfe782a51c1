"""NeMo RL's results, final batch and environment: what its loop reads, and in which order."""

import asyncio
import json
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcome_samples import FIRST, SECOND, completed, failed
from token_endpoint import token_endpoint
from training_world import AGENT, ToldAgent, ToldServers, answer, heard, said

import palestra
from palestra.errors import ConfigError, InputDataError
from palestra.fleet import EMBEDDED
from palestra.training import ClientSettings, Completed, IncompleteRollouts, RawRow, Turn
from palestra.training.adapters.nemo_rl import final_batch, input_ids, rollout_results
from palestra.training.adapters.nemo_rl_environment import (
    BatchEnvironment,
    StreamingEnvironment,
    open_environment,
    requests_of,
)

PAD = 99
NEXT_PROMPT = [1, 2, 3, 4, 5, 6, 7]


class Tokenizer:
    """The parts of a Hugging Face tokenizer that the environment uses."""

    pad_token_id = PAD
    eos_token_id = 98

    def decode(self, ids: list[int]) -> str:
        return "/".join(map(str, ids))


def text(*parts: str) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": part, "annotations": []} for part in parts],
    }


def with_row(*output: dict[str, Any], **fields: Any) -> Completed:
    """An outcome of two turns, whose agent returned these items."""
    raw = {**answer(1.0, *output), "agent_ref": {"name": AGENT}, **fields}
    return completed(raw=RawRow(raw), reward_components=fields.get("reward_components") or {})


def batch_of(*outcomes: Completed, **options: Any) -> dict[str, Any]:
    return final_batch(rollout_results(outcomes, pad_id=PAD), **options)


def test_every_column_of_numbers_is_a_tensor_of_its_kind() -> None:
    outcomes = completed(), completed(Turn([1], [2], [-0.5]), reward=0.5)

    batch = batch_of(*outcomes, tensor=np.array)

    kinds = {name: column.dtype.kind for name, column in batch.items() if hasattr(column, "dtype")}
    assert kinds == {
        "length": "i",
        "loss_multiplier": "f",
        "total_reward": "f",
        "truncated": "b",
        "mask_sample": "b",
    }
    assert batch["total_reward"].tolist() == [1.0, 0.5]


def test_torch_makes_the_dtypes_that_the_loop_reads() -> None:
    torch = pytest.importorskip("torch")
    results = rollout_results([completed()], pad_id=PAD, tensor=torch.tensor)

    batch = final_batch(results, tensor=torch.tensor)

    answer_message = batch["message_log"][0][1]
    assert answer_message["token_ids"].dtype == torch.int64
    assert answer_message["generation_logprobs"].dtype == torch.float32
    assert batch["total_reward"].dtype == batch["loss_multiplier"].dtype == torch.float32
    assert batch["truncated"].dtype == batch["mask_sample"].dtype == torch.bool
    assert input_ids(results, pad_id=PAD, tensor=torch.tensor).tolist() == [[1, 2, 3]]


def test_length_is_that_of_the_prompt() -> None:
    batch = batch_of(completed())

    assert batch["length"] == [3]
    assert batch["input_message_log"][0] == batch["message_log"][0][:1]


def test_the_baseline_groups_by_prompts_of_equal_width() -> None:
    results = rollout_results([completed(), completed(Turn([7], [8], [-0.1]))], pad_id=PAD)

    assert input_ids(results, pad_id=PAD) == [[1, 2, 3], [7, PAD, PAD]]


def test_loss_multipliers_are_those_of_the_input_batch_unless_masked() -> None:
    outcomes = completed(), completed(), completed(masked=True, mask_reason="rewritten")

    batch = batch_of(*outcomes, input_batch={"loss_multiplier": np.array([1.0, 0.0, 1.0])})

    assert batch["loss_multiplier"] == [1.0, 0.0, 0.0]
    assert batch["full_result"][2]["mask_reason"] == "rewritten"


def test_a_batch_of_another_size_than_its_results_is_refused() -> None:
    with pytest.raises(InputDataError, match="1 rollout results for a batch of 2 rows"):
        batch_of(completed(), input_batch={"loss_multiplier": [1.0, 1.0]})


def test_an_environment_that_masks_a_rollout_is_obeyed() -> None:
    batch = batch_of(with_row(mask_sample=True), with_row())

    assert batch["mask_sample"] == [True, False]
    assert {message["role"] for message in batch["message_log"][0]} == {"user", "environment"}


def test_components_of_the_reward_are_columns_for_gdpo() -> None:
    first = with_row(reward_components={"format": 1, "answer": 0.0})
    second = with_row(reward_components={"answer": 1.0, "format": 0.5})

    batch = batch_of(first, second, tensor=np.array)

    assert batch["reward/format"].tolist() == [1.0, 0.5]
    assert batch["reward/answer"].tolist() == [0.0, 1.0]


def test_a_component_that_a_rollout_lacks_is_never_made_up() -> None:
    batch = batch_of(with_row(reward_components={"format": 1.0}), with_row())

    assert [name for name in batch if name.startswith("reward/")] == []


def test_the_agent_and_its_row_are_there_without_the_token_ids() -> None:
    (result,) = rollout_results([with_row(said(), heard(), said(NEXT_PROMPT, [8]))], pad_id=PAD)

    assert result["agent_ref"] == {"name": AGENT}
    items = result["full_result"]["response"]["output"]
    assert [sorted(item) for item in items] == [["content", "role", "type"]] * 3


@pytest.mark.parametrize(
    ("items", "is_invalid_tool_call", "has_malformed_thinking"),
    [
        ([text("7")], False, False),
        ([text('<tool_call>{"name": "f"')], True, False),
        ([text("7 </think>")], False, True),
        (
            [
                {
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": "</tool_call>"}],
                },
                text("7"),
            ],
            True,
            False,
        ),
    ],
)
def test_a_turn_says_whether_its_call_or_its_thinking_is_broken(
    items: list[dict[str, Any]], is_invalid_tool_call: bool, has_malformed_thinking: bool
) -> None:
    (result,) = rollout_results([with_row(said(), heard(), *items)], pad_id=PAD)

    first, second = [m for m in result["message_log"] if m["role"] == "assistant"]
    assert (first["is_invalid_tool_call"], first["has_malformed_thinking"]) == (False, False)
    assert second["is_invalid_tool_call"] is is_invalid_tool_call
    assert second["has_malformed_thinking"] is has_malformed_thinking


def test_nothing_is_said_of_turns_that_the_agent_hides() -> None:
    (result,) = rollout_results([with_row(text("<tool_call>"))], pad_id=PAD)

    assert not any("is_invalid_tool_call" in message for message in result["message_log"])


@pytest.mark.parametrize(
    ("experts", "of_read", "of_generated"),
    [
        ([[0], [1], [2], [3], [4], [5], [6], [7]], [[5], [6]], [[7]]),
        ([[7]], None, [[7]]),
        ([[1], [2]], None, None),
    ],
    ids=["of all ids", "of the generated ids", "of something else"],
)
def test_routed_experts_are_cut_to_the_messages(
    experts: list[Any], of_read: list[Any] | None, of_generated: list[Any] | None
) -> None:
    last = {**said(NEXT_PROMPT, [8]), "routed_experts": experts}
    (result,) = rollout_results([with_row(said(), heard(), last)], pad_id=PAD)

    read, generated = result["message_log"][2:]
    assert (read.get("routed_experts"), generated.get("routed_experts")) == (of_read, of_generated)


def test_a_missing_rollout_is_told_before_any_other_problem() -> None:
    split = completed(chains=[*completed(FIRST).chains, *completed(SECOND).chains])

    with pytest.raises(IncompleteRollouts, match="returned only 1 rollouts but 2 were requested"):
        rollout_results([split, failed()], pad_id=PAD)


def test_the_rows_of_a_prompt_are_requests_of_their_own() -> None:
    row = {"responses_create_params": {"input": "1 + 1 ="}}

    by_place = requests_of([row, row])
    by_task = requests_of([{**row, "_ng_task_index": 4}] * 2)

    assert [str(request.key) for request in by_place] == ["0:0", "1:0"]
    assert [str(request.key) for request in by_task] == ["4:0", "4:1"]


ROWS = [
    {"responses_create_params": {"input": "-"}, "_ng_task_index": task, "_rowidx": 10 + place}
    for place, task in enumerate((3, 3, 5))
]


def told(script: Any) -> Any:
    return nullcontext(ToldServers(ToldAgent(script)))


def batch_run(script: Any, **settings: Any) -> Any:
    async def run() -> Any:
        environment = BatchEnvironment(
            partial(told, script), ClientSettings(**settings), tensor=np.array
        )
        await environment.start()
        try:
            assert await environment.health_check()
            return await environment.run_rollouts(ROWS, Tokenizer(), "timing/rollout")
        finally:
            await environment.shutdown()
            assert not await environment.health_check()

    return asyncio.run(run())


def test_the_environment_returns_results_in_the_order_of_its_rows() -> None:
    async def slowest_first(key: Any) -> float:
        await asyncio.sleep(0.05 * (5 - key.task_id))
        return float(10 * key.task_id + key.rollout_index)

    results, timings = batch_run(lambda key, _: slowest_first(key))

    assert [result["full_result"]["reward"] for result in results] == [30.0, 31.0, 50.0]
    assert results[0]["message_log"][0]["content"] == "1/2"
    assert set(timings) == {
        "timing/rollout/await_results",
        "timing/rollout/postprocess_results",
    }


def test_the_environment_returns_no_batch_that_lacks_a_rollout() -> None:
    def one_fails(key: Any, _: int) -> float:
        if key.task_id == 5:
            raise ConfigError("no such tool")
        return 1.0

    with pytest.raises(RuntimeError, match="returned only 2 rollouts but 3 were requested"):
        batch_run(one_fails, on_incomplete="mask", min_fraction=0.0)


def test_the_stream_names_each_row_by_the_index_that_the_loop_gave_it() -> None:
    async def run() -> list[Any]:
        environment = StreamingEnvironment(
            partial(told, lambda key, _: float(key.task_id)), tensor=np.array
        )
        await environment.start()
        await environment.set_tokenizer(Tokenizer())
        try:
            return [landed async for landed in environment.run_rollouts(ROWS)]
        finally:
            await environment.shutdown()

    landed = asyncio.run(run())

    rewards = {index: result["full_result"]["reward"] for index, result, _ in landed}
    assert rewards == {10: 3.0, 11: 3.0, 12: 5.0}
    assert all(set(timings) == {"await_results", "postprocess_results"} for *_, timings in landed)


def test_an_environment_that_was_not_started_says_so() -> None:
    environment = BatchEnvironment(partial(told, None), tensor=np.array)

    with pytest.raises(ConfigError, match="not started"):
        asyncio.run(environment.run_rollouts(ROWS, Tokenizer()))


@pytest.mark.slow
def test_nemo_rls_own_configuration_runs_the_stock_environment() -> None:
    model = "responses_api_models/vllm_model/configs/vllm_model.yaml"
    data = Path(palestra.__file__).parent / "resources_servers/mcqa/data/example.jsonl"
    row = json.loads(data.read_text().splitlines()[2])

    async def run(url: str) -> Any:
        config = {
            "model_name": "policy",
            "base_urls": [url],
            "initial_global_config_dict": {
                "config_paths": ["resources_servers/mcqa/configs/mcqa.yaml", model],
                "policy_model": {
                    "responses_api_models": {"vllm_model": {"return_token_id_information": True}}
                },
            },
        }
        environment = BatchEnvironment(
            partial(open_environment, config, placement=EMBEDDED), tensor=np.array
        )
        await environment.start()
        try:
            return await environment.run_rollouts([row], Tokenizer(), "timing")
        finally:
            await environment.shutdown()

    with token_endpoint() as url:
        ((result,), _) = asyncio.run(run(url))

    assert result["full_result"]["reward"] == 1.0
    assert result["message_log"][1]["token_ids"].tolist() == [4, 5]
    assert result["agent_ref"] == {"name": "mcqa_simple_agent"}

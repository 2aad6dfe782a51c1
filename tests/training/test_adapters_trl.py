"""What TRL's `GRPOTrainer` gets from `TrlRollouts`; the trainer itself is in test_grpo_cpu.py."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from outcome_samples import completed, failed

from palestra.errors import ConfigError, InputDataError, RunFailed
from palestra.training import Outcome, RolloutRequest
from palestra.training.adapters import trl as adapter
from palestra.training.adapters.trl import TrlRollouts, environment_reward

ROWS = [
    {"responses_create_params": {"input": "1 + 1 ="}, "answer": "2"},
    {"responses_create_params": {"input": [{"role": "user", "content": "2 + 2 ="}]}},
]
EOS = 50


class FakeClient:
    """Answers every submission with the same outcomes, and notes what was asked for."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[RolloutRequest] = []
        self.versions: list[int] = []

    def submit(self, requests: Iterable[RolloutRequest]) -> AbstractContextManager[Any]:
        self.asked = list(requests)
        return nullcontext(SimpleNamespace(gather=lambda: self.outcomes))

    def set_weight_version(self, version: int) -> None:
        self.versions.append(version)


def trainer(step: int = 0, **args: Any) -> Any:
    given = {"temperature": 0.8, "top_p": 1.0, "top_k": 0, "max_completion_length": 6, **args}
    return SimpleNamespace(
        state=SimpleNamespace(global_step=step),
        args=SimpleNamespace(**given),
        processing_class=SimpleNamespace(eos_token_id=EOS),
    )


def prompts(rollouts: TrlRollouts, *indices: int) -> list[Any]:
    return [rollouts.dataset()[index]["prompt"] for index in indices]


def test_each_prompt_of_a_batch_is_a_rollout_of_its_own() -> None:
    client = FakeClient([completed()] * 4)
    rollouts = TrlRollouts(client, ROWS)

    rollouts(prompts(rollouts, 1, 1, 0, 0), trainer())

    assert [str(request.key) for request in client.asked] == ["1:0", "1:1", "0:0", "0:1"]
    assert client.asked[2].row == ROWS[0]
    assert client.asked[0].sampling == {
        "temperature": 0.8,
        "top_p": 1.0,
        "max_output_tokens": 6,
    }


def test_trl_gets_one_sequence_for_each_prompt_with_a_mask_and_the_reward() -> None:
    client = FakeClient([completed(reward=0.25)])
    rollouts = TrlRollouts(client, ROWS)

    found = rollouts(prompts(rollouts, 0), trainer())

    assert found == {
        "prompt_ids": [[1, 2, 3]],
        "completion_ids": [[4, 5, 6, 7, 8]],
        "logprobs": [[-0.1, -0.2, 0.0, 0.0, -0.3]],
        "env_mask": [[1, 1, 0, 0, 1]],
        "environment_reward": [0.25],
    }


def test_a_failed_rollout_has_no_reward_and_no_token_to_train_on() -> None:
    client = FakeClient([completed(), failed()])
    rollouts = TrlRollouts(client, ROWS)

    found = rollouts(prompts(rollouts, 0, 0), trainer())

    assert found["environment_reward"] == [1.0, None]
    assert found["completion_ids"][1] == [EOS]
    assert found["env_mask"][1] == [0]


@pytest.mark.parametrize(("installed", "refused"), [("1.5.1", True), ("1.16.0", False)])
def test_a_trl_that_makes_zero_of_a_missing_reward_is_refused(
    monkeypatch: pytest.MonkeyPatch, installed: str, refused: bool
) -> None:
    monkeypatch.setattr(adapter, "version", lambda _: installed)
    rollouts = TrlRollouts(FakeClient([completed(), failed()]), ROWS)

    with (
        pytest.raises(RunFailed, match=r"TRL 1\.5\.1 treats a missing reward as 0")
        if refused
        else nullcontext()
    ):
        rollouts(prompts(rollouts, 0, 0), trainer())


def test_a_failed_rollout_beside_other_reward_functions_is_refused() -> None:
    rollouts = TrlRollouts(FakeClient([completed(), failed()]), ROWS)
    with_two = trainer()
    with_two.reward_funcs = [environment_reward, len]

    with pytest.raises(RunFailed, match="other reward functions"):
        rollouts(prompts(rollouts, 0, 0), with_two)


def test_the_reward_function_hands_on_what_the_environment_said() -> None:
    rewards = environment_reward(
        prompts=[], completions=[], environment_reward=[0.5, None], trainer_state=None
    )

    assert rewards == [0.5, None]


def test_weights_are_pushed_once_for_each_step_before_its_rollouts() -> None:
    client = FakeClient([completed()])
    pushed: list[int] = []
    rollouts = TrlRollouts(client, ROWS, push_weights=lambda _, version: pushed.append(version))

    for step in (0, 0, 1):
        rollouts(prompts(rollouts, 0), trainer(step))

    assert pushed == [0, 1]
    assert client.versions == [0, 1]


def test_a_batch_without_anything_to_train_on_stops_the_training() -> None:
    client = FakeClient([failed(), completed(masked=True, mask_reason="incomplete capture")])
    rollouts = TrlRollouts(client, ROWS)

    with pytest.raises(RunFailed, match="none of 2 rollouts can be trained on"):
        rollouts(prompts(rollouts, 0, 0), trainer())


@pytest.mark.parametrize("prompt", ["1 + 1 =", [{"role": "user", "content": "1 + 1 ="}], []])
def test_a_prompt_that_names_no_row_is_refused(prompt: Any) -> None:
    rollouts = TrlRollouts(FakeClient([]), ROWS)

    with pytest.raises(InputDataError, match="palestra_row"):
        rollouts([prompt], trainer())


def test_what_only_trls_own_generation_knows_is_refused() -> None:
    rollouts = TrlRollouts(FakeClient([]), ROWS)

    with pytest.raises(ConfigError, match="generation_kwargs"):
        rollouts(prompts(rollouts, 0), trainer(generation_kwargs={"num_beams": 4}))


def test_given_sampling_parameters_replace_the_trainers() -> None:
    client = FakeClient([completed()])
    rollouts = TrlRollouts(client, ROWS, sampling={"temperature": 0.0})

    rollouts(prompts(rollouts, 0), trainer())

    assert client.asked[0].sampling == {"temperature": 0.0}

"""verifiers and prime-rl: `Environment.generate`, its outputs, and prime-rl's training examples.

    environment = PalestraEnvironment(client, env_id="mcqa")
    outputs = await environment.generate(inputs, sampling_args={"temperature": 1.0})
    examples = [TrainingExample(**fields) for fields in training_examples(outcomes, advantages)]

An input of verifiers names its task in `info["row"]`: the row as a mapping, or as JSON text.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, final

from palestra.errors import InputDataError
from palestra.schema import JsonDict, JsonObject
from palestra.training.adapters.asking import row_of, sampling_for
from palestra.training.adapters.clients import Client
from palestra.training.adapters.messages import chat_of
from palestra.training.adapters.sequences import all_completed, mean, the_chain, the_sample
from palestra.training.outcomes import Completed, Outcome, Turn
from palestra.training.requests import RolloutRequest


class StepTokens(TypedDict):
    """The fields of `TrajectoryStepTokens`: the ids of one call of the model."""

    prompt_ids: list[int]
    """All ids that the call read, those of the turns before it too."""
    prompt_mask: list[int]
    completion_ids: list[int]
    completion_mask: list[int]
    completion_logprobs: list[float]
    overlong_prompt: bool
    is_truncated: bool


class State(TypedDict):
    """The fields of a rollout's `State` that a rollout sets."""

    prompt: list[JsonDict]
    completion: list[JsonDict]
    example_id: int | str
    trajectory_id: str
    trajectory: list[dict[str, Any]]
    reward: float
    metrics: dict[str, float]
    is_completed: bool
    is_truncated: bool
    stop_condition: str
    timing: dict[str, float]


class GenerateOutputs(TypedDict):
    """The fields of `GenerateOutputs`: one value for each input, in their order."""

    prompt: list[list[JsonDict]]
    completion: list[list[JsonDict]]
    answer: list[str]
    state: list[State]
    task: list[str]
    info: list[JsonObject]
    example_id: list[int | str]
    reward: list[float]
    metrics: dict[str, list[float]]
    stop_conditions: list[str | None]
    is_truncated: list[bool]
    metadata: dict[str, Any]


class TrainingFields(TypedDict):
    """The fields of prime-rl's `TrainingExample`."""

    prompt_ids: list[int]
    prompt_mask: list[int]
    completion_ids: list[int]
    completion_mask: list[int]
    completion_logprobs: list[float]
    advantage: NotRequired[float]


@final
class PalestraEnvironment:
    """Generates rollouts as an environment of verifiers does. `env_id`: its name in the outputs."""

    def __init__(self, client: Client, *, env_id: str = "palestra") -> None:
        self._client = client
        self._env_id = env_id

    async def generate(
        self,
        inputs: Sequence[JsonObject],
        client: object = None,
        model: object = None,
        sampling_args: JsonObject | None = None,
        **others: object,
    ) -> GenerateOutputs:
        """Run one rollout for each input. Inputs with the same `example_id` are one group.

        `client`, `model` and `others` are ignored: the fleet's configuration names the endpoint.
        Raises IncompleteRollouts: a rollout has no reward. Raises InputDataError: an input has no
        row.
        """
        del client, model, others
        started = time.monotonic()
        sampling = sampling_args or {}
        async with self._client.submit(_requests(inputs, sampling)) as batch:
            outcomes = await batch.gather()
        outputs = generate_outputs(outcomes, inputs)
        outputs["metadata"] = {
            "env_id": self._env_id,
            "num_examples": len({item["example_id"] for item in inputs}),
            "sampling_args": dict(sampling),
            "time_ms": 1000 * (time.monotonic() - started),
            "avg_reward": mean(outputs["reward"]),
            "avg_metrics": {name: mean(values) for name, values in outputs["metrics"].items()},
        }
        return outputs


def generate_outputs(outcomes: Sequence[Outcome], inputs: Sequence[JsonObject]) -> GenerateOutputs:
    """Return outcomes in the shape of `GenerateOutputs`. `inputs`: of the same order.

    Raises IncompleteRollouts: a rollout has no reward. Raises RunFailed: a rollout has several
    sequences.
    """
    states = [_state(outcome) for outcome in all_completed(outcomes, "verifiers")]
    names = sorted({name for state in states for name in state["metrics"]})
    return GenerateOutputs(
        prompt=[state["prompt"] for state in states],
        completion=[state["completion"] for state in states],
        answer=[str(item.get("answer") or "") for item in inputs],
        state=states,
        task=[str(item.get("task") or "") for item in inputs],
        info=[item.get("info") or {} for item in inputs],
        example_id=[state["example_id"] for state in states],
        reward=[state["reward"] for state in states],
        metrics={name: [state["metrics"].get(name, 0.0) for state in states] for name in names},
        stop_conditions=[state["stop_condition"] or None for state in states],
        is_truncated=[state["is_truncated"] for state in states],
        metadata={},
    )


def training_examples(
    outcomes: Sequence[Outcome], advantages: Sequence[float] | None = None, *, pad_id: int = 0
) -> list[TrainingFields]:
    """Return outcomes as the fields of prime-rl's `TrainingExample`, one sequence for each.

    `advantages`: one for each outcome; None leaves the field out. `pad_id`: a masked placeholder
    token where a rollout has no tokens. Raises IncompleteRollouts: a rollout has no reward. Raises
    RunFailed: a rollout has several sequences.
    """
    examples = [_example(item, pad_id) for item in all_completed(outcomes, "prime-rl")]
    if advantages is not None:
        if len(advantages) != len(examples):
            raise InputDataError(f"{len(advantages)} advantages for {len(examples)} rollouts")
        for example, advantage in zip(examples, advantages, strict=True):
            example["advantage"] = advantage
    return examples


def _example(outcome: Completed, pad_id: int) -> TrainingFields:
    sample = the_sample(outcome, "prime-rl", pad_id=pad_id)
    return TrainingFields(
        prompt_ids=sample.prompt_ids,
        prompt_mask=[0] * len(sample.prompt_ids),
        completion_ids=sample.response_ids,
        completion_mask=sample.response_mask,
        completion_logprobs=sample.response_logprobs,
    )


def _requests(inputs: Sequence[JsonObject], sampling: JsonObject) -> list[RolloutRequest]:
    counts: Counter[int | str] = Counter()
    requests: list[RolloutRequest] = []
    for index, item in enumerate(inputs):
        info = item.get("info")
        row = row_of(
            info.get("row") if isinstance(info, Mapping) else None, f"inputs[{index}].info"
        )
        task_id = item.get("example_id", index)
        requests.append(
            RolloutRequest(
                row=row,
                task_id=task_id,
                rollout_index=counts[task_id],
                sampling=sampling_for(row, sampling),
            )
        )
        counts[task_id] += 1
    return requests


def _state(outcome: Completed) -> State:
    prompt, completion = chat_of(outcome)
    timings = outcome.timings
    return State(
        prompt=prompt,
        completion=completion,
        example_id=outcome.task_id,
        trajectory_id=str(outcome.key),
        trajectory=_steps(outcome),
        reward=outcome.reward,
        metrics=dict(outcome.reward_components),
        is_completed=True,
        is_truncated=outcome.truncated,
        stop_condition=outcome.stop_reason,
        timing={
            "generation_ms": 1000 * (timings.model_s or 0.0),
            "scoring_ms": 1000 * (timings.verify_s or 0.0),
            "total_ms": 1000 * timings.total_s,
        },
    )


def _steps(outcome: Completed) -> list[dict[str, Any]]:
    """Return the tokens of each turn, as a `TrajectoryStep` has them."""
    seen_ids: list[int] = []
    steps: list[dict[str, Any]] = []
    turns = the_chain(outcome, "verifiers").turns
    for turn in turns:
        seen_ids = seen_ids + turn.prompt_ids
        tokens = _tokens(turn, seen_ids, masked=outcome.masked)
        tokens["is_truncated"] = outcome.truncated and turn is turns[-1]
        steps.append({"tokens": tokens, "is_truncated": tokens["is_truncated"]})
        seen_ids = seen_ids + turn.generated_ids
    return steps


def _tokens(turn: Turn, prompt_ids: list[int], *, masked: bool) -> StepTokens:
    trained = not masked and turn.is_trained
    count = len(turn.generated_ids)
    return StepTokens(
        prompt_ids=prompt_ids,
        prompt_mask=[0] * len(prompt_ids),
        completion_ids=turn.generated_ids,
        completion_mask=[int(trained)] * count,
        completion_logprobs=turn.logprobs if trained else [0.0] * count,
        overlong_prompt=False,
        is_truncated=False,
    )

"""verl: one rollout as the fields of the `AgentLoopOutput` that an agent loop returns.

`verl_loop` has the agent loop itself, ready for verl's configuration.
"""

from collections.abc import Mapping
from typing import Any, TypedDict

from palestra.errors import InputDataError
from palestra.training.adapters.asking import row_of, sampling_for
from palestra.training.adapters.clients import Client
from palestra.training.adapters.sequences import all_completed, the_sample
from palestra.training.outcomes import Outcome
from palestra.training.requests import RolloutRequest
from palestra.transport import new_id


class LoopMetrics(TypedDict):
    """Seconds that one rollout spent on each kind of call."""

    generate_sequences: float
    tool_calls: float
    compute_score: float


class LoopOutput(TypedDict):
    """The fields of `AgentLoopOutput` that a rollout sets."""

    prompt_ids: list[int]
    response_ids: list[int]
    """All tokens after the first prompt: the model's tokens and the tools' answers."""
    response_mask: list[int]
    response_logprobs: list[float]
    reward_score: float
    num_turns: int
    """The number of turns, as verl counts: the first prompt, each answer, each round of tools."""
    metrics: LoopMetrics
    multi_modal_data: dict[str, Any] | None
    """The images of the prompt, as verl's processor takes them; None without images."""
    extra_fields: dict[str, Any]
    """`min_global_steps` and `max_global_steps`: the weight versions that sampled the rollout."""


async def run_row(
    client: Client,
    row: Any,
    sampling_params: Mapping[str, Any],
    *,
    pad_id: int,
    task_id: int | str | None = None,
    response_length: int | None = None,
    multi_modal_data: Mapping[str, Any] | None = None,
) -> LoopOutput:
    """Run one row, for an agent loop's `run`.

    `row`: the task, as a mapping or as JSON. `task_id`: the task's name in logs and errors.
    `multi_modal_data`: the images of the task, as verl's dataset has them.

    Raises the errors of `agent_loop_output` and of the client. Raises InputDataError: the task has
    images, and there is no `multi_modal_data`, so verl would train on the text without them.
    """
    task = row_of(row, "row")
    if multi_modal_data is None and _has_images(task["responses_create_params"].get("input")):
        raise InputDataError(
            "the task has images, and verl was given none to train on",
            hint="keep them in the dataset's column multi_modal_data, beside the task in row",
        )
    request = RolloutRequest(
        row=task,
        task_id=new_id() if task_id is None else task_id,
        sampling=sampling_for(task, sampling_params),
    )
    async with client.submit([request]) as batch:
        (outcome,) = await batch.gather()
    return agent_loop_output(
        outcome,
        pad_id=pad_id,
        response_length=response_length,
        multi_modal_data=multi_modal_data,
    )


def agent_loop_output(
    outcome: Outcome,
    *,
    pad_id: int,
    response_length: int | None = None,
    multi_modal_data: Mapping[str, Any] | None = None,
) -> LoopOutput:
    """Return the fields of verl's `AgentLoopOutput`.

    `pad_id`: a masked placeholder token where the rollout has no tokens. `response_length`: the
    longest response that verl is configured for. `multi_modal_data` is handed on unchanged.

    Raises IncompleteRollouts: the rollout has no reward. Raises RunFailed: the rollout has several
    sequences, and verl takes one per rollout.
    """
    (completed,) = all_completed([outcome], "verl")
    sample = the_sample(completed, "verl", pad_id=pad_id)
    turns, timings = len(completed.turns), completed.timings
    cut = slice(response_length)
    return LoopOutput(
        prompt_ids=sample.prompt_ids,
        response_ids=sample.response_ids[cut],
        response_mask=sample.response_mask[cut],
        response_logprobs=sample.response_logprobs[cut],
        reward_score=completed.reward,
        num_turns=2 * turns,
        metrics=LoopMetrics(
            generate_sequences=timings.model_s or 0.0,
            tool_calls=timings.tool_s or 0.0,
            compute_score=timings.verify_s or 0.0,
        ),
        multi_modal_data=None if multi_modal_data is None else dict(multi_modal_data),
        extra_fields={
            "min_global_steps": completed.oldest_weights,
            "max_global_steps": completed.weights_end,
            "reward_components": dict(completed.reward_components),
            "mask_reason": completed.mask_reason,
        },
    )


def _has_images(conversation: Any) -> bool:
    """Whether an item of a request's input has an image part."""
    items = conversation if isinstance(conversation, list) else []
    contents = [item.get("content") for item in items if isinstance(item, Mapping)]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return any(isinstance(part, Mapping) and part.get("type") == "input_image" for part in parts)

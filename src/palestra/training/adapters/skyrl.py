"""SkyRL: a generator for its trainer, and outcomes as its `GeneratorOutput`.

    generator = PalestraGenerator(client, pad_id=tokenizer.pad_token_id)
    trainer = RayPPOTrainer(..., generator=generator)

Each row of the dataset has the task as JSON text in its column `row`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, Protocol, TypedDict, final

from palestra.errors import InputDataError
from palestra.training.adapters.asking import row_of, sampling_for
from palestra.training.adapters.clients import Client
from palestra.training.adapters.sequences import all_completed, mean, the_sample
from palestra.training.outcomes import Completed, Outcome
from palestra.training.requests import RolloutRequest

ROW = "row"
"""The dataset column with the task; also the key in `env_extras`."""
_STOPPED: Mapping[str, str] = {"max_output_tokens": "length", "context_full": "length"}
"""SkyRL's names of the stop reasons that have another name in Palestra."""


class TrajectoryID(Protocol):
    """SkyRL's id of a trajectory."""

    instance_id: str
    repetition_id: int


class GeneratorInput(TypedDict):
    """SkyRL's request for trajectories; all lists have equal length."""

    prompts: list[Any]
    env_extras: list[dict[str, Any]]
    sampling_params: NotRequired[dict[str, Any] | None]
    trajectory_ids: NotRequired[list[Any] | None]


class GeneratorOutput(TypedDict):
    """SkyRL's training data: one entry per trajectory in each list, in the order of the input."""

    prompt_token_ids: list[list[int]]
    response_ids: list[list[int]]
    rewards: list[float]
    loss_masks: list[list[int]]
    stop_reasons: list[str]
    rollout_metrics: dict[str, float]
    rollout_logprobs: list[list[float]]
    trajectory_ids: list[Any] | None
    trajectory_generation_times: list[float]
    """The time of each trajectory, in seconds."""
    is_last_step: None
    """Always None: only step-by-step training uses it."""


@final
class PalestraGenerator:
    """SkyRL's `GeneratorInterface`, implemented with a client. It does not import SkyRL."""

    def __init__(self, client: Client, *, pad_id: int) -> None:
        self._client = client
        self._pad_id = pad_id

    async def generate(self, input_batch: GeneratorInput) -> GeneratorOutput:
        """Return a trajectory for each prompt. Raises the errors of `requests_of` and
        `generator_output`.
        """
        async with self._client.submit(requests_of(input_batch)) as batch:
            outcomes = await batch.gather()
        ids = input_batch.get("trajectory_ids")
        return generator_output(outcomes, pad_id=self._pad_id, trajectory_ids=ids)


def requests_of(batch: GeneratorInput) -> list[RolloutRequest]:
    """Convert SkyRL's input to requests. Raises InputDataError: a prompt has no task."""
    extras = batch["env_extras"] or []
    ids = batch.get("trajectory_ids")
    if len(extras) != len(batch["prompts"]) or (ids is not None and len(ids) != len(extras)):
        raise InputDataError(
            f"{len(batch['prompts'])} prompts with {len(extras)} env_extras and "
            f"{'no' if ids is None else len(ids)} trajectory_ids"
        )
    requests = []
    for index, extra in enumerate(extras):
        row = row_of(extra.get(ROW), f"env_extras[{index}].{ROW}")
        request = RolloutRequest(
            row=row,
            task_id=index if ids is None else str(ids[index].instance_id),
            rollout_index=0 if ids is None else int(ids[index].repetition_id),
            sampling=sampling_for(row, batch.get("sampling_params") or {}),
        )
        requests.append(request)
    return requests


def generator_output(
    outcomes: Sequence[Outcome], *, pad_id: int, trajectory_ids: list[Any] | None = None
) -> GeneratorOutput:
    """Return the outcomes as SkyRL's `GeneratorOutput`, in their order.

    `pad_id`: a masked placeholder token where a rollout has no tokens.

    Raises IncompleteRollouts: a rollout has no reward. Raises RunFailed: a rollout has several
    sequences.
    """
    completed = all_completed(outcomes, "SkyRL")
    samples = [the_sample(outcome, "SkyRL", pad_id=pad_id) for outcome in completed]
    return GeneratorOutput(
        prompt_token_ids=[sample.prompt_ids for sample in samples],
        response_ids=[sample.response_ids for sample in samples],
        rewards=[outcome.reward for outcome in completed],
        loss_masks=[sample.response_mask for sample in samples],
        stop_reasons=[_STOPPED.get(sample.stop_reason, sample.stop_reason) for sample in completed],
        rollout_metrics=_metrics(completed),
        rollout_logprobs=[sample.response_logprobs for sample in samples],
        trajectory_ids=trajectory_ids,
        trajectory_generation_times=[outcome.timings.total_s for outcome in completed],
        is_last_step=None,
    )


def _metrics(completed: Sequence[Completed]) -> dict[str, float]:
    return {
        "generate/avg_turns": mean(len(outcome.turns) for outcome in completed),
        "generate/avg_num_tokens": mean(outcome.usage.output_tokens for outcome in completed),
        "generate/masked": mean(outcome.masked for outcome in completed),
        "generate/truncated": mean(outcome.truncated for outcome in completed),
    }

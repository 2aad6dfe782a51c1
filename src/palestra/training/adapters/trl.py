"""TRL: the `rollout_func` and the reward function of a `GRPOTrainer`.

    rollouts = TrlRollouts(client, rows, push_weights=push)
    trainer = GRPOTrainer(
        model, environment_reward, args, Dataset.from_list(rollouts.dataset()),
        processing_class=tokenizer, rollout_func=rollouts,
    )

TRL gives a `rollout_func` the prompts of its batch, each repeated once per wanted rollout, and
expects as many sequences in the same order. The key `palestra_row` on a prompt's last message
connects the prompt with its task: `dataset()` adds the key, and TRL passes it on.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Protocol, final

from palestra.errors import ConfigError, InputDataError, RunFailed
from palestra.schema import JsonDict, JsonObject
from palestra.training.adapters.asking import row_of, sampling_for
from palestra.training.adapters.clients import SyncClient
from palestra.training.adapters.sequences import Sample, nothing_said, the_sample
from palestra.training.outcomes import Completed, Failed, Outcome
from palestra.training.requests import RolloutRequest

ROW: Final = "palestra_row"
REWARD: Final = "environment_reward"

LEAVES_OUT: Final = (1, 16)
"""The first TRL version known to leave completions without a reward out of their group's
statistics. Earlier versions count a missing reward as 0."""

_SAMPLING: Final = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


class TrainerState(Protocol):
    """The fields of `trainer.state` that this adapter reads."""

    global_step: int


class Trainer(Protocol):
    """The fields of a `GRPOTrainer` that this adapter reads."""

    state: TrainerState
    args: Any
    processing_class: Any


@final
class TrlRollouts:
    """A `rollout_func`: every completion of a batch is a rollout in the environment.

    `push_weights`: called with the trainer and its weight version when the weights have changed
    since the last rollouts; it updates the model server. None: TRL's own vLLM has the weights.

    `sampling`: request parameters; None uses the trainer's (`temperature`, …), with
    `max_completion_length` as the token limit of each turn.
    """

    def __init__(
        self,
        client: SyncClient,
        rows: Sequence[JsonObject],
        *,
        push_weights: Callable[[Any, int], None] | None = None,
        sampling: JsonObject | None = None,
    ) -> None:
        self._client = client
        self._rows = [row_of(row, f"row {index}") for index, row in enumerate(rows)]
        self._push = push_weights
        self._sampling = sampling
        self._pushed: int | None = None

    def dataset(self) -> list[JsonDict]:
        """Return the training set for `datasets.Dataset.from_list`: one prompt per row."""
        return [{"prompt": _prompt(row, index)} for index, row in enumerate(self._rows)]

    def __call__(self, prompts: list[Any], trainer: Trainer) -> dict[str, list[Any]]:
        """Run one rollout per prompt, and return the batch in TRL's format.

        Raises the client's errors. Raises RunFailed: no rollout can be trained on, or the trainer
        would give a failed rollout a reward.
        """
        self._renew_weights(trainer)
        with self._client.submit(self._requests(prompts, trainer)) as batch:
            outcomes = batch.gather()
        _check_trainable(outcomes)
        if any(isinstance(outcome, Failed) for outcome in outcomes):
            _check_left_out(trainer, outcomes)
        pad_id = trainer.processing_class.eos_token_id
        return _columns(outcomes, [_sample(outcome, pad_id) for outcome in outcomes])

    def _renew_weights(self, trainer: Trainer) -> None:
        version = trainer.state.global_step
        if version == self._pushed:
            return
        if self._push is not None:
            self._push(trainer, version)
        self._client.set_weight_version(version)
        self._pushed = version

    def _requests(self, prompts: list[Any], trainer: Trainer) -> list[RolloutRequest]:
        trainer_sampling = self._sampling_of(trainer)
        rollouts_of_task: Counter[int] = Counter()
        requests = []
        for prompt in prompts:
            index = self._index(prompt)
            row = self._rows[index]
            request = RolloutRequest(
                row=row,
                task_id=index,
                rollout_index=rollouts_of_task[index],
                sampling=sampling_for(row, trainer_sampling),
            )
            rollouts_of_task[index] += 1
            requests.append(request)
        return requests

    def _index(self, prompt: Any) -> int:
        last = prompt[-1] if isinstance(prompt, list) and prompt else None
        index = last.get(ROW) if isinstance(last, Mapping) else None
        if not isinstance(index, int) or not 0 <= index < len(self._rows):
            raise InputDataError(
                f"a prompt of the training set has no {ROW} that names a row",
                hint="make the training set with TrlRollouts.dataset()",
            )
        return index

    def _sampling_of(self, trainer: Trainer) -> JsonObject:
        if self._sampling is not None:
            return self._sampling
        args = trainer.args
        if getattr(args, "generation_kwargs", None):
            raise ConfigError(
                "generation_kwargs are for TRL's own generation, and rollouts are made elsewhere",
                hint="give TrlRollouts sampling={…} instead",
            )
        sampling = {name: getattr(args, name, None) for name in _SAMPLING}
        return {**sampling, "max_completion_length": args.max_completion_length}


def environment_reward(*, environment_reward: list[float | None], **_: Any) -> list[float | None]:
    """Return the rewards of `TrlRollouts` to TRL, None for rollouts that failed. A TRL reward
    function.

    TRL leaves completions without a reward out of the statistics of their group, and gives them no
    advantage.
    """
    return environment_reward


def _prompt(row: JsonObject, index: int) -> list[JsonDict]:
    """Return the row's messages for TRL: roles and plain text only."""
    conversation = row["responses_create_params"].get("input") or ""
    items = (
        [{"role": "user", "content": conversation}]
        if isinstance(conversation, str)
        else conversation
    )
    messages = [
        {"role": str(item["role"]), "content": _text(item.get("content"))}
        for item in items
        if "role" in item
    ]
    messages = messages or [{"role": "user", "content": ""}]
    return [*messages[:-1], {**messages[-1], ROW: index}]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts)


def _check_trainable(outcomes: Sequence[Outcome]) -> None:
    """Raise RunFailed when no rollout has a reward and tokens to train on, as the step would train
    nothing.
    """
    if any(isinstance(outcome, Completed) and not outcome.masked for outcome in outcomes):
        return
    failed = [outcome for outcome in outcomes if isinstance(outcome, Failed)]
    why = failed[0].message if failed else ""
    masked = [outcome.mask_reason for outcome in outcomes if isinstance(outcome, Completed)]
    raise RunFailed(
        f"none of {len(outcomes)} rollouts can be trained on: {len(failed)} failed, "
        f"{len(masked)} are masked ({why or masked[0]})",
    )


def _check_left_out(trainer: Trainer, outcomes: Sequence[Outcome]) -> None:
    """Raise RunFailed when TRL would count a missing reward as 0 in its group's statistics."""
    failed = next(outcome for outcome in outcomes if isinstance(outcome, Failed))
    reason = f"rollout {failed.key} failed ({failed.message})"
    if len(getattr(trainer, "reward_funcs", ())) > 1:
        raise RunFailed(
            f"{reason}, but other reward functions would still give its completion a reward",
            hint="train on environment_reward alone, or with on_incomplete=raise",
        )
    installed = _installed()
    if installed is not None and installed < LEAVES_OUT:
        raise RunFailed(
            f"{reason}, and TRL {'.'.join(map(str, installed))} treats a missing reward as 0",
            hint=f"use TRL {'.'.join(map(str, LEAVES_OUT))} or newer, or on_incomplete=raise",
        )


def _installed() -> tuple[int, ...] | None:
    """Return TRL's version as numbers; None when TRL is not installed."""
    try:
        installed = version("trl")
    except PackageNotFoundError:
        return None
    numbers = itertools.takewhile(str.isdecimal, installed.split("."))
    return tuple(int(number) for number in numbers)


def _sample(outcome: Outcome, pad_id: int) -> Sample:
    if isinstance(outcome, Failed):
        return nothing_said([], pad_id)
    return the_sample(outcome, "TRL", pad_id=pad_id)


def _columns(outcomes: Sequence[Outcome], samples: Sequence[Sample]) -> dict[str, list[Any]]:
    """Return the batch under TRL's field names. `env_mask` is 1 for tokens that the model sampled."""
    return {
        "prompt_ids": [sample.prompt_ids for sample in samples],
        "completion_ids": [sample.response_ids for sample in samples],
        "logprobs": [sample.response_logprobs for sample in samples],
        "env_mask": [sample.response_mask for sample in samples],
        REWARD: [
            outcome.reward if isinstance(outcome, Completed) else None for outcome in outcomes
        ],
    }

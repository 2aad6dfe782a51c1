"""NeMo RL: converts outcomes to the rows of its GRPO loop.

A row is a `DatumSpec` with the fields that a rollout adds: a message log with the token ids of each
message, the reward, whether it was truncated, and whether it may be trained on.

    rows = grpo_rows(outcomes, pad_id=tokenizer.pad_token_id, tensor=torch.tensor)
    batch = BatchedDataDict(columns(rows))
"""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from palestra.training.adapters.sequences import all_completed, the_chain, the_sample
from palestra.training.outcomes import Completed, Outcome, Turn

USER, ASSISTANT, ENVIRONMENT = "user", "assistant", "environment"
"""Roles. The loop trains on the ids of an assistant, and on no others."""


class GrpoRow(TypedDict):
    """One rollout as a row. Lists of ids and log probs are tensors if `tensor` was given."""

    message_log: list[dict[str, Any]]
    """One entry per message: `role`, `content`, `token_ids`, and `generation_logprobs`, one for
    each id."""
    length: int
    """The number of tokens of all messages."""
    extra_env_info: dict[str, Any]
    loss_multiplier: float
    """0.0 for a masked rollout, which has no part in the loss. Its reward still counts for the
    baseline of its group."""
    idx: int
    task_name: str
    total_reward: float
    truncated: bool
    mask_sample: bool
    mask_reason: str


def grpo_rows(
    outcomes: Sequence[Outcome],
    *,
    pad_id: int,
    task_name: str = "palestra",
    tensor: Callable[[list[Any]], Any] | None = None,
    decode: Callable[[list[int]], str] | None = None,
) -> list[GrpoRow]:
    """Return one row for each outcome, in their order.

    `pad_id`: a masked placeholder token where a rollout has no tokens. `tensor`: makes a tensor
    from a list, such as `torch.tensor`; None keeps lists. `decode`: returns the text of token ids,
    for NeMo RL's logs; None leaves the text empty.

    Raises IncompleteRollouts: a rollout has no reward (a row with `loss_multiplier` 0 would still
    enter the baseline of its group). Raises RunFailed: a rollout has several sequences.
    """
    tensor = tensor or _as_it_is
    decode = decode or _no_text
    return [
        _row(outcome, _log(outcome, pad_id), index, task_name, tensor, decode)
        for index, outcome in enumerate(all_completed(outcomes, "NeMo RL"))
    ]


def columns(rows: Sequence[GrpoRow]) -> dict[str, list[Any]]:
    """Return one list for each field of the rows, as `BatchedDataDict` takes them."""
    names = list(GrpoRow.__annotations__)
    return {name: [row[name] for row in rows] for name in names}  # type: ignore[literal-required]  # the names are its own


_Message = tuple[str, list[int], list[float]]


def _log(outcome: Completed, pad_id: int) -> list[_Message]:
    """Return the role, ids and log probs of every message."""
    sample = the_sample(outcome, "NeMo RL", pad_id=pad_id)
    turns = the_chain(outcome, "NeMo RL").turns
    if not any(turn.generated_ids for turn in turns):
        turns = [Turn(sample.prompt_ids, sample.response_ids, sample.response_logprobs)]
    return [message for turn in turns for message in _messages(turn, first=turn is turns[0])]


def _row(
    outcome: Completed,
    log: list[_Message],
    index: int,
    task_name: str,
    tensor: Callable[[list[Any]], Any],
    decode: Callable[[list[int]], str],
) -> GrpoRow:
    masked = outcome.masked or not any(turn.generated_ids for turn in outcome.turns)
    return GrpoRow(
        message_log=[
            {
                "role": role,
                "content": decode(ids),
                "token_ids": tensor(ids),
                "generation_logprobs": tensor(logprobs),
            }
            for role, ids, logprobs in log
        ],
        length=sum(len(ids) for _, ids, _ in log),
        extra_env_info={
            "task_id": outcome.task_id,
            "rollout_index": outcome.rollout_index,
            "group_id": outcome.group_id,
            "weights_start": outcome.weights_start,
            "weights_end": outcome.weights_end,
            "stop_reason": outcome.stop_reason,
            "reward_components": dict(outcome.reward_components),
        },
        loss_multiplier=0.0 if masked else 1.0,
        idx=index,
        task_name=task_name,
        total_reward=outcome.reward,
        truncated=outcome.truncated,
        mask_sample=masked,
        mask_reason=outcome.mask_reason or ("the model said nothing" if masked else ""),
    )


def _messages(turn: Turn, *, first: bool) -> list[_Message]:
    """Return a turn's new prompt, if any, and the ids that the model sampled."""
    prompt_message = (USER if first else ENVIRONMENT, turn.prompt_ids, [0.0] * len(turn.prompt_ids))
    if turn.is_trained:
        answer_message = (ASSISTANT, turn.generated_ids, turn.logprobs)
    else:  # log probs that are none: not to be trained on, so not an assistant's
        answer_message = (ENVIRONMENT, turn.generated_ids, [0.0] * len(turn.generated_ids))
    return [message for message in (prompt_message, answer_message) if message[1]]


def _as_it_is(values: list[Any]) -> list[Any]:
    return values


def _no_text(_: list[int]) -> str:
    return ""

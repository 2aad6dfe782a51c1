"""NeMo RL: rollouts as the results of its NeMo Gym environment, and as the final batch of its loop.

    results = rollout_results(outcomes, pad_id=tokenizer.pad_token_id, tensor=torch.tensor)
    batch = BatchedDataDict(final_batch(results, input_batch, tensor=torch.tensor))

`nemo_rl_environment` has the actor whose `run_rollouts` returns these results.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict

from msgspec.structs import replace

from palestra.errors import InputDataError
from palestra.schema import AGENT_REF, TOKEN_FIELDS, JsonDict, is_truncated
from palestra.training.adapters.nemo_rl_turns import EXPERTS, TurnFlags, turn_flags
from palestra.training.adapters.sequences import all_completed, the_chain, the_sample
from palestra.training.outcomes import Completed, Outcome, Turn

USER, ASSISTANT, ENVIRONMENT = "user", "assistant", "environment"
"""Roles. The loop trains on the ids of an assistant, and on no others."""
MASK_SAMPLE, MASK_REASON = "mask_sample", "mask_reason"
COMPONENT_PREFIX: Final = "reward/"
"""The beginning of the names of the columns that GDPO reads."""

TensorMaker = Callable[[Any], Any]
"""Makes a tensor from a list, such as `torch.tensor`."""
Decoder = Callable[[list[int]], str]
"""Returns the text of token ids."""


class RolloutResult(TypedDict):
    """One rollout, as NeMo RL's NeMo Gym environment returns it."""

    message_log: list[JsonDict]
    """One entry per message: `role`, `content`, `token_ids`. An assistant's has
    `generation_logprobs`, one for each id, and what is known of its turn: `is_invalid_tool_call`,
    `has_malformed_thinking`, `routed_experts`."""
    input_message_log: list[JsonDict]
    """The prompt: the first message alone."""
    full_result: JsonDict
    """The agent's row without its token ids, with `mask_sample` and `mask_reason`."""
    agent_ref: JsonDict
    """The name of the agent, as in its row."""


def rollout_results(
    outcomes: Sequence[Outcome],
    *,
    pad_id: int,
    tensor: TensorMaker | None = None,
    decode: Decoder | None = None,
) -> list[RolloutResult]:
    """Return one result for each outcome, in their order.

    `pad_id`: a masked placeholder token where a rollout has no tokens. `tensor`: makes the tensors
    of ids and log probs; None keeps lists. `decode`: returns the messages' texts, for NeMo RL's
    logs; None leaves them empty.

    Raises IncompleteRollouts, before anything else: a rollout has no reward. Raises RunFailed: a
    rollout has several sequences.
    """
    return [
        rollout_result(outcome, pad_id=pad_id, tensor=tensor, decode=decode)
        for outcome in all_completed(outcomes, "NeMo RL")
    ]


def rollout_result(
    outcome: Completed,
    *,
    pad_id: int,
    tensor: TensorMaker | None = None,
    decode: Decoder | None = None,
) -> RolloutResult:
    """Return the result of one rollout. Raises RunFailed: it has several sequences."""
    full_result = outcome.raw.plain()
    turns = _turns(outcome, pad_id)
    reason = _mask_reason(outcome, full_result)
    flags = turn_flags(full_result.get("response"), turns)
    messages = _Messages(tensor or _as_it_is, decode or _no_text, is_masked=bool(reason))
    message_log = [
        message
        for turn, flag in zip(turns, flags, strict=True)
        for message in messages.of_turn(turn, flag)
    ]
    return RolloutResult(
        message_log=message_log,
        input_message_log=message_log[:1],
        full_result={
            **_without_tokens(full_result),
            "reward": outcome.reward,
            MASK_SAMPLE: bool(reason),
            MASK_REASON: reason,
        },
        agent_ref=full_result.get(AGENT_REF) or {},
    )


def final_batch(
    results: Sequence[RolloutResult],
    input_batch: Mapping[str, Any] | None = None,
    *,
    tensor: TensorMaker | None = None,
) -> dict[str, Any]:
    """Return the columns of NeMo RL's final batch, for its `BatchedDataDict`.

    `input_batch`: the batch that was asked for, whose `loss_multiplier` is kept; None stands for
    1.0. A masked rollout has 0.0. `tensor`: makes a tensor of every column of numbers; None keeps
    lists. The columns `reward/<name>` are there when all rollouts report the same components.

    Raises InputDataError: there are more or fewer results than rows in `input_batch`.
    """
    make = tensor or _as_it_is
    full = [result["full_result"] for result in results]
    masked = [bool(row[MASK_SAMPLE]) for row in full]
    multipliers = _loss_multipliers(input_batch, len(results))
    prompts = [result["input_message_log"] for result in results]
    return {
        AGENT_REF: [result["agent_ref"] for result in results],
        "message_log": [result["message_log"] for result in results],
        "input_message_log": prompts,
        "full_result": full,
        "length": make([len(prompt[0]["token_ids"]) for prompt in prompts]),
        "loss_multiplier": make(
            [0.0 if out else value for value, out in zip(multipliers, masked, strict=True)]
        ),
        "total_reward": make([float(row["reward"]) for row in full]),
        "truncated": make([is_truncated(row.get("response") or {}) for row in full]),
        MASK_SAMPLE: make(masked),
        **{name: make(values) for name, values in _component_columns(full).items()},
    }


def input_ids(
    results: Sequence[RolloutResult], *, pad_id: int, tensor: TensorMaker | None = None
) -> Any:
    """Return the prompts' ids as one matrix, padded on the right: the loop's baseline groups
    rollouts by them.
    """
    rows = [[int(id_) for id_ in result["input_message_log"][0]["token_ids"]] for result in results]
    width = max(map(len, rows), default=0)
    return (tensor or _as_it_is)([row + [pad_id] * (width - len(row)) for row in rows])


class _Messages:
    """Makes the messages of one rollout's turns."""

    def __init__(self, tensor: TensorMaker, decode: Decoder, *, is_masked: bool) -> None:
        self._tensor, self._decode, self._is_masked = tensor, decode, is_masked

    def of_turn(self, turn: Turn, flags: TurnFlags) -> list[JsonDict]:
        """Return a turn's new prompt, if any, and the ids that the model sampled."""
        prompt_ids, generated_ids = turn.prompt_ids, turn.generated_ids
        messages = []
        if prompt_ids:
            messages.append(self._message(USER, prompt_ids, flags.prompt_experts))
        if generated_ids:
            # Not an assistant's where it must not be trained on: some loops know no other mask.
            is_trained = turn.is_trained and not self._is_masked
            role = ASSISTANT if is_trained else ENVIRONMENT
            message = self._message(role, generated_ids, flags.generation_experts)
            if is_trained:
                message["generation_logprobs"] = self._tensor(turn.logprobs)
                message |= flags.problems
            messages.append(message)
        return messages

    def _message(self, role: str, ids: list[int], experts: list[Any] | None) -> JsonDict:
        message = {"role": role, "content": self._decode(ids), "token_ids": self._tensor(ids)}
        return message if experts is None else {**message, EXPERTS: self._tensor(experts)}


def _turns(outcome: Completed, pad_id: int) -> list[Turn]:
    """Return the turns of the rollout's sequence; none of the lists that the loop reads is empty."""
    sample = the_sample(outcome, "NeMo RL", pad_id=pad_id)
    first, *others = the_chain(outcome, "NeMo RL").turns or [Turn([], [], [])]
    if not any(turn.generated_ids for turn in (first, *others)):
        return [Turn(sample.prompt_ids, sample.response_ids, sample.response_logprobs)]
    if first.prompt_ids:
        return [first, *others]
    return [replace(first, prompt_ids=[pad_id]), *others]


def _mask_reason(outcome: Completed, full_result: JsonDict) -> str:
    """Return why the rollout must not be trained on; "" when it may be."""
    if outcome.masked:
        return outcome.mask_reason or "masked"
    if not any(turn.generated_ids for turn in outcome.turns):
        return "the model generated no token"
    if full_result.get(MASK_SAMPLE):
        return str(full_result.get(MASK_REASON) or "the environment asks for it")
    return ""


def _without_tokens(full_result: JsonDict) -> JsonDict:
    """Return the row without token lists: the message log has them, and logs write the row."""
    response = full_result.get("response")
    if not isinstance(response, dict):
        return full_result
    hidden = {*TOKEN_FIELDS, EXPERTS}
    output = [
        {name: value for name, value in item.items() if name not in hidden}
        for item in response.get("output") or ()
    ]
    return {**full_result, "response": {**response, "output": output}}


def _loss_multipliers(input_batch: Mapping[str, Any] | None, count: int) -> list[float]:
    if input_batch is None:
        return [1.0] * count
    multipliers = [float(value) for value in input_batch["loss_multiplier"]]
    if len(multipliers) != count:
        raise InputDataError(
            f"{count} rollout results for a batch of {len(multipliers)} rows",
            hint="hand over the results of all rows of the batch, in their order",
        )
    return multipliers


def _component_columns(full: Sequence[JsonDict]) -> dict[str, list[float]]:
    """Return a column for each component of the reward.

    None when the rollouts report different ones: a component that is missing has no value, and
    GDPO refuses a batch without columns.
    """
    components = [row.get("reward_components") or {} for row in full]
    names = {tuple(sorted(parts)) for parts in components}
    if len(names) != 1:
        return {}
    return {
        f"{COMPONENT_PREFIX}{name}": [float(parts[name]) for parts in components]
        for name in next(iter(names))
    }


def _as_it_is(values: Any) -> Any:
    return values


def _no_text(_: list[int]) -> str:
    return ""

"""Converts an agent's answer to a `Completed`: reward, tokens, times."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from palestra.errors import CallError, CallEvidence, Layer, Outcome, VerifierError
from palestra.rollouts import checked
from palestra.schema import (
    AGENT_REF,
    REWARD_ADVICE,
    REWARD_COMPONENTS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    Response,
    VerifyResponse,
    finite_reward,
    is_truncated,
    no_reward,
)
from palestra.server import TurnsTaken
from palestra.training.chains import Chained, chained
from palestra.training.jobs import MODEL, TOOL, VERIFY, TrainingJob
from palestra.training.outcomes import Completed, Timings, TokenUsage
from palestra.training.raw import RawRow
from palestra.training.settings import ClientSettings, OnViolation
from palestra.training.tokens import read_turns

_IDENTITY = (TASK_INDEX, ROLLOUT_INDEX, AGENT_REF)

BYTES_OF_AN_ID = 36
"""The memory of one token id in a list: the list's entry and a small integer object."""
BYTES_OF_A_LOGPROB = 32


class WrongRow(CallError):
    """Error: the answer belongs to another rollout."""

    layer = Layer.DATA
    outcome = Outcome.DATA_ERROR
    retriable = False


class AttemptAnswer(NamedTuple):
    """The answer and the captured turns of one attempt."""

    job: TrainingJob
    result: VerifyResponse
    captured: TurnsTaken | None
    ended: float
    weights: int | None
    """The weight version when the attempt ended."""


def completed(
    answer: AttemptAnswer, settings: ClientSettings, *, nan_policy: OnViolation
) -> Completed:
    """Return the outcome of an attempt.

    `nan_policy`: the policy for invalid log probs; the settings have the other policies. Raises
    CallError: the answer is invalid. Raises InvalidLogprobs or TokenDiscontinuity when their policy
    is `raise`.
    """
    job, request = answer.job, answer.job.request
    fields, reward = checked(answer.result)
    _refuse_others(fields, job)
    response: Response = answer.result.response
    tokens = _tokens(answer, response, settings, nan_policy)
    details = response.incomplete_details
    usage = response.usage
    return Completed(
        task_id=request.task_id,
        rollout_index=request.rollout_index,
        group_id=request.group,
        attempt=job.attempt,
        agent=job.agent,
        reward=reward,
        reward_components=_components(fields.get(REWARD_COMPONENTS)),
        chains=tokens.chains,
        stop_reason=(details.true_reason if details else "") or "stop",
        truncated=is_truncated(response),
        masked=bool(tokens.masked),
        mask_reason=tokens.masked,
        usage=TokenUsage()
        if usage is None
        else TokenUsage(usage.input_tokens or 0, usage.output_tokens or 0),
        timings=_timings(answer),
        weights_start=job.weights,
        weights_end=answer.weights,
        raw=RawRow({**fields, "reward": reward, **{name: job.row[name] for name in _IDENTITY}}),
    )


def _components(raw_components: Any) -> dict[str, float]:
    """Return the parts of a reward. Raises VerifierError: a part is not a finite number, which
    would make the loss useless.
    """
    if raw_components is None:
        return {}
    components: dict[str, float] = {}
    for name, value in (
        raw_components.items()
        if isinstance(raw_components, Mapping)
        else [(REWARD_COMPONENTS, raw_components)]
    ):
        part = finite_reward(value)
        if part is None or raw_components is value:
            raise VerifierError(
                f"the verify response has reward component {name!r} = {no_reward(value)}",
                hint=REWARD_ADVICE,
            )
        components[str(name)] = part
    return components


def _refuse_others(fields: dict[str, Any], job: TrainingJob) -> None:
    for name in (TASK_INDEX, ROLLOUT_INDEX):
        expected = job.row[name]
        if fields.get(name, expected) != expected:
            raise WrongRow(
                f"{job.agent} answered with {name} {fields[name]!r}, and was asked for "
                f"{expected!r}: this is another rollout's row",
                hint="the agent mixes up its rollouts: do not keep state on the agent itself",
                evidence=CallEvidence(),
            )


def _tokens(
    answer: AttemptAnswer, response: Response, settings: ClientSettings, nan_policy: OnViolation
) -> Chained:
    if not settings.token_ids:
        return Chained()
    token_reading = read_turns(response, answer.captured, (answer.job.weights, answer.weights))
    if token_reading.incomplete:
        return Chained(masked=token_reading.incomplete)
    return chained(
        token_reading.turns,
        answer.job.request.key,
        on_invalid_logprobs=nan_policy,
        on_discontinuity=settings.on_discontinuity,
    )


def _timings(answer: AttemptAnswer) -> Timings:
    job, spent = answer.job, answer.job.spent
    model_s = spent.get(MODEL)
    if model_s is None and answer.captured is not None and answer.captured.turns:
        model_s = sum(turn.took_s for turn in answer.captured.turns)
    return Timings(
        queue_s=job.attempt_started - job.submitted,
        total_s=answer.ended - job.attempt_started,
        model_s=model_s,
        tool_s=spent.get(TOOL),
        verify_s=spent.get(VERIFY),
    )


def size_of(outcome: Completed, row_bytes: int) -> int:
    """Return the approximate size of an outcome in bytes: its row, its texts, its tokens."""
    size = row_bytes
    for turn in outcome.turns:
        # The items have lists of their own, and each prompt whole.
        size += BYTES_OF_AN_ID * (2 * len(turn.prompt_ids) + 3 * len(turn.generated_ids))
        size += BYTES_OF_A_LOGPROB * 2 * len(turn.logprobs)
    return size

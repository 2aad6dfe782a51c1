"""Converts the error of a call to a `Failed` outcome."""

from msgspec.structs import replace

from palestra.errors import CallError, EndpointRefuses, Hop, Layer, Outcome, PalestraError
from palestra.training.outcomes import Evidence, Failed, FailureClass
from palestra.training.requests import RolloutRequest

MOST_BODY_CHARS = 2000
REFUSES_HINT = (
    "once the endpoint answers, make a new client; a longer endpoint_patience_s in ClientSettings "
    "waits longer, and None without end"
)
NOT_REPEATED = (
    "not tried again, as its environment may have done something that would be done twice; "
    "`repeatable = True` in its class says that it has not"
)


def hint_of(error: PalestraError) -> str:
    """Return the hint for an error, in terms of the client's settings instead of a command's flags."""
    return REFUSES_HINT if isinstance(error, EndpointRefuses) else error.hint


def class_of(error: CallError) -> FailureClass:
    """Return the failure class of a rollout that this error ended."""
    if error.outcome is Outcome.CANCELLED:
        # Not by the trainer: an agent that says so has lost the rollout.
        return FailureClass.INFRA_ERROR
    return error.outcome


def failed_by(request: RolloutRequest, error: CallError, *, attempts: int) -> Failed:
    """Return the outcome of a rollout whose last attempt failed with `error`."""
    return failed(
        request,
        class_of(error),
        error.message,
        layer=error.layer,
        retriable=error.retriable,
        attempts=attempts,
        evidence=_evidence(error),
    )


def failed(
    request: RolloutRequest,
    failure: FailureClass,
    message: str,
    *,
    layer: Layer = Layer.INFRA,
    retriable: bool = True,
    attempts: int = 0,
    evidence: Evidence | None = None,
) -> Failed:
    """Return the outcome of a rollout without a reward."""
    return Failed(
        task_id=request.task_id,
        rollout_index=request.rollout_index,
        group_id=request.group,
        failure=failure,
        layer=layer.value,
        retriable=retriable,
        attempts=attempts,
        message=message,
        evidence=evidence or Evidence(),
    )


def not_repeatable(outcome: Failed) -> Failed:
    """Return the outcome as one that is not tried again, with a hint that says why."""
    evidence = replace(
        outcome.evidence, hint="; ".join(filter(None, (outcome.evidence.hint, NOT_REPEATED)))
    )
    return replace(outcome, retriable=False, evidence=evidence)


def _evidence(error: CallError) -> Evidence:
    evidence = error.evidence
    bodies = [hop.body for hop in evidence.hops if hop.body]
    return Evidence(
        body=bodies[-1][:MOST_BODY_CHARS] if bodies else "",
        where=" > ".join(_hop_text(hop) for hop in evidence.hops),
        log_tail=evidence.traceback.splitlines(),
        hint=hint_of(error),
    )


def _hop_text(hop: Hop) -> str:
    return f"{hop.server} ({hop.url})" if hop.url else hop.server

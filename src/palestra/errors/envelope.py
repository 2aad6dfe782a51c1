"""The JSON body in which a failed call travels between servers. Each relaying server adds a hop.

    {"error": {"type", "layer", "reason", "message", "hint", "retriable",
               "row": {"run", "task", "rollout", "attempt", "agent"},
               "hops": [{"server", "url", "status", "body"}], "problems": [...],
               "judge_question"},
     "verify_request": {...}}

Text is never nested in text: a relaying server adds its hop to the list and leaves the message and
the innermost body unchanged. `reason` exists only for classes that share type and layer with other
classes, and `cause` only when the cause is known. `judge_question` exists when a judge failed. `verify_request` exists when a rollout failed
after the model had answered. It is the last key and occurs once, whatever the number of hops.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from palestra.errors.causes import KnownCause, Layer, Outcome
from palestra.errors.tree import (
    HINT,
    AgentError,
    Bystander,
    CallError,
    CallEvidence,
    ConfigError,
    CredentialsRejected,
    DeadlineExceeded,
    EndpointRefuses,
    EnvironmentFault,
    FieldProblem,
    Hop,
    Hopeless,
    InfraError,
    JudgeFailure,
    JudgeUnavailable,
    ModelError,
    ModelNotServed,
    ModelRejectedRow,
    NoSession,
    PalestraError,
    PromptTooLong,
    RowError,
    RowIdentity,
    VerifierError,
    WrongSetting,
)

BODY_EXCERPT_CHARS = 4000
"""Number of characters kept of a foreign body: enough for a provider's error, less than a
trajectory."""

_ENDS_THE_RUN: Final = "config_error"
"""The wire type of every `Hopeless` error: the caller stops the run instead of trying the next
rollout."""

_CAUSES: Final = frozenset(cause.value for cause in KnownCause)
"""The known causes. A newer Palestra may send others, which are ignored."""

_CLASSES: tuple[type[CallError], ...] = (
    AgentError,
    InfraError,
    Hopeless,
    CredentialsRejected,
    ModelNotServed,
    EndpointRefuses,
    WrongSetting,
    DeadlineExceeded,
    EnvironmentFault,
    NoSession,
    Bystander,
    JudgeFailure,
    JudgeUnavailable,
    ModelError,
    RowError,
    ModelRejectedRow,
    PromptTooLong,
    VerifierError,
)
"""All classes that can be sent; for each outcome and type, the most general class first."""


def excerpt(body: bytes | str) -> str:
    """Return the beginning of a body as text, with a note when it was cut."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    if len(text) <= BODY_EXCERPT_CHARS:
        return text
    return f"{text[:BODY_EXCERPT_CHARS]}… ({len(text)} characters in all)"


def without_answer(body: bytes) -> bytes:
    """Return a body in a form that may be shown: without the request of a failed verification."""
    if not body.startswith(b'{"error":'):
        return body
    # Inside a text the quotation marks would have a backslash before them.
    head, marker, _ = body.partition(b',"verify_request":')
    return head + b"}" if marker else body


def readable(value: Any) -> Any:
    """Return `value` with all texts writable as UTF-8: a lone surrogate becomes an escape sequence.

    File names and operating system messages may contain bytes that are not valid text. Reporting a
    failure must not fail because of them.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {readable(key): readable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [readable(inner) for inner in value]
    return value


def add_hop(error: CallError, hop: Hop) -> CallError:
    """Record in `error` that it passed through one more server. The outermost hop is first."""
    error.evidence = replace(error.evidence, hops=(hop, *error.evidence.hops))
    return error


def add_row(error: CallError, row: RowIdentity | None) -> CallError:
    """Add the row to the error, unless an inner server has already added one."""
    if row is not None and error.evidence.row is None:
        error.evidence = replace(error.evidence, row=row)
    return error


def add_question(error: CallError, question: str) -> CallError:
    """Add what the judge was asked, shortened, unless an inner server has already added it."""
    if question and not error.evidence.judge_question:
        error.evidence = replace(error.evidence, judge_question=excerpt(question))
    return error


def status_for(error: CallError) -> int:
    """Return the HTTP status of the error response.

    422: invalid body. 400: the model's endpoint rejects the row. 409: the session holds nothing for
    the call. 504: a deadline passed. 500: any other error.
    """
    if isinstance(error, RowError):
        return 422
    if isinstance(error, ModelRejectedRow):
        # What a caller's own fault is, clients do not try again.
        return 400
    if isinstance(error, NoSession):
        return 409
    if isinstance(error, DeadlineExceeded):
        return 504
    return 500


def to_body(error: CallError) -> dict[str, Any]:
    """Return the JSON body that carries `error` to the caller."""
    evidence = error.evidence
    row = evidence.row
    body: dict[str, Any] = {
        "type": _type_of(type(error)),
        "layer": error.layer.value,
        "message": error.message,
        "hint": error.hint,
        "retriable": error.retriable,
        "row": None
        if row is None
        else {
            "run": row.run,
            "task": row.task,
            "rollout": row.rollout,
            "attempt": row.attempt,
            "agent": row.agent,
        },
        "hops": [
            {"server": hop.server, "url": hop.url, "status": hop.status, "body": hop.body}
            for hop in evidence.hops
        ],
    }
    if error.reason:
        body["reason"] = error.reason
    if error.cause is not None:
        body["cause"] = error.cause.value
    if evidence.problems:
        body["problems"] = [
            {"pointer": problem.pointer, "expected": problem.expected}
            for problem in evidence.problems
        ]
    if evidence.traceback:
        body["traceback"] = evidence.traceback
    if evidence.judge_question:
        body["judge_question"] = evidence.judge_question
    payload: dict[str, Any] = readable({"error": body})
    if error.verify_request is not None:
        payload["verify_request"] = error.verify_request
    return payload


def from_body(body: object) -> CallError | None:
    """Rebuild the error that a Palestra server sent; None when the body is not such an error."""
    if not isinstance(body, Mapping):
        return None
    inner = body.get("error")
    if not isinstance(inner, Mapping):
        return None
    try:
        return _rebuild(inner, body.get("verify_request"))
    except (AttributeError, KeyError, TypeError, ValueError):
        # An endpoint outside the fleet may use the same words for something else.
        return None


def _rebuild(inner: Mapping[str, Any], verify_request: object) -> CallError:
    layer = Layer(inner["layer"])
    retriable = bool(inner.get("retriable", True))
    error = _class_for(inner["type"], layer, str(inner.get("reason") or ""), retriable=retriable)(
        str(inner.get("message", "")),
        hint=str(inner.get("hint") or ""),
        evidence=CallEvidence(
            hops=tuple(_hop(hop) for hop in inner["hops"]),
            row=_row(inner.get("row")),
            problems=tuple(
                FieldProblem(str(p["pointer"]), str(p["expected"]))
                for p in inner.get("problems") or ()
            ),
            traceback=str(inner.get("traceback") or ""),
            judge_question=str(inner.get("judge_question") or ""),
        ),
    )
    error.retriable = retriable
    if inner.get("cause") in _CAUSES:
        error.cause = KnownCause(inner["cause"])
    error.verify_request = verify_request
    return error


def class_of(outcome: Outcome) -> type[CallError]:
    """Return the most general error class with this outcome."""
    return next((cls for cls in _CLASSES if cls.outcome is outcome), InfraError)


def _type_of(cls: type[CallError]) -> str:
    return _ENDS_THE_RUN if issubclass(cls, Hopeless) else cls.outcome.value


def _class_for(wire_type: str, layer: Layer, reason: str, *, retriable: bool) -> type[CallError]:
    """Return the error class for a type, layer and reason. Raises ValueError: no class has the
    type.
    """
    same_type = [cls for cls in _CLASSES if _type_of(cls) == wire_type]
    if not same_type:
        raise ValueError(wire_type)
    # A reason of a newer Palestra is none that is known here.
    reason = next((cls.reason for cls in same_type if cls.reason == reason), "")
    for cls in same_type:
        if (cls.layer, cls.retriable, cls.reason) == (layer, retriable, reason):
            return cls
    # A server may know of a failure that it is final although its class as a rule is not.
    alike = (cls for cls in same_type if (cls.layer, cls.reason) == (layer, reason))
    return next(alike, same_type[0])


def _hop(raw: Mapping[str, Any]) -> Hop:
    return Hop(
        server=str(raw.get("server", "")),
        url=str(raw.get("url", "")),
        status=raw.get("status"),
        body=str(raw.get("body", "")),
    )


def _row(raw: object) -> RowIdentity | None:
    if not isinstance(raw, Mapping):
        return None
    return RowIdentity(
        task=raw.get("task"),
        rollout=raw.get("rollout"),
        attempt=int(raw.get("attempt") or 1),
        agent=str(raw.get("agent") or ""),
        run=str(raw.get("run") or ""),
    )


def mask_error(error: PalestraError, mask: Callable[[str], str]) -> None:
    """Apply `mask` in place to all texts of `error`: message, hint, and the call's evidence."""
    error.message = mask(error.message)
    error.hint = mask(error.hint)
    error.phrases = tuple(phrase.masked(mask) for phrase in error.phrases)
    error.args = tuple(mask(arg) if isinstance(arg, str) else arg for arg in error.args)
    if notes := getattr(error, "__notes__", None):
        notes[:] = map(mask, notes)
    if isinstance(error, ConfigError):
        error.problems = tuple(
            replace(problem, message=mask(problem.message), hint=mask(problem.hint))
            for problem in error.problems
        )
    if not isinstance(error, CallError):
        return
    evidence = error.evidence
    error.evidence = replace(
        evidence,
        hops=tuple(replace(hop, url=mask(hop.url), body=mask(hop.body)) for hop in evidence.hops),
        problems=tuple(
            replace(problem, pointer=mask(problem.pointer), expected=mask(problem.expected))
            for problem in evidence.problems
        ),
        traceback=mask(evidence.traceback),
        judge_question=mask(evidence.judge_question),
    )


def reword(
    error: PalestraError, *, message: Callable[[str], str], hint: Callable[[str], str]
) -> None:
    """Spell the message, when it is a phrase, and the hint of `error` in place, as these functions do.

    Every other text stays, such as a message that quotes a user, and the call's evidence.
    """
    before = error.message
    problems = error.problems if isinstance(error, ConfigError) else ()
    rewritten = [
        replace(
            problem,
            hint=error.hint_in_words(hint) if problem.hint == error.hint else hint(problem.hint),
        )
        for problem in problems
    ]
    error.message, error.hint = error.message_in_words(message), error.hint_in_words(hint)
    if isinstance(error, ConfigError):
        error.problems = tuple(
            replace(problem, message=error.message) if problem.message == before else problem
            for problem in rewritten
        )
    error.args = tuple(error.message if arg == before else arg for arg in error.args)
    notes = [n for n in getattr(error, "__notes__", ()) if not n.startswith(HINT)]
    error.__notes__ = [*notes, f"{HINT}{error.hint}"] if error.hint else notes

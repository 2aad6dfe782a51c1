"""Results that say of themselves that they are none, as agents in the field mark them.

`_ng_failure_class` names what failed, with `_ng_failure_terminal` where no other attempt would
help; `_ng_no_persist` asks for a result to be kept nowhere. Either way the rollout got no reward,
whatever the result's `reward` is: the attempt has failed, and another may follow.
"""

from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from palestra.errors import (
    CallError,
    DeadlineExceeded,
    InfraError,
    JudgeFailure,
    Outcome,
    class_of,
    excerpt,
)
from palestra.schema import FAILURE_CLASS, FAILURE_TERMINAL, NO_PERSIST, JsonObject

_MARKS: Final = (FAILURE_CLASS, FAILURE_TERMINAL, NO_PERSIST)
_BY_WORD: Final[Mapping[str, type[CallError]]] = {
    "judge": JudgeFailure,
    "timeout": DeadlineExceeded,
    "timed_out": DeadlineExceeded,
}
"""Words in classes of others' own: `judge_failed`, `sandbox_timeout`."""


class _Cancelled(InfraError):
    outcome = Outcome.CANCELLED


def raise_if_marked(fields: MutableMapping[str, Any]) -> None:
    """Raise the failure that a result says it is; marks that are not set are taken away."""
    name = fields.get(FAILURE_CLASS)
    if name:
        error = _error_of(str(name))(f"the result says that it failed: {name}{_why(fields)}")
        error.retriable = error.retriable and not fields.get(FAILURE_TERMINAL)
        raise error
    if fields.get(NO_PERSIST):
        raise InfraError(f"the result asks not to be kept ({NO_PERSIST}){_why(fields)}")
    for mark in _MARKS:
        fields.pop(mark, None)


def _error_of(name: str) -> type[CallError]:
    if name == Outcome.CANCELLED:
        return _Cancelled
    if name in set(Outcome):
        return class_of(Outcome(name))
    return next((kind for word, kind in _BY_WORD.items() if word in name.lower()), InfraError)


def _why(fields: JsonObject) -> str:
    told = (fields.get(key) for key in ("message", "error_message", "error", "_ng_failure_message"))
    text = next((each for each in told if isinstance(each, str) and each), "")
    return f": {excerpt(text)}" if text else ""

"""Calls of our own functions that a model's text can make slow, in workers that can be killed.

    try:
        found = await value_of(workers, Call("package.module:function", text), alone=…, limit_s=1.0)
    except Stopped:
        ...  # the text's fault

Whose fault it is that a call was stopped, is decided here and nowhere else:

- What takes more time or memory than it has is the *row's* fault when the row's own part, without
  the model's text, is stopped too; else it is the text's.
- A crash of native code counts as the text's when it happens twice, and not without the text.
  What happens once is a fault of the machine or of ours, and the second call says what the value
  is; what happens without the text is ours.
- What our function raises is ours.
"""

from dataclasses import dataclass
from typing import Any

from palestra.errors import RowError, VerifierError
from palestra.sandbox import Crashed, Outcome, OutOfMemory, Raised, Returned, TimedOut, Workers


class Stopped(Exception):
    """The model's text takes more time or memory than there is, or crashes what reads it."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Call:
    """A function (`package.module:name`) and what it is called with: plain values."""

    function: str
    arguments: tuple[Any, ...]


async def value_of(workers: Workers, call: Call, *, alone: Call, field: str, limit_s: float) -> Any:
    """What a call returns, in a worker process.

    `alone`: the same with what is the row's own, and something harmless for the model's text.
    `field`: the row's field that is named when that is stopped as well. `limit_s`: seconds of a
    core.

    Raises Stopped, which is the text's fault; RowError, which is the row's; and VerifierError for
    what the function raises, which is ours, also when there is no worker that works.
    """
    outcome = await outcome_of(workers, call, limit_s)
    if isinstance(outcome, Returned):
        return outcome.value
    why = _why(call, outcome)
    own = await outcome_of(workers, alone, limit_s)
    if isinstance(own, Crashed):
        raise VerifierError(f"{alone.function} ends by {own.name}, whatever a model writes")
    if not isinstance(own, Returned):
        raise RowError(
            f"{field}: the row's own is stopped, whatever a model writes: {_why(alone, own)}",
            hint="a row that asks for less",
        )
    raise Stopped(why)


async def outcome_of(workers: Workers, call: Call, limit_s: float) -> Outcome:
    """How a call ends; `Crashed` only when it crashes twice."""
    outcome = await workers.call(call.function, *call.arguments, limit_s=limit_s)
    if isinstance(outcome, Crashed):
        outcome = await workers.call(call.function, *call.arguments, limit_s=limit_s)
    return outcome


def _why(call: Call, outcome: Outcome) -> str:
    """What stopped it. Raises VerifierError where nothing did."""
    match outcome:
        case TimedOut(limit_s):
            return f"it takes more than {limit_s:g} s"
        case OutOfMemory(limit_mib):
            return f"it takes more than {limit_mib} MiB"
        case Crashed():
            return f"it ends its reader by {outcome.name}"
        case Raised(kind="RecursionError"):
            return "it is nested too deep"
        case Raised(kind, message):
            raise VerifierError(f"{call.function} raised {kind}: {message}")
        case Returned():
            return ""

"""Call our own functions on a model's text, in worker processes that can be killed.

A model's text can make such a function slow, or crash it.

    try:
        found = await value_of(workers, call, row_call=…, field="answer", limit_s=1.0)
    except Stopped:
        ...  # the text's fault

Only this module decides who is at fault when a call fails:

- Too much time, memory or recursion: the *row*, if the row's own part fails too without the
  model's text; otherwise the text.
- A crash of native code: the text, if it crashes twice, and not without the text. A single crash
  is blamed on the machine or on Palestra: the second call gives the value. A crash without the
  text is blamed on Palestra.
- Any other exception from our function: Palestra.
"""

from dataclasses import dataclass
from typing import Any

from palestra.errors import RowError, VerifierError
from palestra.sandbox import Crashed, Outcome, OutOfMemory, Raised, Returned, TimedOut, Workers


class Stopped(Exception):
    """Raised when the model's text takes too much time or memory, or crashes the function."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Call:
    """A function (`package.module:name`) and its arguments, which are plain values."""

    function: str
    arguments: tuple[Any, ...]


async def value_of(
    workers: Workers, call: Call, *, row_call: Call, field: str, limit_s: float
) -> Any:
    """Call a function in a worker process and return its result.

    `row_call`: the same call with the row's own part and a harmless text. `field`: the row's field
    that an error names. `limit_s`: seconds; waiting for a core does not count.

    Raises Stopped: the text is at fault. Raises RowError: the row is at fault. Raises
    VerifierError: the function raised an exception or crashed on `row_call`, or no worker works.
    """
    outcome = await outcome_of(workers, call, limit_s)
    if isinstance(outcome, Returned):
        return outcome.value
    why = _why(call, outcome)
    row_outcome = await outcome_of(workers, row_call, limit_s)
    if isinstance(row_outcome, Crashed):
        raise VerifierError(
            f"{row_call.function} ends by signal {row_outcome.name} for every answer"
        )
    if not isinstance(row_outcome, Returned):
        raise RowError(
            f"{field}: no answer can be verified, as the row's own value takes too much time or "
            f"memory: {_why(row_call, row_outcome)}",
            hint="simplify this field of the row",
        )
    raise Stopped(why)


async def outcome_of(workers: Workers, call: Call, limit_s: float) -> Outcome:
    """Call a function and return how the call ended: `Crashed` only when it crashes twice."""
    outcome = await workers.call(call.function, *call.arguments, limit_s=limit_s)
    if isinstance(outcome, Crashed):
        outcome = await workers.call(call.function, *call.arguments, limit_s=limit_s)
    return outcome


def _why(call: Call, outcome: Outcome) -> str:
    """Return why a call was stopped. Raises VerifierError: the function raised an exception
    instead.
    """
    match outcome:
        case TimedOut(limit_s):
            return f"it takes more than {limit_s:g} s"
        case OutOfMemory(limit_mib):
            return f"it takes more than {limit_mib} MiB"
        case Crashed():
            return f"it ends its reader by signal {outcome.name}"
        case Raised(kind="RecursionError"):
            return "it is nested too deep"
        case Raised(kind, message):
            raise VerifierError(f"{call.function} raised {kind}: {message}")
        case Returned():
            return ""

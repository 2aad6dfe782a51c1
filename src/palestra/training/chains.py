"""Whether the turns of a rollout hang together, and the chains that they make.

What is checked: ids are ids, and those that the model server sampled; each turn's prompt starts
with all ids so far; log probs are finite, not above 0, and as many as ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from palestra.schema import bad_id_at, bad_log_prob_at, first_difference
from palestra.server import CapturedTurn
from palestra.training.errors import InvalidLogprobs, TokenDiscontinuity
from palestra.training.outcomes import Chain, Turn
from palestra.training.requests import Key
from palestra.training.settings import OnViolation

CONTEXT: Final = 8
"""How many ids around a difference are told, on each side."""


@dataclass(frozen=True, slots=True)
class RawTurn:
    """One call of the model as it came: its whole prompt, and what it sampled."""

    prompt: list[int]
    generated: list[int]
    logprobs: list[float]
    weights_start: int | None = None
    weights_end: int | None = None
    captured: CapturedTurn | None = None
    """A call as the model server remembers it: the one that is most like this turn, where none is
    the same. None where one is, or where nothing can be said."""


@dataclass(slots=True)
class Chained:
    """What is there to train on. `masked` says why nothing of it is to be, empty otherwise."""

    chains: list[Chain] = field(default_factory=list)
    masked: str = ""

    def note(self, broken: InvalidLogprobs | TokenDiscontinuity, policy: OnViolation) -> None:
        """A rule was broken. Raises it when that is the policy."""
        if policy is OnViolation.RAISE:
            raise broken
        if policy is OnViolation.MASK:
            self.masked = self.masked or broken.message


def chained(
    turns: Sequence[RawTurn],
    key: Key,
    *,
    on_invalid_logprobs: OnViolation,
    on_discontinuity: OnViolation,
) -> Chained:
    """Check the turns and put them together. Raises what breaks a rule whose policy is `raise`."""
    made = Chained()
    seen: list[int] = []
    open_chain: list[Turn] = []
    for number, turn in enumerate(turns):
        broken = _discontinuity(key, number, seen, turn)
        new = turn.prompt[len(seen) :] if broken is None else turn.prompt
        made_up = _made_up(key, number, turn, new)
        if made_up is not None:
            # Nobody sampled these ids, or they are none: no cut makes a chain of them.
            made.note(made_up, on_discontinuity)
            return Chained(masked=made_up.message)
        if broken is not None:
            made.note(broken, on_discontinuity)
            open_chain = []
        invalid = _invalid_logprobs(key, number, turn)
        if invalid is not None:
            made.note(invalid, on_invalid_logprobs)
        logprobs = turn.logprobs if invalid is None else []
        if not open_chain:
            made.chains.append(Chain(open_chain))
        open_chain.append(Turn(new, turn.generated, logprobs, turn.weights_start, turn.weights_end))
        seen = turn.prompt + turn.generated
    return made


def _discontinuity(
    key: Key, number: int, seen: list[int], turn: RawTurn
) -> TokenDiscontinuity | None:
    position = first_difference(seen, turn.prompt)
    if position is None:
        return None
    found = turn.prompt[position] if position < len(turn.prompt) else "the end of the prompt"
    what = f"the ids so far have {seen[position]} there, and the prompt has {found}"
    return _broken(key, number, position, seen, turn.prompt, what)


def _made_up(key: Key, number: int, turn: RawTurn, new: list[int]) -> TokenDiscontinuity | None:
    """Ids that are none, or other ones than the model server captured of this turn.

    `new`: of its prompt, what no turn before it had.
    """
    for ids, before in ((new, len(turn.prompt) - len(new)), (turn.generated, len(turn.prompt))):
        at = bad_id_at(ids)
        if at is not None:
            what = f"{ids[at]!r} is no token id"
            return _broken(key, number, before + at, (), turn.prompt + turn.generated, what)
    call = turn.captured
    if call is None or (turn.generated == call.generated_ids and turn.prompt == call.prompt_ids):
        return None
    came, captured = turn.prompt + turn.generated, ids_of(call)
    at = first_difference(captured, came)
    what = "the model server read and sampled other ids than those that came"
    return _broken(key, number, len(captured) if at is None else at, captured, came, what)


def _broken(
    key: Key,
    number: int,
    position: int,
    seen: Sequence[int],
    found: Sequence[int],
    what: str,
) -> TokenDiscontinuity:
    around = slice(max(0, position - CONTEXT), position + CONTEXT)
    return TokenDiscontinuity(
        key,
        turn=number,
        position=position,
        expected=tuple(seen[around]),
        found=tuple(found[around]),
        message=f"rollout {key}, turn {number}: token {position} breaks the sequence: {what}",
    )


def ids_of(call: CapturedTurn) -> list[int]:
    """All ids of a call."""
    return (call.prompt_ids or []) + (call.generated_ids or [])


def _invalid_logprobs(key: Key, number: int, turn: RawTurn) -> InvalidLogprobs | None:
    values, count = turn.logprobs, len(turn.generated)
    if len(values) != count:
        told = f"{len(values)} log probs for {count} ids"
        return _invalid(key, number, None, told)
    at = bad_log_prob_at(values)
    if at is None:
        return None
    return _invalid(key, number, at, f"{values[at]!r} at {at} is no log probability")


def _invalid(key: Key, number: int, position: int | None, what: str) -> InvalidLogprobs:
    return InvalidLogprobs(
        key,
        turn=number,
        position=position,
        value=what,
        message=f"rollout {key}, turn {number}: {what}",
    )

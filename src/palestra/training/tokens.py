"""From what came back to chains of turns: where the ids are, and whether they hang together.

Ids are read from the items of the response; those that an agent dropped are filled in from what
the model server captured of the same rollout. Where both are there they must agree.

What is checked: log probs are finite, not above 0, and as many as ids; ids are ids; each turn's
prompt starts with all ids so far.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from palestra.schema import Response, never_made, tokens_on, turn_ends
from palestra.serving import CapturedTurn, TurnsTaken
from palestra.training.errors import InvalidLogprobs, TokenDiscontinuity
from palestra.training.outcomes import Chain, Turn
from palestra.training.requests import Key
from palestra.training.settings import OnViolation

ABOVE_ZERO: Final = 1e-3
"""What a log probability may be above 0: rounding, in half precision."""
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
    captured: list[int] | None = None
    """Prompt and sampled ids as the model server remembers them, when it does."""


@dataclass(frozen=True, slots=True)
class Read:
    """The turns of a rollout. `incomplete` says why their ids are not all there."""

    turns: list[RawTurn]
    incomplete: str = ""


@dataclass(slots=True)
class Chained:
    """What is there to train on. `masked` says why nothing of it is to be, empty otherwise."""

    chains: list[Chain] = field(default_factory=list)
    masked: str = ""


def read_turns(
    response: Response, captured: TurnsTaken | None, bounds: tuple[int | None, int | None]
) -> Read:
    """The turns of a response, filled in from `captured` where its items have no ids.

    `bounds`: the weight versions at the beginning and the end of the attempt, for turns of which
    no model server says better.
    """
    calls = [] if captured is None else captured.turns
    ends = turn_ends(response.output)
    if ends and never_made(response.output[ends[-1]], response):
        ends.pop()
    carried = [tokens_on(response.output[end]) for end in ends]
    if not carried:
        return Read([], "the rollout has no turn of the model")
    known = [tokens for tokens in carried if tokens is not None]
    if len(known) < len(carried):
        return _filled_in(carried.index(None), len(carried), calls)
    by_ids = [call for call in calls if call.generated_ids is not None]
    matched = by_ids if len(by_ids) == len(known) else [None] * len(known)
    return Read(
        [
            RawTurn(
                tokens.prompt,
                tokens.generation,
                tokens.log_probs,
                *(bounds if call is None else (call.weights_start, call.weights_end)),
                captured=None if call is None else _ids_of(call),
            )
            for tokens, call in zip(known, matched, strict=True)
        ]
    )


def _ids_of(call: CapturedTurn) -> list[int]:
    return (call.prompt_ids or []) + (call.generated_ids or [])


def _filled_in(without: int, count: int, calls: Sequence[CapturedTurn]) -> Read:
    turns = [
        RawTurn(
            call.prompt_ids, call.generated_ids, call.logprobs, call.weights_start, call.weights_end
        )
        for call in calls
        if call.prompt_ids is not None
        and call.generated_ids is not None
        and call.logprobs is not None
    ]
    if len(turns) == len(calls) and len(calls) >= count:
        return Read(turns)
    return Read(
        [],
        f"incomplete capture: turn {without} of {count} came without token ids, and the model "
        f"server captured {len(turns)}",
    )


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
        if broken is not None:
            if on_discontinuity is OnViolation.RAISE:
                raise broken
            if on_discontinuity is OnViolation.MASK:
                made.masked = made.masked or broken.message
            if open_chain:
                made.chains.append(Chain(open_chain))
            seen, open_chain = [], []
        logprobs = turn.logprobs
        invalid = _invalid_logprobs(key, number, turn)
        if invalid is not None:
            if on_invalid_logprobs is OnViolation.RAISE:
                raise invalid
            if on_invalid_logprobs is OnViolation.MASK:
                made.masked = made.masked or invalid.message
            logprobs = []
        new = turn.prompt[len(seen) :]
        open_chain.append(Turn(new, turn.generated, logprobs, turn.weights_start, turn.weights_end))
        seen = turn.prompt + turn.generated
    if open_chain:
        made.chains.append(Chain(open_chain))
    return made


def _discontinuity(
    key: Key, number: int, seen: list[int], turn: RawTurn
) -> TokenDiscontinuity | None:
    position = first_difference(seen, turn.prompt)
    if position is None:
        return _fabricated(key, number, turn)
    found = turn.prompt[position] if position < len(turn.prompt) else "the end of the prompt"
    what = f"the ids so far have {seen[position]} there, and the prompt has {found}"
    return _broken(key, number, position, seen, turn.prompt, what)


def _fabricated(key: Key, number: int, turn: RawTurn) -> TokenDiscontinuity | None:
    """Ids that are none, or other ones than the model server captured of this turn."""
    position, ids = _no_ids(turn)
    if position is not None:
        what = f"{ids[position]!r} is no token id"
        return _broken(key, number, position, (), ids, what)
    if turn.captured is None:
        return None
    came = turn.prompt + turn.generated
    if came == turn.captured:
        return None
    at = first_difference(turn.captured, came)
    what = "the model server read and sampled other ids than those that came"
    return _broken(key, number, len(came) if at is None else at, turn.captured, came, what)


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


def first_difference(seen: list[int], prompt: list[int]) -> int | None:
    """Where `prompt` leaves the ids so far; None when it starts with all of them."""
    if prompt[: len(seen)] == seen:
        return None
    pairs = zip(seen, prompt, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), len(prompt))


def _no_ids(turn: RawTurn) -> tuple[int | None, list[int]]:
    """Where something stands that is no token id, and in which list."""
    for ids in (turn.prompt, turn.generated):
        if ids and (set(map(type, ids)) != {int} or min(ids) < 0):
            return next(at for at, one in enumerate(ids) if type(one) is not int or one < 0), ids
    return None, []


def _invalid_logprobs(key: Key, number: int, turn: RawTurn) -> InvalidLogprobs | None:
    values, count = turn.logprobs, len(turn.generated)
    if len(values) != count:
        told = f"{len(values)} log probs for {count} ids"
        return _invalid(key, number, None, told)
    if _all_fine(values):
        return None
    at = next(at for at, value in enumerate(values) if not _all_fine([value]))
    return _invalid(key, number, at, f"{values[at]!r} at {at} is no log probability")


def _all_fine(values: Sequence[float]) -> bool:
    if not values:
        return True
    try:
        # One sum and one maximum, in C: a NaN or an infinity makes the sum one.
        return math.isfinite(sum(values)) and max(values) <= ABOVE_ZERO
    except TypeError:  # JSON has no NaN: over HTTP it has become null
        return False


def _invalid(key: Key, number: int, position: int | None, what: str) -> InvalidLogprobs:
    return InvalidLogprobs(
        key,
        turn=number,
        position=position,
        value=what,
        message=f"rollout {key}, turn {number}: {what}",
    )

"""Whether the turns of a rollout hang together, and the chains that they make.

Each turn comes with the verdict on its lists (`palestra.schema.TokenVerdict`). What is checked here
is how turns follow each other: each one's prompt starts with all ids so far.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from palestra.schema import (
    GENERATION_IDS,
    TokenFault,
    TokenVerdict,
    TurnTokens,
    first_difference,
)
from palestra.training.errors import InvalidLogprobs, TokenDiscontinuity
from palestra.training.outcomes import Chain, Turn
from palestra.training.requests import Key
from palestra.training.settings import OnViolation

CONTEXT: Final = 8
"""How many ids around a difference are told, on each side."""


@dataclass(frozen=True, slots=True)
class RawTurn:
    """One call of the model: its whole prompt, what it sampled, and the verdict on both."""

    tokens: TurnTokens
    verdict: TokenVerdict
    weights_start: int | None = None
    weights_end: int | None = None
    captured: TurnTokens | None = None
    """The captured call that is most like this turn, where none is the same: `tokens` are not
    those that were sampled. None where one is, or where nothing can be said."""


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
    chain = Chained()
    ids_so_far: list[int] = []
    open_chain: list[Turn] = []
    for number, turn in enumerate(turns):
        made_up = _made_up(key, number, turn)
        if made_up is not None:
            # Nobody sampled these ids, or they are none: no cut makes a chain of them.
            chain.note(made_up, on_discontinuity)
            return Chained(masked=made_up.message)
        tokens = turn.tokens
        broken = _discontinuity(key, number, ids_so_far, tokens.prompt)
        if broken is not None:
            chain.note(broken, on_discontinuity)
            open_chain = []
        fault = turn.verdict.log_probs
        if fault is not None:
            chain.note(_invalid(key, number, fault), on_invalid_logprobs)
        if not open_chain:
            chain.chains.append(Chain(open_chain))
        open_chain.append(
            Turn(
                tokens.prompt[len(ids_so_far) :] if broken is None else tokens.prompt,
                tokens.generation,
                tokens.log_probs if fault is None else [],
                turn.weights_start,
                turn.weights_end,
            )
        )
        ids_so_far = tokens.all
    return chain


def _discontinuity(
    key: Key, number: int, ids_so_far: list[int], prompt: list[int]
) -> TokenDiscontinuity | None:
    position = first_difference(ids_so_far, prompt)
    if position is None:
        return None
    next_id = prompt[position] if position < len(prompt) else "the end of the prompt"
    what = f"the ids so far have {ids_so_far[position]} there, and the prompt has {next_id}"
    return _broken(key, number, position, ids_so_far, prompt, what)


def _made_up(key: Key, number: int, turn: RawTurn) -> TokenDiscontinuity | None:
    """Ids that are none, or other ones than the model server captured of this turn."""
    fault, captured = turn.verdict.ids, turn.captured
    if fault is not None:
        before = len(turn.tokens.prompt) if fault.field == GENERATION_IDS else 0
        at = before + (fault.position or 0)
        return _broken(key, number, at, (), turn.tokens.all, fault.reason)
    if captured is None:
        return None
    ids, sampled = turn.tokens.all, captured.all
    position = first_difference(sampled, ids)
    what = "the model server read and sampled other ids than those that came"
    at = len(sampled) if position is None else position
    return _broken(key, number, at, sampled, ids, what)


def _broken(
    key: Key,
    number: int,
    position: int,
    ids_so_far: Sequence[int],
    prompt_ids: Sequence[int],
    what: str,
) -> TokenDiscontinuity:
    around = slice(max(0, position - CONTEXT), position + CONTEXT)
    return TokenDiscontinuity(
        key,
        turn=number,
        position=position,
        expected=tuple(ids_so_far[around]),
        found=tuple(prompt_ids[around]),
        message=f"rollout {key}, turn {number}: token {position} breaks the sequence: {what}",
    )


def _invalid(key: Key, number: int, fault: TokenFault) -> InvalidLogprobs:
    return InvalidLogprobs(
        key,
        turn=number,
        position=fault.position,
        value=fault.reason,
        message=f"rollout {key}, turn {number}: {fault.reason}",
    )

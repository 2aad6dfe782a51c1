"""Checks that the turns of a rollout fit together, and builds chains from them.

Each turn comes with the verdict on its own lists (`palestra.schema.TokenVerdict`). This module
checks that each turn's prompt starts with all ids of the turns before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

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
"""The number of ids on each side of a difference that an error shows."""
NOTHING_TO_TRAIN: Final = "no trainable token"
"""The start of the mask reason of a rollout with token ids, none of which can be trained on."""


class RawTurn(msgspec.Struct, frozen=True):
    """One call of the model: its whole prompt, its sampled ids, and the verdict on both."""

    tokens: TurnTokens
    verdict: TokenVerdict
    weights_start: int | None = None
    weights_end: int | None = None
    captured: TurnTokens | None = None
    """The captured call most similar to this turn, if no captured call is equal: the ids in
    `tokens` were then not sampled. None when a call is equal, or when this is unknown."""


@dataclass(slots=True)
class Chained:
    """The chains to train on. `masked`: the reason why none of them is trained on; else empty."""

    chains: list[Chain] = field(default_factory=list)
    masked: str = ""

    def note(self, broken: InvalidLogprobs | TokenDiscontinuity, policy: OnViolation) -> None:
        """Apply the policy to a broken rule: raise it, or mask the rollout."""
        if policy is OnViolation.RAISE:
            raise broken
        if policy is OnViolation.MASK:
            self.masked = self.masked or broken.message

    def mask_without_tokens(self, reason: str) -> None:
        """Mask the rollout, because of `reason`, if no turn has a token to train on."""
        if not self.masked and not any(
            turn.is_trained for chain in self.chains for turn in chain.turns
        ):
            self.masked = f"{NOTHING_TO_TRAIN}: {reason}"


def chained(
    turns: Sequence[RawTurn],
    key: Key,
    *,
    on_invalid_logprobs: OnViolation,
    on_discontinuity: OnViolation,
) -> Chained:
    """Check the turns and build chains from them. Raises the error of a broken rule whose policy is
    `raise`. Under every other policy, a rollout without a token to train on is masked.
    """
    chain = Chained()
    untrainable = "the model sampled no token"
    ids_so_far: list[int] = []
    open_chain: list[Turn] = []
    last = len(turns) - 1
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
            invalid = _invalid(key, number, fault)
            chain.note(invalid, on_invalid_logprobs)
            untrainable = invalid.message
        if not open_chain:
            chain.chains.append(Chain(open_chain))
        open_chain.append(
            Turn(
                tokens.prompt[len(ids_so_far) :]
                if broken is None and ids_so_far
                else tokens.prompt,
                tokens.generation,
                tokens.log_probs if fault is None else [],
                turn.weights_start,
                turn.weights_end,
            )
        )
        if number < last:
            ids_so_far = tokens.all
    chain.mask_without_tokens(untrainable)
    return chain


def _discontinuity(
    key: Key, number: int, ids_so_far: list[int], prompt: list[int]
) -> TokenDiscontinuity | None:
    position = first_difference(ids_so_far, prompt)
    if position is None:
        return None
    next_id = prompt[position] if position < len(prompt) else "the end of the prompt"
    what = f"the token ids so far have {ids_so_far[position]} there, but the prompt has {next_id}"
    return _broken(key, number, position, ids_so_far, prompt, what)


def _made_up(key: Key, number: int, turn: RawTurn) -> TokenDiscontinuity | None:
    """Return an error when ids are invalid, or differ from the ids that the model server captured."""
    fault, captured = turn.verdict.ids, turn.captured
    if fault is not None:
        before = len(turn.tokens.prompt) if fault.field == GENERATION_IDS else 0
        at = before + (fault.position or 0)
        return _broken(key, number, at, (), turn.tokens.all, fault.reason)
    if captured is None:
        return None
    ids, sampled = turn.tokens.all, captured.all
    position = first_difference(sampled, ids)
    what = "the token ids that the model server read and sampled differ from the received ones"
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
        returned_ids=tuple(prompt_ids[around]),
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

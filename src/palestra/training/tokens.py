"""Finds the token ids of a rollout's turns, in the captured calls and in the response.

The calls that the model server captured are the reliable source. The response's items show which
calls are turns of the rollout: each turn is matched with one captured call, and gets its ids, log
probs and verdict. A turn that matches no call is marked with the most similar one. Ids that an
agent dropped are filled in. The ids on the items are used only if nothing was captured.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from palestra.schema import (
    OutputItem,
    Response,
    TurnTokens,
    first_difference,
    never_made,
    put_tokens,
    tokens_on,
    turn_ends,
)
from palestra.server import TurnsTaken
from palestra.training.chains import RawTurn

INCOMPLETE_CAPTURE: Final = "incomplete capture"
"""The start of the mask reason of a rollout with missing token ids."""


class Read(NamedTuple):
    """The turns of a rollout. `incomplete`: why some token ids are missing; else empty."""

    turns: list[RawTurn]
    incomplete: str = ""


def read_turns(
    response: Response, captured: TurnsTaken | None, bounds: tuple[int | None, int | None]
) -> Read:
    """Return the turns of a response, with the captured ids where the model server captured them.

    `bounds`: the weight versions at the beginning and the end of the attempt, used for turns whose
    versions were not captured.
    """
    calls = [] if captured is None else captured.turns
    sampled = [
        RawTurn(tokens, call.verdict or tokens.verdict, call.weights_start, call.weights_end)
        for call in calls
        if (tokens := call.tokens) is not None
    ]
    ends = turn_ends(response.output)
    if ends and never_made(response.output[ends[-1]], response):
        ends.pop()
    carriers = [response.output[end] for end in ends]
    carried = [tokens_on(carrier) for carrier in carriers]
    if not carried:
        return Read([], "the rollout has no turn of the model")
    known_tokens = [tokens for tokens in carried if tokens is not None]
    if len(known_tokens) == len(carried):
        # With as many calls as turns, each turn is one of them, whatever else was forgotten.
        is_whole = len(sampled) == len(known_tokens) or (captured is not None and not captured.lost)
        turns = _matched(known_tokens, sampled, bounds, is_whole=is_whole)
        _share(carriers, known_tokens, turns)
        return Read(turns)
    if len(carried) <= len(calls) == len(sampled):
        return Read(sampled)
    return Read(
        [],
        f"{INCOMPLETE_CAPTURE}: turn {carried.index(None)} of {len(carried)} came without token "
        f"ids, and the model server captured {len(sampled)}",
    )


def _matched(
    known_tokens: Sequence[TurnTokens],
    sampled: Sequence[RawTurn],
    bounds: tuple[int | None, int | None],
    *,
    is_whole: bool,
) -> list[RawTurn]:
    """Return each turn as it was captured; unchanged when no captured call has its ids.

    Unless the capture is complete (`is_whole`), an unchanged turn may belong to a call that was not
    captured. There may be more calls than turns: an agent may repeat a request, or hide some calls.
    """
    unmatched = list(sampled)
    turns: list[RawTurn] = []
    for tokens in known_tokens:
        turn = next((turn for turn in unmatched if _same(tokens, turn.tokens)), None)
        if turn is not None:
            unmatched.remove(turn)
        elif is_whole and sampled:
            likest = max(unmatched or sampled, key=lambda turn: _alike(tokens, turn.tokens))
            turn = replace(likest, tokens=tokens, verdict=tokens.verdict, captured=likest.tokens)
        else:
            turn = RawTurn(tokens, tokens.verdict, *bounds)
        turns.append(turn)
    return turns


def _share(
    carriers: Sequence[OutputItem], known_tokens: Sequence[TurnTokens], turns: Sequence[RawTurn]
) -> None:
    """Give the items the captured lists that equal theirs, so that memory has the ids once."""
    for carrier, tokens, turn in zip(carriers, known_tokens, turns, strict=True):
        if turn.tokens is not tokens and turn.tokens.log_probs == tokens.log_probs:
            put_tokens(carrier, turn.tokens)


def _same(tokens: TurnTokens, captured: TurnTokens) -> bool:
    return tokens.generation == captured.generation and tokens.prompt == captured.prompt


def _alike(tokens: TurnTokens, captured: TurnTokens) -> int:
    """Return the number of equal ids from the start."""
    came = tokens.all
    position = first_difference(captured.all, came)
    return len(came) if position is None else position

"""From what came back to the turns of a rollout: where their ids are.

What the model server captured is the truth. The items of the response say which of its calls are
turns of the rollout: each turn is matched with the call that it is, and has that call's ids, log
probs and verdict. A turn that no call made is marked with the call that is most like it. Ids that
an agent dropped are filled in. Only where nothing was captured are those on the items judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from palestra.schema import Response, TurnTokens, first_difference, never_made, tokens_on, turn_ends
from palestra.server import TurnsTaken
from palestra.training.chains import RawTurn

INCOMPLETE_CAPTURE: Final = "incomplete capture"
"""How the reason of a rollout begins whose token ids are not all there."""


@dataclass(frozen=True, slots=True)
class Read:
    """The turns of a rollout. `incomplete` says why their ids are not all there."""

    turns: list[RawTurn]
    incomplete: str = ""


def read_turns(
    response: Response, captured: TurnsTaken | None, bounds: tuple[int | None, int | None]
) -> Read:
    """The turns of a response, as the model server captured them where it did.

    `bounds`: the weight versions at the beginning and the end of the attempt, for turns of which
    no model server says better.
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
    carried = [tokens_on(response.output[end]) for end in ends]
    if not carried:
        return Read([], "the rollout has no turn of the model")
    known_tokens = [tokens for tokens in carried if tokens is not None]
    if len(known_tokens) == len(carried):
        # With as many calls as turns, each turn is one of them, whatever else was forgotten.
        is_whole = len(sampled) == len(known_tokens) or (captured is not None and not captured.lost)
        return Read(_matched(known_tokens, sampled, bounds, is_whole=is_whole))
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
    """Each turn as it was captured; as it came, where no call has its ids.

    Unless the capture is `is_whole`, such a turn may be one of those that are not in it. There may be
    more calls than turns: an agent that asked again, or that asks for what it does not show.
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


def _same(tokens: TurnTokens, captured: TurnTokens) -> bool:
    return tokens.generation == captured.generation and tokens.prompt == captured.prompt


def _alike(tokens: TurnTokens, captured: TurnTokens) -> int:
    """How many ids are the same from the start on."""
    came = tokens.all
    position = first_difference(captured.all, came)
    return len(came) if position is None else position

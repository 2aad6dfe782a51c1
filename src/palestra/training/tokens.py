"""From what came back to the turns of a rollout: where their ids are.

Ids are read from the items of the response; those that an agent dropped are filled in from what
the model server captured of the same rollout. Where both are there, each turn is matched with the
call that it is: `palestra.training.chains` looks whether they agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from palestra.schema import Response, TurnTokens, first_difference, never_made, tokens_on, turn_ends
from palestra.server import CapturedTurn, TurnsTaken
from palestra.training.chains import RawTurn, ids_of

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
    matched = _matched(known, calls, whole=captured is not None and not captured.lost)
    return Read(
        [
            RawTurn(
                tokens.prompt,
                tokens.generation,
                tokens.log_probs,
                *(bounds if call is None else (call.weights_start, call.weights_end)),
                captured=None if same else call,
            )
            for tokens, (call, same) in zip(known, matched, strict=True)
        ]
    )


def _matched(
    known: Sequence[TurnTokens], calls: Sequence[CapturedTurn], *, whole: bool
) -> list[tuple[CapturedTurn | None, bool]]:
    """The call that each turn is, and whether it is: else it is the one most like it.

    None where nothing can be said: no call was captured with its ids, or the capture is not
    `whole` and the turn may be one of those that are not in it. There may be more calls than
    turns: an agent that asked again, or that asks for what it does not show.
    """
    by_ids = [call for call in calls if call.generated_ids is not None]
    if len(by_ids) == len(known):
        if all(map(_same, known, by_ids)):
            return [(call, True) for call in by_ids]
        whole = True
    left = list(by_ids)
    found: list[tuple[CapturedTurn | None, bool]] = []
    for tokens in known:
        call = next((call for call in left if _same(tokens, call)), None)
        same = call is not None
        if call is not None:
            left.remove(call)
        elif whole:
            call = max(left or by_ids, key=partial(_alike, tokens), default=None)
        found.append((call, same))
    return found


def _same(tokens: TurnTokens, call: CapturedTurn) -> bool:
    return tokens.generation == call.generated_ids and tokens.prompt == call.prompt_ids


def _alike(tokens: TurnTokens, call: CapturedTurn) -> int:
    """How many ids are the same from the start on."""
    came = tokens.prompt + tokens.generation
    position = first_difference(ids_of(call), came)
    return len(came) if position is None else position


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
        f"{INCOMPLETE_CAPTURE}: turn {without} of {count} came without token ids, and the model "
        f"server captured {len(turns)}",
    )

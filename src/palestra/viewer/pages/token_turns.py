"""The turns of a rollout that have token ids: from its items, and from the chains of an outcome line."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from palestra.analysis import split_row
from palestra.errors import InputDataError
from palestra.schema import TurnTokens, tokens_on
from palestra.training import Chain, Turn
from palestra.viewer.conversation import ConversationItem, Transcript
from palestra.viewer.index import IndexedPlace, read_row
from palestra.viewer.reads import ReadStop

_WEIGHTS: Final = ("weight_version", "weights", "policy_version")


@dataclass(frozen=True, slots=True)
class SampledTurn:
    """One turn with its token ids. `position`: its item in the conversation; None when unknown."""

    position: int | None
    tokens: TurnTokens
    fields: Mapping[str, Any]
    """The fields of the item that carries the ids; empty when no item does."""
    weights: str
    """The weight version that sampled it, or two of them; empty when unknown."""
    is_trained: bool = True


class _Outcome(msgspec.Struct):
    """What an outcome line says of the tokens of its rollout."""

    chains: list[Chain] = []
    masked: bool = False
    mask_reason: str = ""
    weights_start: int | None = None
    weights_end: int | None = None


def sampled_turns(talk: Transcript, stop: ReadStop) -> Iterator[SampledTurn]:
    """Yield the turns that have token ids, in order. The chains of an outcome are what is trained
    on; where the row carries the ids too, its items are these turns.

    Raises InputDataError: the line of the outcome cannot be read.
    """
    outcome = _outcome_of(talk.places[-1])
    items = carriers(talk)
    if outcome is None or not outcome.chains:
        bounds = "" if outcome is None else _versions(outcome.weights_start, outcome.weights_end)
        yield from _carried_turns(talk, items, bounds, stop)
        return
    turns = list(_whole_turns(outcome.chains))
    positions = _positions(talk, items, len(turns))
    is_carried = len(items) == len(turns)
    for position, (turn, tokens) in zip(positions, turns, strict=True):
        stop.check()
        value = talk.read(talk.at(position)) if is_carried and position is not None else {}
        weights = _versions(turn.weights_start, turn.weights_end)
        yield SampledTurn(position, tokens_on(value) or tokens, value, weights, turn.is_trained)


def outcome_notes(talk: Transcript) -> list[str]:
    """Return what an outcome line says of its rollout as a whole, one sentence each."""
    outcome = _outcome_of(talk.places[-1])
    if outcome is None:
        return []
    notes = [f"masked, so not trained on: {outcome.mask_reason}"] if outcome.masked else []
    if outcome.chains and not carriers(talk):
        notes.append("the items carry no token ids; these are what the model server captured")
    return notes


def _outcome_of(row_place: IndexedPlace) -> _Outcome | None:
    if not row_place.is_outcome:
        return None
    fields = split_row(read_row(row_place.stored)) or {}
    known_fields = {name: fields[name] for name in _Outcome.__struct_fields__ if name in fields}
    try:
        return msgspec.json.decode(msgspec.json.encode(known_fields), type=_Outcome)
    except msgspec.DecodeError as error:
        raise InputDataError(
            f"{row_place.path} line {row_place.line} is no outcome: {error}",
            hint="write it with palestra.training.outcome_to_json",
        ) from error


def carriers(talk: Transcript) -> list[ConversationItem]:
    """Return the items of the output that carry token ids."""
    return [item for item in talk.items if item.has_tokens and item.section == "output"]


def _carried_turns(
    talk: Transcript, items: Sequence[ConversationItem], bounds: str, stop: ReadStop
) -> Iterator[SampledTurn]:
    for item in items:
        stop.check()
        value = talk.read(item)
        tokens = tokens_on(value)
        if tokens is not None:
            weights = next((str(value[name]) for name in _WEIGHTS if name in value), bounds)
            yield SampledTurn(item.position, tokens, value, weights)


def _whole_turns(chains: Sequence[Chain]) -> Iterator[tuple[Turn, TurnTokens]]:
    """Yield each turn with its whole prompt: a chain has only what is new in it."""
    for chain in chains:
        ids_so_far: list[int] = []
        for turn in chain.turns:
            tokens = TurnTokens(ids_so_far + turn.prompt_ids, turn.generated_ids, turn.logprobs)
            ids_so_far = tokens.all
            yield turn, tokens


def _positions(talk: Transcript, items: Sequence[ConversationItem], count: int) -> list[int | None]:
    """Return the item of each turn: the one that carries its ids, else the last of the turn."""
    last_items = {turn: position for position, turn in talk.turns.items()}
    for positions in ([item.position for item in items], list(last_items.values())):
        if len(positions) == count:
            return list(positions)
    return [None] * count


def _versions(start: int | None, end: int | None) -> str:
    if start == end:
        return "" if start is None else str(start)
    names = ("unknown" if version is None else str(version) for version in (start, end))
    return " to ".join(names)

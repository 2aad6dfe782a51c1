"""NeMo RL: what a rollout's response says of each turn, beside its token ids.

`is_invalid_tool_call`: the turn has a tool call that the model server could not read, so its tags
are in the text or in the reasoning. `has_malformed_thinking`: a tag of thinking is left in the text
or in the reasoning. `routed_experts`: the experts that a mixture-of-experts model chose.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from palestra.schema import (
    JsonDict,
    Message,
    OutputItem,
    Reasoning,
    Response,
    field_of,
    is_models_own,
    never_made,
    turn_ends,
)
from palestra.training.outcomes import Turn

EXPERTS: Final = "routed_experts"
CALL_TAGS: Final = ("<tool_call>", "</tool_call>", "<function_call>", "</function_call>")
THINKING_TAGS: Final = ("<think>", "</think>")


@dataclass(frozen=True, slots=True)
class TurnFlags:
    """What is known of one turn."""

    problems: JsonDict = field(default_factory=dict)
    """`is_invalid_tool_call` and `has_malformed_thinking`; empty when the turn is unknown."""
    prompt_experts: list[Any] | None = None
    """The experts of each new id of the prompt."""
    generation_experts: list[Any] | None = None
    """The experts of each generated id."""


def turn_flags(response: Any, turns: Sequence[Turn]) -> list[TurnFlags]:
    """Return the flags of each turn.

    They are empty when the response has another number of turns: an agent may hide some of its
    calls, and then nobody knows whose text it is.
    """
    try:
        items_of_turns = list(_items_of_turns(Response.model_validate(response)))
    except ValidationError:
        items_of_turns = []
    if len(items_of_turns) != len(turns):
        return [TurnFlags()] * len(turns)
    flags = []
    ids_before = 0
    for items, turn in zip(items_of_turns, turns, strict=True):
        flags.append(_flags(items, turn, ids_before))
        ids_before += len(turn.prompt_ids) + len(turn.generated_ids)
    return flags


def _items_of_turns(response: Response) -> Iterator[list[OutputItem]]:
    """Yield the model's items of each turn."""
    output = response.output
    ends = turn_ends(output)
    if ends and never_made(output[ends[-1]], response):
        ends.pop()
    begin = 0
    for end in ends:
        yield [item for item in output[begin : end + 1] if is_models_own(item)]
        begin = end + 1


def _flags(items: Sequence[OutputItem], turn: Turn, ids_before: int) -> TurnFlags:
    texts = [_text(item) for item in items]
    problems: JsonDict = {
        "is_invalid_tool_call": any(tag in text for text in texts for tag in CALL_TAGS),
        "has_malformed_thinking": any(tag in text for text in texts for tag in THINKING_TAGS),
    }
    return TurnFlags(problems, *_experts(field_of(items[-1], EXPERTS), turn, ids_before))


def _text(item: OutputItem) -> str:
    if isinstance(item, Message):
        return item.text
    if isinstance(item, Reasoning):
        parts = [*item.summary, *(getattr(item, "content", None) or ())]
        return "\n".join(str(field_of(part, "text") or "") for part in parts)
    return ""


def _experts(rows: Any, turn: Turn, ids_before: int) -> tuple[list[Any] | None, list[Any] | None]:
    """Return the experts of the turn's new prompt ids, and of its generated ids.

    An endpoint reports them for all ids of the call, or for the generated ones. None for a list of
    any other length.
    """
    generated, new_prompt = len(turn.generated_ids), len(turn.prompt_ids)
    if not isinstance(rows, list):
        return None, None
    if len(rows) == generated:
        return None, rows
    if len(rows) == ids_before + new_prompt + generated:
        return rows[ids_before : ids_before + new_prompt], rows[ids_before + new_prompt :]
    return None, None

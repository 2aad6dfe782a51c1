"""Token ids in a conversation: find the model's turns, and check each turn's token lists.

The lists of a turn are fields of the turn's last item. See `palestra.schema.items.Item`.
"""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Final

import msgspec

from palestra.schema.items import (
    PROMPT_ROLES,
    FunctionCall,
    InputItem,
    Message,
    OutputItem,
    Reasoning,
)
from palestra.schema.responses import Response

TOKEN_FIELDS = (PROMPT_IDS, GENERATION_IDS, LOG_PROBS) = (
    "prompt_token_ids",
    "generation_token_ids",
    "generation_log_probs",
)
CONTINUITY: Final = "token_continuity"
"""The field on the last item of a turn that states how its token ids continue those of earlier
turns."""
TURN_FIELDS: Final = (*TOKEN_FIELDS, CONTINUITY)
"""The fields that a model server in training adds to the last item of a turn, or to a chat message.
"""

ABOVE_ZERO: Final = 1e-3
"""How far a log probability may exceed 0, because of rounding in half precision."""

_IDS: Final = list[Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]]
_OWN = (FunctionCall, Reasoning)
_OWN_TYPES = ("function_call", "reasoning")


class TokenFault(msgspec.Struct, frozen=True):
    """The first error in one token list of a turn."""

    field: str
    """The faulty list, one of `TOKEN_FIELDS`."""
    position: int | None
    """The index in the list; None when the list's length is wrong."""
    reason: str

    def __str__(self) -> str:
        where = self.field if self.position is None else f"{self.field}[{self.position}]"
        return f"{self.reason} ({where})"


class TokenVerdict(msgspec.Struct, frozen=True):
    """The errors in the token lists of one turn; None for a list without error.

    It is computed once, where the lists are read, and passed on with them.
    """

    ids: TokenFault | None = None
    log_probs: TokenFault | None = None


# Structs: some are made for each turn, and a frozen dataclass takes five times as long.
class TurnTokens(msgspec.Struct, frozen=True):
    """The token lists of one model turn. `generation` and `log_probs` should have equal length."""

    prompt: list[int]
    generation: list[int]
    log_probs: list[Any]
    """The log probs, unchanged. NaN may appear as null, because JSON has no NaN."""

    @property
    def all(self) -> list[int]:
        """The prompt and generation ids together. The next turn's prompt starts with them."""
        return self.prompt + self.generation

    @property
    def verdict(self) -> TokenVerdict:
        """The errors in the lists. It checks every value on each access, so store the result."""
        return TokenVerdict(self.fault_of_ids(), self.fault_of_log_probs())

    def lacks(self) -> str:
        """Return a text with the numbers of ids when the prompt or the generation is empty; else an
        empty string.
        """
        if self.prompt and self.generation:
            return ""
        return f"{len(self.prompt)} prompt ids and {len(self.generation)} generation ids"

    def fault_of_ids(self) -> TokenFault | None:
        """Return the first value that is not a token id; None when all are."""
        for name, ids in ((PROMPT_IDS, self.prompt), (GENERATION_IDS, self.generation)):
            if (position := bad_id_at(ids)) is not None:
                return TokenFault(name, position, f"{ids[position]!r} is not a token id")
        return None

    def fault_of_log_probs(self) -> TokenFault | None:
        """Return the first invalid log prob, or a wrong number of log probs, as a fault; None
        without one.
        """
        values, count = self.log_probs, len(self.generation)
        if len(values) != count:
            return TokenFault(LOG_PROBS, None, f"{len(values)} log probs for {count} ids")
        if (position := bad_log_prob_at(values)) is None:
            return None
        reason = f"{values[position]!r} at {position} is not a log probability"
        return TokenFault(LOG_PROBS, position, reason)


def bad_id_at(ids: Sequence[int]) -> int | None:
    """Return the index of the first value that is not a token id; None when all are."""
    if _all_ids(ids):
        return None
    return next(at for at, value in enumerate(ids) if not _all_ids([value]))


def _all_ids(ids: Sequence[int]) -> bool:
    try:
        # One pass in C, at a quarter of the cost of asking for types and the smallest. True is no id.
        msgspec.convert(ids, _IDS)
    except msgspec.ValidationError:
        return False
    return True


def bad_log_prob_at(values: Sequence[float]) -> int | None:
    """Return the index of the first value that is not a log probability; None when all are."""
    if _all_log_probs(values):
        return None
    # None as well when only the sum of all was too large.
    return next((at for at, value in enumerate(values) if not _all_log_probs([value])), None)


def _all_log_probs(values: Sequence[float]) -> bool:
    if not values:
        return True
    try:
        # One sum and one maximum, in C: a NaN or an infinity makes the sum one.
        return math.isfinite(sum(values)) and max(values) <= ABOVE_ZERO
    except (TypeError, OverflowError):  # JSON has no NaN: over HTTP it has become null
        return False


def first_difference(expected: list[int], ids: list[int]) -> int | None:
    """Return the first index at which `ids` differ from `expected`; None when `ids` start with all
    of `expected`.
    """
    if ids[: len(expected)] == expected:
        return None
    pairs = zip(expected, ids, strict=False)
    return next((at for at, (before, now) in enumerate(pairs) if before != now), len(ids))


def tokens_on(carrier: Any) -> TurnTokens | None:
    """Return the token lists of an item or message; None unless it has all three."""
    # For every turn of every rollout, so without loops.
    get = carrier.get if isinstance(carrier, dict) else partial(getattr, carrier)
    prompt = get(PROMPT_IDS, None)
    if not isinstance(prompt, list):
        return None
    generation, log_probs = get(GENERATION_IDS, None), get(LOG_PROBS, None)
    if not isinstance(generation, list) or not isinstance(log_probs, list):
        return None
    return TurnTokens(prompt, generation, log_probs)


def put_tokens(carrier: Any, tokens: TurnTokens) -> None:
    """Store the token lists of a turn on its last item, or on a chat message."""
    carrier.prompt_token_ids = tokens.prompt
    carrier.generation_token_ids = tokens.generation
    carrier.generation_log_probs = tokens.log_probs


def field_of(carrier: Any, name: str) -> Any:
    """Return a field of an item or message, given as an object or JSON; None when it is missing."""
    # A dict is found at once, where the abstract class is asked at length for what it is not.
    return carrier.get(name) if isinstance(carrier, dict) else getattr(carrier, name, None)


def is_models_own(item: InputItem | OutputItem) -> bool:
    """Whether the item is the model's output, not its input."""
    # Pydantic's classes take long to be asked whether something is theirs.
    if type(item) in _OWN:
        return True
    if isinstance(item, Message):
        return item.role == "assistant"
    return isinstance(item, FunctionCall | Reasoning)


def model_turns(conversation: Iterable[Any]) -> int:
    """Return the number of model turns in a conversation of items or messages, given as objects or
    JSON.
    """
    return turns_of((field_of(item, "role"), field_of(item, "type")) for item in conversation)


def turns_of(kinds: Iterable[tuple[Any, Any]]) -> int:
    """Return the number of model turns. `kinds`: the role and the type of each item."""
    turns, inside = 0, False
    for role, kind in kinds:
        is_models = role == "assistant" or kind in _OWN_TYPES
        turns += is_models and not inside
        inside = is_models
    return turns


def is_truncated(response: Any) -> bool:
    """Whether a response, given as an object or JSON, was cut off at a token or context limit."""
    details = field_of(response, "incomplete_details")
    return details is not None and field_of(details, "reason") == "max_output_tokens"


def says_nothing(output: Iterable[Any]) -> bool:
    """Whether the model's output has neither text nor a tool call. Items may be objects or JSON."""
    for item in output:
        kind = field_of(item, "type")
        if kind == "reasoning":
            continue
        # What has another form than a message says something.
        if kind not in {None, "message"}:
            return False
        if field_of(item, "role") not in PROMPT_ROLES and _has_text(field_of(item, "content")):
            return False
    return True


def _has_text(content: Any) -> bool:
    if isinstance(content, str):
        return bool(content.strip())
    # What is no text (a refusal) says something as well.
    return any(
        not isinstance(text := field_of(part, "text"), str) or text.strip()
        for part in content or ()
    )


def turn_ends(output: Sequence[OutputItem]) -> list[int]:
    """Return the index of each turn's last item. A turn is a run of model items, up to the next
    input item.
    """
    ends = []
    # From the end, so that of each item it is known what follows it.
    followed = False
    for index in range(len(output) - 1, -1, -1):
        item = output[index]
        is_models = is_models_own(item)
        if is_models and (not followed or _carries_all(item)):
            ends.append(index)
        followed = is_models
    ends.reverse()
    return ends


def _carries_all(item: OutputItem) -> bool:
    return all(getattr(item, name, None) is not None for name in TOKEN_FIELDS)


def never_made(item: OutputItem, response: Response) -> bool:
    """Whether the item is a placeholder, because the conversation did not fit into the context and
    the model returned nothing.
    """
    return (
        isinstance(item, Message)
        and not item.text
        and item.status == "incomplete"
        and is_truncated(response)
        and not any(getattr(item, name, None) for name in TOKEN_FIELDS)
    )

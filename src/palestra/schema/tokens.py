"""Where the tokens of a model's turns stand in a conversation, and what is known of a turn.

Each turn has its lists on the last of its items. See `palestra.schema.items.Item`.
"""

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from palestra.schema.items import FunctionCall, InputItem, Message, OutputItem, Reasoning
from palestra.schema.responses import Response

TOKEN_FIELDS = (PROMPT_IDS, GENERATION_IDS, LOG_PROBS) = (
    "prompt_token_ids",
    "generation_token_ids",
    "generation_log_probs",
)
CONTINUITY: Final = "token_continuity"
"""The field, beside the ids on the last item of a turn, that says how they follow those before."""
TURN_FIELDS: Final = (*TOKEN_FIELDS, CONTINUITY)
"""What a model server under training puts on the last item of a turn, and a chat on its message."""

ABOVE_ZERO: Final = 1e-3
"""What a log probability may be above 0: rounding, in half precision."""

_OWN = (FunctionCall, Reasoning)
_READ = frozenset({"user", "system", "developer"})
_OWN_TYPES = frozenset({"function_call", "reasoning"})


@dataclass(frozen=True, slots=True)
class TokenFault:
    """The first thing that is wrong with one of a turn's lists."""

    field: str
    """One of `TOKEN_FIELDS`."""
    position: int | None
    """In that list; None when its length is wrong."""
    reason: str

    def __str__(self) -> str:
        where = self.field if self.position is None else f"{self.field}[{self.position}]"
        return f"{self.reason} ({where})"


@dataclass(frozen=True, slots=True)
class TokenVerdict:
    """What is wrong with the lists of one turn; None where nothing is.

    Made once, where the lists are read, and passed on beside them.
    """

    ids: TokenFault | None = None
    log_probs: TokenFault | None = None


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """One turn of the model in tokens. The last two are of equal length."""

    prompt: list[int]
    generation: list[int]
    log_probs: list[Any]
    """As they came: JSON has no NaN, and makes null of it."""

    @property
    def all(self) -> list[int]:
        """What the next turn's prompt starts with."""
        return self.prompt + self.generation

    @property
    def verdict(self) -> TokenVerdict:
        """Checks every value: pass the verdict on, rather than asking for it again."""
        return TokenVerdict(self.fault_of_ids(), self.fault_of_log_probs())

    def lacks(self) -> str:
        """Says how many ids there are when the prompt or the generation has none."""
        if self.prompt and self.generation:
            return ""
        return f"{len(self.prompt)} prompt ids and {len(self.generation)} generation ids"

    def fault_of_ids(self) -> TokenFault | None:
        """The first value that is no token id."""
        for name, ids in ((PROMPT_IDS, self.prompt), (GENERATION_IDS, self.generation)):
            if (position := bad_id_at(ids)) is not None:
                return TokenFault(name, position, f"{ids[position]!r} is no token id")
        return None

    def fault_of_log_probs(self) -> TokenFault | None:
        """Another number of them than of ids, or the first value that is none."""
        values, count = self.log_probs, len(self.generation)
        if len(values) != count:
            return TokenFault(LOG_PROBS, None, f"{len(values)} log probs for {count} ids")
        if (position := bad_log_prob_at(values)) is None:
            return None
        reason = f"{values[position]!r} at {position} is no log probability"
        return TokenFault(LOG_PROBS, position, reason)


def bad_id_at(ids: Sequence[int]) -> int | None:
    """The position of the first value that is no token id; None when all are."""
    if _all_ids(ids):
        return None
    return next(at for at, value in enumerate(ids) if not _all_ids([value]))


def _all_ids(ids: Sequence[int]) -> bool:
    try:
        # In C, at half the price of looking for the smallest: what is below 0 does not fit.
        array("Q", ids)
    except (OverflowError, TypeError):
        return False
    # It takes True for 1.
    return list(map(type, ids)).count(int) == len(ids)


def bad_log_prob_at(values: Sequence[float]) -> int | None:
    """The position of the first value that is no log probability; None when all are."""
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
    """The position where `ids` leave `expected`; None when they start with all of it."""
    if ids[: len(expected)] == expected:
        return None
    pairs = zip(expected, ids, strict=False)
    return next((at for at, (before, now) in enumerate(pairs) if before != now), len(ids))


def tokens_on(carrier: Any) -> TurnTokens | None:
    """The tokens that an item or a message carries; None unless it has all three lists."""
    # For every turn of every rollout, so without loops.
    get = carrier.get if isinstance(carrier, dict) else partial(getattr, carrier)
    prompt = get(PROMPT_IDS, None)
    if not isinstance(prompt, list):
        return None
    generation, log_probs = get(GENERATION_IDS, None), get(LOG_PROBS, None)
    if not isinstance(generation, list) or not isinstance(log_probs, list):
        return None
    return TurnTokens(prompt, generation, log_probs)


def field_of(carrier: Any, name: str) -> Any:
    """A field of an item or a message, be it an object or JSON; None when it is not there."""
    # A dict is found at once, where the abstract class is asked at length for what it is not.
    return carrier.get(name) if isinstance(carrier, dict) else getattr(carrier, name, None)


def is_models_own(item: InputItem | OutputItem) -> bool:
    """Whether the model made the item, and does not only read it."""
    # Pydantic's classes take long to be asked whether something is theirs.
    if type(item) in _OWN:
        return True
    if isinstance(item, Message):
        return item.role == "assistant"
    return isinstance(item, FunctionCall | Reasoning)


def model_turns(conversation: Iterable[Any]) -> int:
    """How many turns of a model are in a conversation of items or messages, objects or JSON."""
    turns, inside = 0, False
    for item in conversation:
        is_models = field_of(item, "role") == "assistant" or field_of(item, "type") in _OWN_TYPES
        turns += is_models and not inside
        inside = is_models
    return turns


def is_truncated(response: Any) -> bool:
    """Whether a response, an object or JSON, was cut off at a limit on tokens or context."""
    details = field_of(response, "incomplete_details")
    return details is not None and field_of(details, "reason") == "max_output_tokens"


def says_nothing(output: Iterable[Any]) -> bool:
    """Whether a model answered neither text nor a call of a tool; items are objects or JSON."""
    for item in output:
        kind = field_of(item, "type")
        if kind == "reasoning":
            continue
        # What has another form than a message says something.
        if kind not in {None, "message"}:
            return False
        if field_of(item, "role") not in _READ and _has_text(field_of(item, "content")):
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
    """The index of each turn's last item: the model's own items up to what it reads next."""
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
    """Whether the context could not hold the conversation, and this stands for the answer."""
    return (
        isinstance(item, Message)
        and not item.text
        and item.status == "incomplete"
        and is_truncated(response)
        and not any(getattr(item, name, None) for name in TOKEN_FIELDS)
    )

"""Reasoning as it is written down: items of a conversation, parts of a chat message's content.

Endpoints that answer in parts spell a thought in ways of their own, and want it back in the same:

- Mistral: `{"type": "thinking", "thinking": [{"type": "text", "text": …}]}`
- Databricks: `{"type": "reasoning", "summary": [{"type": "summary_text", "text": …}]}`
- others: `{"type": "reasoning", "text": …}`, or with its words as `content`

So a block of a reasoning item keeps the part that it was as `chat_part`, beside its text.
"""

from collections.abc import Mapping
from typing import Any

from palestra.schema.items import Reasoning, SummaryText

BESIDE_REASONING = ("reasoning_details", "thinking_blocks")
"""Fields of a chat message that hold what only its provider can read of its reasoning."""

CALL_SIGNATURE = "extra_content"
"""A field of a tool call: Gemini's signature of the thought behind it."""

_KINDS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_text"})
_WORDS = ("thinking", "reasoning", "summary", "content", "text")
"""Where such a part has its words, as text or as parts again."""

CHAT_PART = "chat_part"
"""A field of a block: the part of a chat's content that it was."""


def thought_in(part: Any) -> str | None:
    """The reasoning that a part of a content is; None when it is of another kind.

    Empty for one that only its provider can read.
    """
    if not isinstance(part, Mapping) or str(part.get("type")) not in _KINDS:
        return None
    return next((_words(part[name]) for name in _WORDS if part.get(name) is not None), "")


def block_of_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a summary text for a part that is a thought."""
    return {"type": "summary_text", "text": thought_in(part) or "", CHAT_PART: part}


def part_of_block(block: SummaryText) -> Mapping[str, Any] | None:
    """The part that a block was, unless it was none or its text was changed since."""
    part = (block.model_extra or {}).get(CHAT_PART)
    return part if part is not None and thought_in(part) == block.text else None


def blocks_of(reasoning: Reasoning) -> list[str]:
    """What was thought: the thoughts themselves where they are given, else their summary."""
    blocks = [_words([part]) for part in reasoning.content or ()]
    return blocks if any(blocks) else [block.text for block in reasoning.summary]


def _words(given: Any) -> str:
    if isinstance(given, str):
        return given
    parts = given if isinstance(given, list) else [given]
    return "".join([_words_of_part(part) for part in parts])


def _words_of_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return ""
    thought = thought_in(part)
    return str(part.get("text") or "") if thought is None else thought

"""Reasoning amid an answer: `<think>` blocks in text, and parts of their own beside it.

Tags are written and taken apart without losing a character.

A block is what stands between `<think>` and the next `</think>`. Two blocks are only half
marked: a text may begin inside of one, because the chat template had already opened it, and it
may end inside of one, because the model reached its token limit. Where reasoning stands beside the
text, neither is so, and a lone tag is a word of the answer.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from palestra.errors import ModelError
from palestra.schema import JsonObject, thought_in

OPEN = "<think>"
CLOSE = "</think>"


class TextSpan(NamedTuple):
    """A stretch of what was said: answer, or reasoning (one block, without its tags)."""

    text: str
    is_reasoning: bool = False
    part: JsonObject | None = None
    """Where an endpoint answers in parts, the part that this was, unless it was plain text."""


def wrap_thinking(blocks: Iterable[str]) -> str:
    """The blocks as text, each between its own tags."""
    return "".join([f"{OPEN}{block}{CLOSE}" for block in blocks])


def has_tags(text: str) -> bool:
    """Whether there is any tag in the text."""
    return OPEN in text or CLOSE in text


def stretches(text: str, *, lone_tags: bool = True) -> Iterator[TextSpan]:
    """The text's blocks and what stands around them, in order, whitespace kept.

    lone_tags: whether a block may be half marked.
    """
    if not has_tags(text):
        if text:
            yield TextSpan(text)
        return
    opened, closed = text.find(OPEN), text.find(CLOSE)
    if lone_tags and closed >= 0 and not 0 <= opened < closed:
        block, _, text = text.partition(CLOSE)
        yield TextSpan(block, is_reasoning=True)
    while text:
        before, tag, remainder = text.partition(OPEN)
        if not lone_tags and CLOSE not in remainder:
            yield TextSpan(text)
            return
        text = remainder
        if before:
            yield TextSpan(before)
        if tag:
            block, _, text = text.partition(CLOSE)
            yield TextSpan(block, is_reasoning=True)


def split_thinking(text: str, *, lone_tags: bool = True) -> tuple[list[str], str]:
    """The blocks of a text, in order, and the text without them, whitespace kept."""
    spans = list(stretches(text, lone_tags=lone_tags))
    blocks = [span.text for span in spans if span.is_reasoning]
    return blocks, "".join([span.text for span in spans if not span.is_reasoning])


def said_in(content: Any, *, lone_tags: bool = True) -> Iterator[TextSpan]:
    """What a chat message's content holds, in order: text, or parts as some providers answer.

    Raises `ModelError` for what is neither.
    """
    if content is None or isinstance(content, str):
        yield from stretches(content or "", lone_tags=lone_tags)
        return
    if not isinstance(content, list):
        raise ModelError(f"the endpoint's content is neither text nor parts: {content!r:.200}")
    for is_text, group in groupby(content, key=lambda part: _text_of(part) is not None):
        if is_text:
            text = "".join([_text_of(part) or "" for part in group])
            yield from stretches(text, lone_tags=lone_tags)
            continue
        for part in group:
            if not isinstance(part, dict):
                raise ModelError(f"a part of the endpoint's content is none: {part!r:.200}")
            thought = thought_in(part)
            yield TextSpan(thought or "", is_reasoning=thought is not None, part=part)


def _text_of(part: Any) -> str | None:
    """The text of a part that is no thought."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or thought_in(part) is not None:
        return None
    text = part.get("text")
    return text if isinstance(text, str) else None

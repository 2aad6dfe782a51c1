"""Reasoning inside an answer: `<think>` blocks in the text, or separate parts of the content.

Writing and reading the tags loses no character.

A block is the text between `<think>` and the next `</think>`. Two cases lack a tag: a text may
begin inside a block, because the chat template already opened it, or end inside a block, because
the model reached its token limit. When the endpoint returns reasoning in a separate field, neither
case occurs, and a lone tag is ordinary text.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from palestra.errors import ModelError
from palestra.schema import JsonObject, thought_in

OPEN = "<think>"
CLOSE = "</think>"


class TextSpan(NamedTuple):
    """A span of the model's output: answer text, or one reasoning block without its tags."""

    text: str
    is_reasoning: bool = False
    part: JsonObject | None = None
    """The content part of this span, when the endpoint returned parts and this part is not plain
    text."""


def wrap_thinking(blocks: Iterable[str]) -> str:
    """Return the blocks as one text, each block between its own tags."""
    return "".join([f"{OPEN}{block}{CLOSE}" for block in blocks])


def has_tags(text: str) -> bool:
    """Whether the text contains a `<think>` or `</think>` tag."""
    return OPEN in text or CLOSE in text


def stretches(text: str, *, lone_tags: bool = True) -> Iterator[TextSpan]:
    """Yield the reasoning blocks of the text and the text around them, in order. Whitespace is
    kept.

    `lone_tags`: whether a block may lack its opening or closing tag.
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
    """Return the reasoning blocks of a text, in order, and the text without them. Whitespace is
    kept.
    """
    spans = list(stretches(text, lone_tags=lone_tags))
    blocks = [span.text for span in spans if span.is_reasoning]
    return blocks, "".join([span.text for span in spans if not span.is_reasoning])


def said_in(content: Any, *, lone_tags: bool = True) -> Iterator[TextSpan]:
    """Yield the spans of a chat message's content, in order. The content is text or a list of
    parts.

    Raises `ModelError`: the content is neither.
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
                raise ModelError(
                    f"the endpoint's content has a part of an unknown form: {part!r:.200}"
                )
            thought = thought_in(part)
            yield TextSpan(thought or "", is_reasoning=thought is not None, part=part)


def _text_of(part: Any) -> str | None:
    """Return the text of a part; None when the part is reasoning or has no text."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or thought_in(part) is not None:
        return None
    text = part.get("text")
    return text if isinstance(text, str) else None

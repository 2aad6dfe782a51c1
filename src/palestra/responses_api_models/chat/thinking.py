"""Reasoning inside of text: `<think>` blocks, written and taken apart without losing a character.

A block is what stands between `<think>` and the next `</think>`. Two blocks are only half
marked: a text may begin inside of one, because the chat template had already opened it, and it
may end inside of one, because the model reached its token limit.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

OPEN = "<think>"
CLOSE = "</think>"


class Said(NamedTuple):
    """A stretch of a text: answer, or reasoning (one block, without its tags)."""

    text: str
    is_reasoning: bool = False


def wrap_thinking(blocks: Iterable[str]) -> str:
    """The blocks as text, each between its own tags."""
    return "".join([f"{OPEN}{block}{CLOSE}" for block in blocks])


def stretches(text: str) -> Iterator[Said]:
    """The text's blocks and what stands around them, in order, whitespace kept."""
    if OPEN not in text and CLOSE not in text:
        if text:
            yield Said(text)
        return
    opened, closed = text.find(OPEN), text.find(CLOSE)
    if closed >= 0 and not 0 <= opened < closed:
        block, _, text = text.partition(CLOSE)
        yield Said(block, is_reasoning=True)
    while text:
        before, tag, text = text.partition(OPEN)
        if before:
            yield Said(before)
        if tag:
            block, _, text = text.partition(CLOSE)
            yield Said(block, is_reasoning=True)


def split_thinking(text: str) -> tuple[list[str], str]:
    """The blocks of a text, in order, and the text without them, whitespace kept."""
    found = list(stretches(text))
    blocks = [said.text for said in found if said.is_reasoning]
    return blocks, "".join([said.text for said in found if not said.is_reasoning])

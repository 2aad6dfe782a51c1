"""Reasoning inside of text: `<think>` blocks, written and taken apart without losing a character.

A block is what stands between `<think>` and the next `</think>`. Two blocks are only half
marked: a text may begin inside of one, because the chat template had already opened it, and it
may end inside of one, because the model reached its token limit.
"""

from collections.abc import Iterable

OPEN = "<think>"
CLOSE = "</think>"


def wrap_thinking(blocks: Iterable[str]) -> str:
    """The blocks as text, each between its own tags."""
    return "".join([f"{OPEN}{block}{CLOSE}" for block in blocks])


def split_thinking(text: str) -> tuple[list[str], str]:
    """The blocks of a text, in order, and the text without them, whitespace kept."""
    if OPEN not in text and CLOSE not in text:
        return [], text
    blocks: list[str] = []
    answer: list[str] = []
    begins_inside = text.find(CLOSE) >= 0 and not 0 <= text.find(OPEN) < text.find(CLOSE)
    if begins_inside:
        block, _, text = text.partition(CLOSE)
        blocks.append(block)
    while True:
        before, opened, text = text.partition(OPEN)
        answer.append(before)
        if not opened:
            return blocks, "".join(answer)
        block, _, text = text.partition(CLOSE)
        blocks.append(block)

"""The prompt of the next turn: the ids so far, then the ids of only the new messages.

A chat is text, and text has many tokenizations: rendered anew, what the model sampled comes back
as other ids (`{"` and `"` where it sampled `{""`), or as another text (JSON with other spaces).
So the earlier turns keep the ids they had, and only what was added is taken from the rendering
of the whole chat. Where the added part begins is found by the token that closes a turn
(`<|im_end|>` and its like), which is special: it is one token in every tokenization. Counting
them leads to the same place in both. Pure functions.
"""

from collections.abc import Sequence

from palestra.responses_api_models.vllm_model.token_ids import Reason


def closing_token(first: Sequence[int], second: Sequence[int]) -> int | None:
    """The id that closes a turn of the model, from two chats that differ in what it said.

    Both are rendered without the beginning of an answer; they end alike from the closing on.
    """
    shared = 0
    while shared < min(len(first), len(second)) and first[-1 - shared] == second[-1 - shared]:
        shared += 1
    return first[-shared] if shared and shared < len(first) else None


def spliced(
    before: list[int], rendered: list[int], history: Sequence[int], closing: int | None
) -> list[int] | Reason:
    """`before`, and what `rendered` has beyond the history; or why that cannot be told.

    before: prompt and generation of the last turn. rendered: the whole chat with the beginning
    of an answer. history: the chat up to the last turn, without that beginning.
    """
    closed = before[-1] == closing
    # Without its closing, a turn may be the beginning of a longer one.
    if (closed or closing is None) and rendered[: len(before)] == before:
        return rendered
    if closing is None:
        return Reason.TEMPLATE
    turns = before.count(closing) + (not closed)
    if history.count(closing) != turns:
        return Reason.TEMPLATE
    end = _position(rendered, closing, turns)
    if end is None:
        return Reason.TEMPLATE
    # A turn that was cut off is closed by the template, as it would be for the model to read.
    return before + rendered[end + 1 if closed else end :]


def _position(ids: list[int], token: int, count: int) -> int | None:
    """Where `token` stands for the `count`-th time."""
    position = -1
    for _ in range(count):
        try:
            position = ids.index(token, position + 1)
        except ValueError:
            return None
    return position

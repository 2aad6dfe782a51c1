"""Build the prompt of the next turn: the token ids so far, then the ids of only the new messages.

The same text has many tokenizations. When a chat is rendered again, the text that the model sampled
may become other ids (`{"` and `"` where it sampled `{""`), or other text (JSON with other spaces).
So the earlier turns keep their ids, and only the new part is taken from the rendering of the whole
chat. The beginning of the new part is found with the token that closes a turn (such as
`<|im_end|>`). This special token is one token in every tokenization. So counting it finds the same
place in both lists of ids. Pure functions.
"""

from collections.abc import Sequence

from palestra.responses_api_models.vllm_model.token_ids import Reason


def closing_token(first: Sequence[int], second: Sequence[int]) -> int | None:
    """Return the id that closes a model turn, found by comparing two chats with different answers.

    Both chats are rendered without a generation prompt. Their ends are equal from the closing token
    on.
    """
    shared = 0
    while shared < min(len(first), len(second)) and first[-1 - shared] == second[-1 - shared]:
        shared += 1
    return first[-shared] if shared and shared < len(first) else None


def spliced(
    before: list[int], rendered: list[int], history: Sequence[int], closing: int | None
) -> list[int] | Reason:
    """Return `before` plus the part of `rendered` after the history, or the reason why it cannot be
    found.

    `before`: prompt and generation of the last turn. `rendered`: the whole chat with the generation
    prompt. `history`: the chat up to the last turn, without the generation prompt.
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
    """Return the index of the `count`-th occurrence of `token`; None if there are fewer."""
    position = -1
    for _ in range(count):
        try:
            position = ids.index(token, position + 1)
        except ValueError:
            return None
    return position

"""Two rollouts side by side: their items aligned by kind and name, and what differs in each."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from palestra.errors import ConfigError
from palestra.viewer import replies
from palestra.viewer.catalog import NoSuchRun
from palestra.viewer.conversation import Conversation, ConversationItem, conversation_of, item_text
from palestra.viewer.index import Snapshot
from palestra.viewer.pages.rollout import head_of, outline_item
from palestra.viewer.pages.tokens import first_token_difference
from palestra.viewer.requests import NO_INDEX, Asked, row_of

MOST_WORD_PAIRS: Final = 2_000_000
"""Texts with more pairs of words are compared by lines: words would take longer than 200 ms."""
MOST_LINE_PAIRS: Final = 4_000_000
MOST_ITEMS: Final = 4_000
ITEMS_AT_ONCE: Final = 100
_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")


def diff(asked: Asked) -> replies.Diff:
    """Answer the items of two rollouts, aligned."""
    (snapshot_a, row_a), (snapshot_b, row_b) = (_named(asked, name) for name in ("a", "b"))
    a, b = conversation_of(snapshot_a, row_a), conversation_of(snapshot_b, row_b)
    pairs = list(aligned(a.items, b.items))
    asked.stop.check()
    start = asked.integer("start")
    items = []
    for left, right in pairs[start : start + ITEMS_AT_ONCE]:
        asked.stop.check()
        items.append(_item(a, left, b, right))
    return replies.Diff(
        a=head_of(snapshot_a, row_a),
        b=head_of(snapshot_b, row_b),
        items=items,
        start=start,
        total=len(pairs),
        first_token=first_token_difference(a, b, asked.stop),
    )


def _named(asked: Asked, name: str) -> tuple[Snapshot, int]:
    """Return the rollout that `a` or `b` names: RUN/TASK/ROLLOUT, or RUN/-/-/ROW."""
    run_id, _, place = asked.text(name).partition("/")
    task, _, rollout = place.rpartition("/")
    if not (run_id and task and rollout):
        raise ConfigError(f"{name} is not RUN/TASK/ROLLOUT")
    snapshot = asked.viewer.catalog.run(run_id).snapshot
    if task == f"{NO_INDEX}/{NO_INDEX}":
        row = int(rollout) if rollout.isdecimal() else len(snapshot.rollouts)
        if row < len(snapshot.rollouts):
            return snapshot, row
    else:
        known_row = row_of(snapshot, task, rollout)
        if known_row is not None:
            return snapshot, known_row
    raise NoSuchRun(f"{name}: there is no rollout {place[:80]}")


Pair = tuple[ConversationItem | None, ConversationItem | None]


def aligned(a: Sequence[ConversationItem], b: Sequence[ConversationItem]) -> Iterator[Pair]:
    """Yield the items of two conversations in pairs of one kind and name; None for a missing one."""
    names = [[(item.kind, item.item.name, item.item.section) for item in side] for side in (a, b)]
    if max(len(a), len(b)) > MOST_ITEMS:  # by position: aligning would take too long
        for at in range(max(len(a), len(b))):
            yield (a[at] if at < len(a) else None, b[at] if at < len(b) else None)
        return
    matcher = SequenceMatcher(None, names[0], names[1], autojunk=False)
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(a[a0:a1], b[b0:b1], strict=True)
        else:
            yield from ((item, None) for item in a[a0:a1])
            yield from ((None, item) for item in b[b0:b1])


def _item(
    a: Conversation, left: ConversationItem | None, b: Conversation, right: ConversationItem | None
) -> replies.DiffItem:
    shown_a = None if left is None else outline_item(a, left, [])
    shown_b = None if right is None else outline_item(b, right, [])
    if left is None or right is None:
        return replies.DiffItem(a=shown_a, b=shown_b, same=False, pieces=[], by_lines=False)
    texts = item_text(a.read(left)), item_text(b.read(right))
    if texts[0] == texts[1]:
        return replies.DiffItem(a=shown_a, b=shown_b, same=True, pieces=[], by_lines=False)
    pieces, by_lines = differences(*texts)
    return replies.DiffItem(a=shown_a, b=shown_b, same=False, pieces=pieces, by_lines=by_lines)


def differences(a: str, b: str) -> tuple[list[replies.DiffPiece], bool]:
    """Return the pieces of two texts, and whether they are lines instead of words."""
    words = _WORDS.findall(a), _WORDS.findall(b)
    if len(words[0]) * len(words[1]) <= MOST_WORD_PAIRS:
        return list(_pieces(*words)), False
    lines = a.splitlines(keepends=True), b.splitlines(keepends=True)
    if len(lines[0]) * len(lines[1]) <= MOST_LINE_PAIRS:
        return list(_pieces(*lines)), True
    return [replies.DiffPiece(op="-", text=a), replies.DiffPiece(op="+", text=b)], True


def _pieces(a: Sequence[str], b: Sequence[str]) -> Iterator[replies.DiffPiece]:
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            yield replies.DiffPiece(op="=", text="".join(a[a0:a1]))
            continue
        if a1 > a0:
            yield replies.DiffPiece(op="-", text="".join(a[a0:a1]))
        if b1 > b0:
            yield replies.DiffPiece(op="+", text="".join(b[b0:b1]))

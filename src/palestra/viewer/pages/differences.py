"""Two rollouts side by side: their items aligned by kind and name, and what differs in each."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final
from urllib.parse import unquote

from palestra.errors import ConfigError
from palestra.viewer.catalog import OpenRun
from palestra.viewer.conversation import ConversationItem, Transcript
from palestra.viewer.index import IndexSnapshot
from palestra.viewer.pages.rollout import head_of, outline_item
from palestra.viewer.pages.tasks import expected_of
from palestra.viewer.pages.tokens import first_token_difference
from palestra.viewer.replies.differences import Diff, DiffItem, DiffPiece
from palestra.viewer.requests import NO_INDEX, NoSuchRow, PageRequest, row_of

MOST_WORD_PAIRS: Final = 2_000_000
"""Texts with more pairs of words are compared by lines: words would take longer than 200 ms."""
MOST_LINE_PAIRS: Final = 4_000_000
MOST_ITEMS: Final = 4_000
ITEMS_AT_ONCE: Final = 100
_WORDS: Final = re.compile(r"\x1b\[[0-9;]*m|\s+|\w+|[^\w\s]")


def diff(request: PageRequest) -> Diff:
    """Answer the items of two rollouts, aligned."""
    sides = [_rollout_of(request, name) for name in ("a", "b")]
    a, b = (run.conversations.of(snapshot, row) for run, snapshot, row in sides)
    pairs = list(aligned(a.items, b.items))
    request.stop.check()
    start = request.integer("start")
    items = []
    for item_a, item_b in pairs[start : start + ITEMS_AT_ONCE]:
        request.stop.check()
        items.append(_item(a, item_a, b, item_b))
    return Diff(
        a=head_of(*sides[0]),
        b=head_of(*sides[1]),
        runs=[] if sides[0][0] is sides[1][0] else [run.place.name for run, _, _ in sides],
        expected=list(dict.fromkeys(filter(None, map(expected_of, (a, b))))),
        items=items,
        start=start,
        total=len(pairs),
        limit=ITEMS_AT_ONCE,
        first_token=first_token_difference(a, b, request.stop),
    )


def _rollout_of(request: PageRequest, name: str) -> tuple[OpenRun, IndexSnapshot, int]:
    """Return the rollout that `a` or `b` names: RUN/TASK/ROLLOUT, or RUN/-/-/ROW."""
    run_id, _, key = request.text(name).partition("/")
    task, _, rollout = key.rpartition("/")
    task = unquote(task)
    if not (run_id and task and rollout):
        raise ConfigError(f"{name} is not RUN/TASK/ROLLOUT")
    run = request.viewer.catalog.run(run_id)
    snapshot = run.snapshot
    if task == f"{NO_INDEX}/{NO_INDEX}":
        row = int(rollout) if rollout.isdecimal() else len(snapshot.rollouts)
        if row < len(snapshot.rollouts):
            return run, snapshot, row
    else:
        known_row = row_of(snapshot, task, rollout)
        if known_row is not None:
            return run, snapshot, known_row
    raise NoSuchRow(f"{name}: there is no rollout {key[:80]}", run, snapshot)


Pair = tuple[ConversationItem | None, ConversationItem | None]


def aligned(a: Sequence[ConversationItem], b: Sequence[ConversationItem]) -> Iterator[Pair]:
    """Yield the items of two conversations in pairs of one kind and name; None for a missing one."""
    names = [[(item.kind, item.name, item.section) for item in side] for side in (a, b)]
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
    a: Transcript,
    item_a: ConversationItem | None,
    b: Transcript,
    item_b: ConversationItem | None,
) -> DiffItem:
    shown_a = None if item_a is None else outline_item(a, item_a, a.details([item_a])[0], [])
    shown_b = None if item_b is None else outline_item(b, item_b, b.details([item_b])[0], [])
    if item_a is None or item_b is None:
        return DiffItem(a=shown_a, b=shown_b, same=False, pieces=[], by_lines=False)
    [(_, text_a)], [(_, text_b)] = a.texts([item_a]), b.texts([item_b])
    if text_a == text_b:
        return DiffItem(a=shown_a, b=shown_b, same=True, pieces=[], by_lines=False)
    pieces, by_lines = differences(text_a, text_b)
    return DiffItem(a=shown_a, b=shown_b, same=False, pieces=pieces, by_lines=by_lines)


def differences(a: str, b: str) -> tuple[list[DiffPiece], bool]:
    """Return the pieces of two texts, and whether they are lines instead of words."""
    words = _WORDS.findall(a), _WORDS.findall(b)
    if len(words[0]) * len(words[1]) <= MOST_WORD_PAIRS:
        return list(_pieces(*words)), False
    lines = a.splitlines(keepends=True), b.splitlines(keepends=True)
    if len(lines[0]) * len(lines[1]) <= MOST_LINE_PAIRS:
        return list(_pieces(*lines)), True
    return [DiffPiece(op="-", text=a), DiffPiece(op="+", text=b)], True


def _pieces(a: Sequence[str], b: Sequence[str]) -> Iterator[DiffPiece]:
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            yield DiffPiece(op="=", text="".join(a[a0:a1]))
            continue
        if a1 > a0:
            yield DiffPiece(op="-", text="".join(a[a0:a1]))
        if b1 > b0:
            yield DiffPiece(op="+", text="".join(b[b0:b1]))

"""One task: its rollouts side by side, their answers, and where they first differ."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from palestra.errors import PalestraError
from palestra.metrics import COMPONENTS, IntArray
from palestra.viewer.conversation import ConversationItem, conversation_of
from palestra.viewer.index import IndexSnapshot, RowTable, SplitItem
from palestra.viewer.pages.runs import base_of
from palestra.viewer.pages.tables import EXTRACTED, marks_of
from palestra.viewer.reads import ReadStop
from palestra.viewer.replies.base import Count, TaskName
from palestra.viewer.replies.tasks import (
    GROUP_ROLLOUTS,
    AnswerCount,
    FirstDifference,
    GroupMember,
    TaskGroup,
)
from palestra.viewer.requests import PageRequest, find_task

PROMPT_CHARACTERS: Final = 4_000
COMPARED_ITEMS: Final = 500
MOST_VARIANTS: Final = 12
VARIANT_CHARACTERS: Final = 60
"""In so many items of each rollout the first difference is looked for."""
_PREFIX: Final = f"{COMPONENTS}."
_FIELDS: Final = ("rollout", "outcome", "reward", "tokens.in", "tokens.out", "turns", "last_answer")
_ANSWER_FIELDS: Final = ("rollout", "reward", "last_answer", EXTRACTED)
_TASK_FIELDS: Final = ("prompt", "mean", "std", "pass_rate", "learnability", "n")


def task(request: PageRequest) -> TaskGroup:
    """Answer the rollouts of a task, the highest reward first."""
    opened = request.run
    snapshot = opened.snapshot
    name, number = find_task(snapshot, request)
    rows = snapshot.rollouts_of(number)
    rewards = snapshot.rollouts.numbers("reward")[rows]
    order = np.argsort(np.where(np.isnan(rewards), np.inf, -rewards), kind="stable")
    group_rows = rows[order[:GROUP_ROLLOUTS]]
    members = _values(snapshot.rollouts, group_rows)
    about = _values(snapshot.tasks, np.array([number]), _TASK_FIELDS)[0]
    scored = rewards[~np.isnan(rewards)]
    return TaskGroup(
        task=name,
        prompt=_prompt(snapshot, group_rows, str(about.get("prompt") or "")),
        members=[
            _member(snapshot, int(row), values)
            for row, values in zip(group_rows, members, strict=True)
        ],
        rollouts=len(rows),
        solved=int(np.sum(scored >= 1)),
        scored=len(scored),
        mean=about.get("mean"),
        std=about.get("std"),
        pass_rate=about.get("pass_rate"),
        learnability=about.get("learnability"),
        answers=_answers(_values(snapshot.rollouts, rows, _ANSWER_FIELDS)),
        difference=_first_difference(snapshot, group_rows, request.stop),
        previous=_neighbour(snapshot, number - 1),
        next=_neighbour(snapshot, number + 1),
        base=base_of(opened),
    )


def _values(
    table: RowTable, rows: IntArray, names_wanted: Sequence[str] = ()
) -> list[Mapping[str, Any]]:
    names = [name for name in names_wanted or (*_FIELDS, EXTRACTED) if name in table.fields]
    if not names_wanted:
        names += [name for name in table.fields if name.startswith(_PREFIX)]
    return list(table.page(rows, count=len(rows), fields=names).rows)


def _neighbour(snapshot: IndexSnapshot, number: int) -> TaskName | None:
    if not 0 <= number < len(snapshot.tasks):
        return None
    name: TaskName | None
    name = _values(snapshot.tasks, np.array([number]), ("task",))[0]["task"]
    return name


def _member(snapshot: IndexSnapshot, row: int, values: Mapping[str, Any]) -> GroupMember:
    return GroupMember(
        row=row,
        rollout=_integer(values.get("rollout")),
        outcome=str(values.get("outcome") or ""),
        reward=values.get("reward"),
        components={
            name.removeprefix(_PREFIX): float(value)
            for name, value in values.items()
            if name.startswith(_PREFIX) and value is not None
        },
        tokens_in=_integer(values.get("tokens.in")),
        tokens_out=_integer(values.get("tokens.out")),
        turns=_integer(values.get("turns")),
        answer=str(values.get("last_answer") or ""),
        marks=marks_of(snapshot, row),
    )


def _integer(value: Any) -> int | None:
    return None if value is None else int(value)


def _prompt(snapshot: IndexSnapshot, rows: IntArray, beginning: str) -> str:
    """Return the prompt of a task, cut; what the index has of it when no row can be read."""
    for row in rows[:1].tolist():
        try:
            talk = conversation_of(snapshot, row)
            prompts = [item for item in talk.items if item.section == "prompt"]
            texts = [text for item, text in talk.texts(prompts) if item.kind == "user"]
        except PalestraError:
            return beginning
        return texts[-1][:PROMPT_CHARACTERS] if texts else beginning
    return beginning


def _answers(members: Sequence[Mapping[str, Any]]) -> list[AnswerCount]:
    """Count the answers: those that a verifier extracted, else the ends of the last messages."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for values in members:
        extracted = values.get(EXTRACTED)
        answer = extracted if extracted is not None else values.get("last_answer")
        if answer is not None:
            groups.setdefault(str(answer), []).append(values)
    counts = [_answer(answer, group) for answer, group in groups.items()]
    return sorted(counts, key=lambda count: -count.count)


def _answer(answer: str, members: Sequence[Mapping[str, Any]]) -> AnswerCount:
    rewards = [float(m["reward"]) for m in members if m.get("reward") is not None]
    return AnswerCount(
        answer=answer,
        count=len(members),
        mean_reward=float(np.mean(rewards)) if rewards else None,
        rollouts=[int(m["rollout"]) for m in members if m.get("rollout") is not None],
    )


def _first_difference(
    snapshot: IndexSnapshot, rows: IntArray, stop: ReadStop
) -> FirstDifference | None:
    """Return the first item of the output in which the rollouts differ; None when none does.
    Rollouts without an output, such as failed ones, are left out.
    """
    outputs: list[list[_OutputItem]] = []
    for row in rows.tolist():
        stop.check()
        try:
            talk = conversation_of(snapshot, row)
            items = [item for item in talk.items if item.section == "output"][:COMPARED_ITEMS]
            if items:
                outputs.append(list(zip(items, talk.details(items), strict=True)))
        except PalestraError:
            continue
    longest = max(map(len, outputs), default=0)
    for at in range(longest):
        items_there = [items[at] if at < len(items) else None for items in outputs]
        if len({_content(item) for item in items_there}) > 1:
            return FirstDifference(item=at, variants=_variants(items_there))
    return None


_OutputItem = tuple[ConversationItem, SplitItem]


def _content(output_item: _OutputItem | None) -> tuple[object, ...]:
    if output_item is None:
        return ()
    item, detail = output_item
    return (item.kind, item.name, *((part.size, part.head) for part in detail.texts))


def _variants(items: Sequence[_OutputItem | None]) -> list[Count]:
    names = [_variant_name(item) for item in items]
    if len(set(names)) == 1:
        names = [_variant_name(item, with_text=True) for item in items]
    counts = Counter(names)
    return [Count(name=name, count=count) for name, count in counts.most_common(MOST_VARIANTS)]


def _variant_name(item: _OutputItem | None, *, with_text: bool = False) -> str:
    if item is None:
        return "nothing"
    kind = f"{item[0].kind} {item[0].name}".strip()
    text = " ".join(part.head for part in item[1].texts)[:VARIANT_CHARACTERS] if with_text else ""
    return f"{kind}: {text}" if text else kind

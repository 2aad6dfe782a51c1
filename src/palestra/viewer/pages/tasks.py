"""One task: its rollouts side by side, their answers, and where they first differ."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from palestra.errors import PalestraError
from palestra.metrics import IntArray, is_solved
from palestra.schema import EXPECTED_ANSWER, EXTRACTED_ANSWER, REWARD_COMPONENTS
from palestra.viewer.conversation import ConversationItem, Transcript, conversation_of
from palestra.viewer.index import IndexSnapshot, RowTable, SplitItem
from palestra.viewer.pages.evidence import LONG_FIELDS
from palestra.viewer.pages.runs import base_of, text_of
from palestra.viewer.pages.tables import by_reward, marks_of
from palestra.viewer.reads import ReadStop
from palestra.viewer.replies.base import TaskName
from palestra.viewer.replies.tasks import (
    GROUP_ROLLOUTS,
    AnswerCount,
    FirstDifference,
    GroupMember,
    TaskGroup,
    Variant,
)
from palestra.viewer.requests import PageRequest, find_task

PROMPT_CHARACTERS: Final = 4_000
EXPECTED_CHARACTERS: Final = 200
COMPARED_ITEMS: Final = 500
MOST_VARIANTS: Final = 12
VARIANT_CHARACTERS: Final = 60
"""In so many items of each rollout the first difference is looked for."""
_PREFIX: Final = f"{REWARD_COMPONENTS}."
_FIELDS: Final = ("rollout", "outcome", "reward", "tokens.in", "tokens.out", "turns", "last_answer")
_ANSWER_FIELDS: Final = ("rollout", "reward", "last_answer", EXTRACTED_ANSWER)
_TASK_FIELDS: Final = ("prompt", "mean", "std", "pass_rate", "learnability", "n")


def task(request: PageRequest) -> TaskGroup:
    """Answer the rollouts of a task, the highest reward first."""
    opened = request.run
    snapshot = opened.snapshot
    name, number = find_task(snapshot, request)
    rows = snapshot.rollouts_of(number)
    rewards = snapshot.rollouts.numbers("reward")[rows]
    group_rows = by_reward(snapshot, rows)[:GROUP_ROLLOUTS]
    members = _values(snapshot.rollouts, group_rows)
    about = _values(snapshot.tasks, np.array([number]), _TASK_FIELDS)[0]
    scored = rewards[~np.isnan(rewards)]
    prompt, expected = _question(snapshot, group_rows, str(about.get("prompt") or ""))
    return TaskGroup(
        task=name,
        prompt=prompt,
        expected=expected,
        members=[
            _member(snapshot, int(row), values)
            for row, values in zip(group_rows, members, strict=True)
        ],
        rollouts=len(rows),
        solved=int(np.sum(is_solved(scored))),
        scored=len(scored),
        mean=about.get("mean"),
        std=about.get("std"),
        pass_rate=about.get("pass_rate"),
        learnability=about.get("learnability"),
        answers=_answers(_values(snapshot.rollouts, rows, _ANSWER_FIELDS)),
        difference=_first_difference(snapshot, group_rows, members, request.stop),
        previous=_neighbour(snapshot, number - 1),
        next=_neighbour(snapshot, number + 1),
        base=base_of(opened),
    )


def _values(
    table: RowTable, rows: IntArray, names_wanted: Sequence[str] = ()
) -> list[Mapping[str, Any]]:
    names = [name for name in names_wanted or (*_FIELDS, EXTRACTED_ANSWER) if name in table.fields]
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


def _question(snapshot: IndexSnapshot, rows: IntArray, beginning: str) -> tuple[str, str]:
    """Return the prompt of a task and the expected answer, both cut. When no row can be read, they
    are what the index has of the prompt, and nothing.
    """
    for row in rows[:1].tolist():
        try:
            talk = conversation_of(snapshot, row)
            prompts = [item for item in talk.items if item.section == "prompt"]
            texts = [text for item, text in talk.texts(prompts) if item.kind == "user"]
            expected = expected_of(talk)
        except PalestraError:
            return beginning, ""
        prompt = texts[-1][:PROMPT_CHARACTERS] if texts else beginning
        return prompt, expected
    return beginning, ""


def expected_of(talk: Transcript) -> str:
    """Return the expected answer that a row has, cut; empty without one."""
    return text_of(talk.small_fields(LONG_FIELDS).get(EXPECTED_ANSWER))[:EXPECTED_CHARACTERS]


def _answers(members: Sequence[Mapping[str, Any]]) -> list[AnswerCount]:
    """Count the answers: those that a verifier extracted, else the ends of the last messages."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for values in members:
        extracted = values.get(EXTRACTED_ANSWER)
        answer = extracted if extracted is not None else values.get("last_answer")
        if answer is not None:
            groups.setdefault(str(answer), []).append(values)
    counts = [_answer(answer, group) for answer, group in groups.items()]
    return sorted(counts, key=lambda count: -count.count)


def _answer(answer: str, members: Sequence[Mapping[str, Any]]) -> AnswerCount:
    return AnswerCount(
        answer=answer,
        count=len(members),
        mean_reward=_mean([m.get("reward") for m in members]),
        rollouts=[int(m["rollout"]) for m in members if m.get("rollout") is not None],
    )


def _first_difference(
    snapshot: IndexSnapshot, rows: IntArray, members: Sequence[Mapping[str, Any]], stop: ReadStop
) -> FirstDifference | None:
    """Return the first item of the output in which the rollouts differ; None when none does.
    Rollouts without an output, such as failed ones, are left out.
    """
    outputs: list[list[_OutputItem]] = []
    rewards: list[float | None] = []
    for row, values in zip(rows.tolist(), members, strict=True):
        stop.check()
        try:
            talk = conversation_of(snapshot, row)
            items = [item for item in talk.items if item.section == "output"][:COMPARED_ITEMS]
            if items:
                outputs.append(list(zip(items, talk.details(items), strict=True)))
                rewards.append(values.get("reward"))
        except PalestraError:
            continue
    longest = max(map(len, outputs), default=0)
    for at in range(longest):
        items_there = [items[at] if at < len(items) else None for items in outputs]
        if len({_content(item) for item in items_there}) > 1:
            return FirstDifference(item=at, variants=_variants(items_there, rewards))
    return None


_OutputItem = tuple[ConversationItem, SplitItem]


def _content(output_item: _OutputItem | None) -> tuple[object, ...]:
    if output_item is None:
        return ()
    item, detail = output_item
    return (item.kind, item.name, *((part.size, part.head) for part in detail.texts))


def _variants(
    items: Sequence[_OutputItem | None], rewards: Sequence[float | None]
) -> list[Variant]:
    names = [_variant_name(item) for item in items]
    if len(set(names)) == 1:
        names = [_variant_name(item, with_text=True) for item in items]
    groups: dict[str, list[float | None]] = {}
    for name, reward in zip(names, rewards, strict=True):
        groups.setdefault(name, []).append(reward)
    most_common = sorted(groups.items(), key=lambda group: -len(group[1]))[:MOST_VARIANTS]
    return [
        Variant(name=name, count=len(group), mean_reward=_mean(group))
        for name, group in most_common
    ]


def _mean(rewards: Sequence[float | None]) -> float | None:
    """Return the mean of the rewards that are there; None without any."""
    present = [reward for reward in rewards if reward is not None]
    return float(np.mean(present)) if present else None


def _variant_name(item: _OutputItem | None, *, with_text: bool = False) -> str:
    if item is None:
        return "nothing"
    kind = f"{item[0].kind} {item[0].name}".strip()
    text = " ".join(part.head for part in item[1].texts)[:VARIANT_CHARACTERS] if with_text else ""
    return f"{kind}: {text}" if text else kind

"""Where the reward comes from: components, the verifier's fields, judges, and their places in the
conversation.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from palestra.errors import InputDataError
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    JUDGE_EVALUATIONS,
    REWARD_COMPONENTS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    finite_reward,
)
from palestra.viewer.conversation import ConversationItem, Transcript, utf16
from palestra.viewer.index import RunPart, whole_text
from palestra.viewer.pages.flights import why_unscored
from palestra.viewer.pages.runs import text_of
from palestra.viewer.replies.base import NamedText
from palestra.viewer.replies.evidence import (
    ComponentValue,
    EvidenceSpan,
    JudgeEvaluation,
    RewardPanel,
)
from palestra.viewer.replies.rollout import Mark
from palestra.viewer.requests import PageRequest, find_row

EVIDENCE: Final = "reward_evidence"
_NO_FIELDS: Final = frozenset(
    {TASK_INDEX, ROLLOUT_INDEX, CREATE_PARAMS, REWARD_COMPONENTS, "reward", "response", AGENT_REF}
    | {EVIDENCE, JUDGE_EVALUATIONS}
)
LONG_FIELDS: Final = frozenset({CREATE_PARAMS, "response"})
SHORTEST_MARK: Final = 3
"""A shorter text is looked for only as a whole word, of a field whose name ends with `answer`, and
marked where it stands last: anywhere else it means nothing."""
LONGEST_MARK: Final = 1_000
MOST_MARKS: Final = 200
MOST_SEARCHED_BYTES: Final = 1 << 21
MOST_SEARCHED_ITEMS: Final = 500
SHOWN_CHARACTERS: Final = 200
_VERDICTS: Final = ("verdict_label", "verdict", "judgement", "result", "reward", "score")
_QUESTIONS: Final = (CREATE_PARAMS, "question", "prompt", "request", "input")
_ANSWERS: Final = ("answer", "text", "response", "output")


def reward(request: PageRequest) -> RewardPanel:
    """Answer why a rollout has its reward."""
    run = request.run
    snapshot = run.snapshot
    row = find_row(snapshot, request)
    if snapshot.place(row, RunPart.RESULT) is None:
        return RewardPanel(
            reward=None,
            components=[],
            fields=[],
            evaluations=[],
            notes=[],
            absent=f"The rollout has no reward: {why_unscored(request, snapshot, row)}.",
        )
    talk = run.conversations.of(snapshot, row)
    fields = talk.small_fields(LONG_FIELDS)
    evidence, notes = _evidence(fields.get(EVIDENCE), talk)
    return RewardPanel(
        reward=finite_reward(fields.get("reward")),
        components=list(_components(fields.get(REWARD_COMPONENTS), evidence)),
        fields=[
            NamedText(name=name, value=text_of(value))
            for name, value in fields.items()
            if name not in _NO_FIELDS
        ],
        evaluations=[_evaluation(entry) for entry in _list(fields.get(JUDGE_EVALUATIONS))],
        notes=notes,
        absent="",
    )


def _components(
    values: Any, evidence: Mapping[str, list[EvidenceSpan]]
) -> Iterator[ComponentValue]:
    components = values if isinstance(values, dict) else {}
    for name in dict.fromkeys([*components, *evidence]):
        yield ComponentValue(
            name=str(name),
            value=finite_reward(components.get(name)),
            evidence=evidence.get(name, []),
        )


def _evidence(declared: Any, talk: Transcript) -> tuple[dict[str, list[EvidenceSpan]], list[str]]:
    """Return the evidence by component, and a note for each piece that points nowhere."""
    evidence: dict[str, list[EvidenceSpan]] = {}
    notes: list[str] = []
    for component, spans in (declared if isinstance(declared, dict) else {}).items():
        for span in _list(spans):
            piece = _piece(span, talk)
            if piece is None:
                notes.append(f"{component}: the evidence {text_of(span)[:80]} points nowhere")
            else:
                evidence.setdefault(str(component), []).append(piece)
    return evidence, notes


def _piece(span: Any, talk: Transcript) -> EvidenceSpan | None:
    values = span if isinstance(span, dict) else {}
    number, start, end = values.get("item"), values.get("start"), values.get("end")
    if not (isinstance(number, int) and isinstance(start, int) and isinstance(end, int)):
        return None
    item = talk.output(number)
    if item is None:
        return None
    [(_, text)] = talk.texts([item])
    if not 0 <= start < end <= len(text):
        return None
    return EvidenceSpan(
        at=item.position,
        start=utf16(text[:start]),
        end=utf16(text[:end]),
        text=text[start:end][:SHOWN_CHARACTERS],
    )


def _evaluation(entry: Any) -> JudgeEvaluation:
    fields = entry if isinstance(entry, dict) else {"verdict": entry}
    return JudgeEvaluation(
        question=_first(fields, _QUESTIONS),
        answer=_first(fields, _ANSWERS),
        verdict=_first(fields, _VERDICTS),
        fields=[
            NamedText(name=name, value=text_of(value))
            for name, value in fields.items()
            if name not in {*_QUESTIONS, *_ANSWERS, *_VERDICTS}
        ],
    )


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((_talk_text(fields[name]) for name in names if fields.get(name) is not None), "")


def _talk_text(value: Any) -> str:
    """Return the text of one side of a request: of each message its text, instructions first."""
    if isinstance(value, dict) and ("input" in value or "instructions" in value):
        sides = (value.get("instructions"), value.get("input"))
        return "\n\n".join(filter(None, (_talk_text(side) for side in sides if side is not None)))
    if isinstance(value, dict) and isinstance(value.get("output"), list):
        return _talk_text(value["output"])
    if isinstance(value, list):
        return "\n\n".join(filter(None, map(_item_text, value)))
    return _item_text(value)


def _item_text(value: Any) -> str:
    return whole_text(msgspec.Raw(json.dumps(value, ensure_ascii=False).encode(errors="replace")))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def marks_by_item(talk: Transcript) -> dict[int, list[Mark]]:
    """Return the marks of each item: pieces that earned a component, and texts of the verifier's
    fields. Empty when the row cannot be read, which other parts of the page say.
    """
    if talk.source != "scored":
        return {}
    try:
        fields = talk.small_fields(LONG_FIELDS)
        evidence, _ = _evidence(fields.get(EVIDENCE), talk)
    except InputDataError:
        return {}
    marks: dict[int, list[Mark]] = {}
    for component, pieces in evidence.items():
        for piece in pieces:
            mark = Mark(start=piece.start, end=piece.end, kind="earned by", field=component)
            marks.setdefault(piece.at, []).append(mark)
    _add_quoted(marks, fields, talk)
    return marks


def _add_quoted(marks: dict[int, list[Mark]], fields: Mapping[str, Any], talk: Transcript) -> None:
    quotable = {
        name: value
        for name, value in fields.items()
        if name not in _NO_FIELDS and isinstance(value, str)
        if SHORTEST_MARK <= len(value.strip()) <= LONGEST_MARK
    }
    short_answers = _short_answers(fields)
    room, marks_left = MOST_SEARCHED_BYTES, MOST_MARKS
    outputs = []
    last_items = [i for i in talk.items if i.section == "output"][-MOST_SEARCHED_ITEMS:]
    chosen = last_items[::-1] if quotable or short_answers else []
    for item in chosen:
        room -= item.size
        if room < 0:
            break
        outputs.append(item)

    def add(item: ConversationItem, name: str, text: str, at: int, value: str) -> None:
        start = utf16(text[:at])
        mark = Mark(start=start, end=start + utf16(value), kind="found here", field=name)
        marks.setdefault(item.position, []).append(mark)

    for item, text in talk.texts(outputs):
        for name, value in quotable.items():
            at = text.find(value)
            if at >= 0 and marks_left > 0:
                marks_left -= 1
                add(item, name, text, at, value)
        for name, value in list(short_answers.items()):
            at = _last_word(text, value)
            if at >= 0:
                del short_answers[name]
                add(item, name, text, at, value)


def _short_answers(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the answers among the fields that are too short to be looked for as they are."""
    answers = {
        name: str(value).strip()
        for name, value in fields.items()
        if name.endswith("answer") and type(value) in {str, int, float}
    }
    return {name: text for name, text in answers.items() if 0 < len(text) < SHORTEST_MARK}


def _last_word(text: str, word: str) -> int:
    """Return where a word stands last in a text, not inside another word or number; else -1."""
    pattern = rf"(?<![\w.-]){re.escape(word)}(?!\w|[.,]\d)"
    return max((match.start() for match in re.finditer(pattern, text)), default=-1)

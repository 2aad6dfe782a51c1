"""Recorded judge answers in a stored row, so that the row can be verified again without the judge.

A verifier with a judge adds each exchange to its response, under `judge_evaluations`: the question
(`responses_create_params`) and the answer (`response`). They are stored with the row. A request to
verify such a row again contains `_ng_judge_replay: true`. Ordinary requests never contain it, so a
field of a task row cannot pass as a judge's answer.

    replay = JudgeReplay.of(body)
    answer = replay.answer(params)      # None: not recorded, so call the judge
    # and without a judge: raise JudgeFailure, never a reward

Two questions are equal when their instructions and input are equal. A row from another tool or an
older version may word the question differently. For such rows, an exchange also matches when its
question quotes the same passages in the same order:

    replay.exchange(params, quoting=[(reference, candidate)])
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

import orjson
from pydantic import ValidationError

from palestra.schema.encoding import to_plain
from palestra.schema.items import INSTRUCTION_ROLES, WireModel
from palestra.schema.json_types import JsonObject
from palestra.schema.responses import Response, ResponseCreateParams
from palestra.schema.tokens import field_of

JUDGE_EVALUATIONS = "judge_evaluations"
JUDGE_REPLAY = "_ng_judge_replay"


@dataclass(frozen=True, slots=True)
class JudgeExchange:
    """A recorded question to the judge, with its answer.

    `held`: the exchange as stored in the row. `in_other_words`: whether the recorded question is
    worded differently.
    """

    answer: Response
    held: JsonObject
    in_other_words: bool = False


@final
class JudgeReplay:
    """The recorded judge answers of one row. Each is used once, in recorded order."""

    def __init__(self, exchanges: Sequence[Any] = (), *, replays: bool = False) -> None:
        self._left = [exchange for exchange in exchanges if isinstance(exchange, Mapping)]
        self.replays = replays
        """Whether the request asks for recorded answers, of which there may be none."""

    @classmethod
    def of(cls, body: WireModel) -> Self:
        """Return the recorded answers in a verify request; none unless the request asks for a
        replay.
        """
        if getattr(body, JUDGE_REPLAY, None) is not True:
            return cls()
        evaluations = to_plain(getattr(body, JUDGE_EVALUATIONS, None))
        return cls(evaluations if isinstance(evaluations, list) else (), replays=True)

    @property
    def left(self) -> int:
        """The number of recorded answers that are not used yet."""
        return len(self._left)

    def answer(self, params: ResponseCreateParams) -> Response | None:
        """Return the recorded answer to this question; None when the row has none."""
        exchange = self.exchange(params)
        return None if exchange is None else exchange.answer

    def exchange(
        self, params: ResponseCreateParams, *, quoting: Sequence[Sequence[str]] = ()
    ) -> JudgeExchange | None:
        """Return the recorded exchange with this question, else the first one that quotes the same
        passages.

        `quoting`: the passages in order. Several alternatives are possible, when the passages may
        have been extracted from the answer in different ways.
        """
        question = question_key(to_plain(params))
        same = self._take(lambda recorded: question_key(recorded) == question)
        if same is not None:
            return same
        alike = self._take(lambda recorded: any(_quotes(recorded, cut) for cut in quoting))
        return None if alike is None else replace(alike, in_other_words=True)

    def _take(self, accepts: Callable[[Any], bool]) -> JudgeExchange | None:
        for number, exchange in enumerate(self._left):
            if accepts(exchange.get("responses_create_params")):
                try:
                    answer = Response.model_validate(exchange.get("response"))
                except ValidationError:
                    continue
                del self._left[number]
                return JudgeExchange(answer, exchange)
        return None


def question_key(params: Any) -> bytes:
    """Return what plain request parameters ask, as JSON: the same for other sampling parameters, and
    for the messages of Chat Completions as for the same `input`.
    """
    fields = params if isinstance(params, Mapping) else {}
    question = [
        fields.get("instructions"),
        plain_input(fields.get("input", fields.get("messages"))),
    ]
    return orjson.dumps(question, option=orjson.OPT_SORT_KEYS)


def _quotes(params: Any, passages: Sequence[str]) -> bool:
    """Whether a recorded question contains all passages, one after another."""
    fields = params if isinstance(params, Mapping) else {}
    items = plain_input(fields.get("input"))
    messages = items if isinstance(items, list) else []
    texts = [item.get("content") for item in messages if isinstance(item, Mapping)]
    question = "\n".join(text for text in texts if isinstance(text, str))
    start = 0
    for passage in passages:
        position = question.find(passage, start)
        if position < 0:
            return False
        start = position + len(passage)
    return bool(passages)


def plain_input(value: Any) -> Any:
    """Return an `input` in a normalized form, so that equal conversations compare equal.

    A string becomes a user message, a list of text parts becomes one string, and null fields are
    removed.
    """
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return [_plain_item(item) for item in value] if isinstance(value, list) else value


def question_text(params: Any) -> str:
    """Return what a request to a judge asks, as text: its messages without those of the system."""
    items = plain_input(to_plain(field_of(params, "input")))
    messages = [item for item in items or () if isinstance(item, Mapping)]
    texts = (m.get("content") for m in messages if m.get("role") not in INSTRUCTION_ROLES)
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _plain_item(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return item
    present = {key: value for key, value in item.items() if value is not None}
    if present.get("type") == "message":
        del present["type"]
    parts = present.get("content")
    if isinstance(parts, list) and all(_is_text(part) for part in parts):
        present["content"] = "".join(part["text"] for part in parts)
    return present


def _is_text(part: Any) -> bool:
    return (
        isinstance(part, Mapping)
        and part.get("type") in {"input_text", "output_text"}
        and isinstance(part.get("text"), str)
    )

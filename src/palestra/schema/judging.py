"""Judge answers that a stored row holds, so that it can be verified again without the judge.

A verifier that asks a judge keeps each exchange in what it reports, under `judge_evaluations`:
what was asked (`responses_create_params`) and what came back (`response`). The row is then
stored with them. A request to verify such a row again says `_ng_judge_replay: true`; an ordinary
one never does, so nothing in a task's row can pass for a verdict.

    replay = JudgeReplay.of(body)
    answer = replay.answer(params)      # None: not asked before, so ask the judge
    # and without a judge: raise JudgeFailure, never a reward

Asked is asked: a question counts as the same when its instructions and its input are. A row of
another tool, or of an older version, asked the same in other words. There an exchange counts
whose question quotes the same passages in the same order, whatever stands around them:

    replay.exchange(params, quoting=[(reference, candidate)])
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

import orjson
from pydantic import ValidationError

from palestra.schema.encoding import to_plain
from palestra.schema.items import WireModel
from palestra.schema.json_types import JsonObject
from palestra.schema.responses import Response, ResponseCreateParams

JUDGE_EVALUATIONS = "judge_evaluations"
JUDGE_REPLAY = "_ng_judge_replay"


@dataclass(frozen=True, slots=True)
class JudgeExchange:
    """A question that was put to the judge, with its answer.

    `held`: as the row has it. `in_other_words`: it was not this question, letter for letter.
    """

    answer: Response
    held: JsonObject
    in_other_words: bool = False


@final
class JudgeReplay:
    """The recorded answers of one row, each given once, in the order they were recorded."""

    def __init__(self, exchanges: Sequence[Any] = (), *, replays: bool = False) -> None:
        self._left = [exchange for exchange in exchanges if isinstance(exchange, Mapping)]
        self.replays = replays
        """Whether the request asks for recorded answers, of which there may be none."""

    @classmethod
    def of(cls, body: WireModel) -> Self:
        """What a verify request lets its verifier replay: nothing unless it says so."""
        if getattr(body, JUDGE_REPLAY, None) is not True:
            return cls()
        evaluations = to_plain(getattr(body, JUDGE_EVALUATIONS, None))
        return cls(evaluations if isinstance(evaluations, list) else (), replays=True)

    @property
    def left(self) -> int:
        """How many recorded answers have not been given yet."""
        return len(self._left)

    def answer(self, params: ResponseCreateParams) -> Response | None:
        """What the judge answered to this question; None when the row does not tell."""
        exchange = self.exchange(params)
        return None if exchange is None else exchange.answer

    def exchange(
        self, params: ResponseCreateParams, *, quoting: Sequence[Sequence[str]] = ()
    ) -> JudgeExchange | None:
        """The recorded exchange of this question, else the first that quotes the same passages.

        `quoting`: the passages in their order; several times where they may have been cut out of
        the answer in several ways.
        """
        question = _question(to_plain(params))
        same = self._take(lambda recorded: _question(recorded) == question)
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


def _question(params: Any) -> bytes:
    fields = params if isinstance(params, Mapping) else {}
    question = [fields.get("instructions"), plain_input(fields.get("input"))]
    return orjson.dumps(question, option=orjson.OPT_SORT_KEYS)


def _quotes(params: Any, passages: Sequence[str]) -> bool:
    """Whether a recorded question holds all the passages, one after the other."""
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
    """An `input` in one spelling, so that equal conversations are equal.

    A text is a user's message, parts of nothing but text are their text, and what is left out
    or null means the same.
    """
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return [_plain_item(item) for item in value] if isinstance(value, list) else value


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

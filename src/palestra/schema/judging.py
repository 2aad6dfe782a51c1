"""Judge answers that a stored row holds, so that it can be verified again without the judge.

A verifier that asks a judge keeps each exchange in what it reports, under `judge_evaluations`:
what was asked (`responses_create_params`) and what came back (`response`). The row is then
stored with them. A request to verify such a row again says `_ng_judge_replay: true`; an ordinary
one never does, so nothing in a task's row can pass for a verdict.

    replay = JudgeReplay.of(body)
    answer = replay.answer(params)      # None: not asked before, so ask the judge
    # and without a judge: raise JudgeFailure, never a reward

Asked is asked: a question counts as the same when its instructions and its input are.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self, final

import orjson
from pydantic import ValidationError

from palestra.schema.encoding import to_plain
from palestra.schema.items import WireModel
from palestra.schema.responses import Response, ResponseCreateParams

JUDGE_EVALUATIONS = "judge_evaluations"
JUDGE_REPLAY = "_ng_judge_replay"


@final
class JudgeReplay:
    """The recorded answers of one row, each given once, in the order they were recorded."""

    def __init__(self, exchanges: Sequence[Any] = ()) -> None:
        self._left = [exchange for exchange in exchanges if isinstance(exchange, Mapping)]

    @classmethod
    def of(cls, body: WireModel) -> Self:
        """What a verify request lets its verifier replay: nothing unless it says so."""
        if getattr(body, JUDGE_REPLAY, None) is not True:
            return cls()
        held = to_plain(getattr(body, JUDGE_EVALUATIONS, None))
        return cls(held if isinstance(held, list) else ())

    def answer(self, params: ResponseCreateParams) -> Response | None:
        """What the judge answered to this question; None when the row does not tell."""
        wanted = _question(to_plain(params))
        for number, exchange in enumerate(self._left):
            if _question(exchange.get("responses_create_params")) == wanted:
                try:
                    found = Response.model_validate(exchange.get("response"))
                except ValidationError:
                    continue
                del self._left[number]
                return found
        return None


def _question(params: Any) -> bytes:
    held = params if isinstance(params, Mapping) else {}
    asked = [held.get("instructions"), plain_input(held.get("input"))]
    return orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)


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
    kept = {key: value for key, value in item.items() if value is not None}
    if kept.get("type") == "message":
        del kept["type"]
    parts = kept.get("content")
    if isinstance(parts, list) and all(_is_text(part) for part in parts):
        kept["content"] = "".join(part["text"] for part in parts)
    return kept


def _is_text(part: Any) -> bool:
    return (
        isinstance(part, Mapping)
        and part.get("type") in {"input_text", "output_text"}
        and isinstance(part.get("text"), str)
    )

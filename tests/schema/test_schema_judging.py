"""A judge's recorded answers: replayed to the same question, and only when the request says so."""

from typing import Any

import pytest

from palestra.schema import JudgeReplay, ResponseCreateParams, VerifyRequest

QUESTION = {"input": [{"role": "user", "content": "Is it right?"}]}


def answer(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "id": "m", "role": "assistant", "content": content}
    return {"id": text, "created_at": 0, "model": "judge", "output": [item]}


def replay(*exchanges: Any, **fields: Any) -> JudgeReplay:
    row = {
        "responses_create_params": {"input": "?"},
        "response": answer("an answer"),
        "judge_evaluations": list(exchanges),
        "_ng_judge_replay": True,
    }
    return JudgeReplay.of(VerifyRequest.model_validate({**row, **fields}))


def exchange(verdict: str, **asked: Any) -> dict[str, Any]:
    return {"responses_create_params": {**QUESTION, **asked}, "response": answer(verdict)}


def ask(held: JudgeReplay, **asked: Any) -> str | None:
    found = held.answer(ResponseCreateParams.model_validate({**QUESTION, **asked}))
    return None if found is None else found.final_text


@pytest.mark.parametrize(
    "spelling",
    [
        "Is it right?",
        [{"role": "user", "content": "Is it right?", "type": "message", "id": None}],
        [{"role": "user", "content": [{"type": "input_text", "text": "Is it right?"}]}],
    ],
)
def test_the_same_question_in_another_spelling_has_the_same_answer(spelling: Any) -> None:
    assert ask(replay(exchange("RIGHT")), input=spelling) == "RIGHT"


@pytest.mark.parametrize("asked", [{"input": "Is it wrong?"}, {"instructions": "Be strict."}])
def test_another_question_has_no_recorded_answer(asked: dict[str, Any]) -> None:
    assert ask(replay(exchange("RIGHT")), **asked) is None


def test_a_question_asked_twice_gets_its_answers_in_order_and_each_once() -> None:
    held = replay(exchange("first"), exchange("second"))

    assert [ask(held), ask(held), ask(held)] == ["first", "second", None]


@pytest.mark.parametrize("flag", [None, False, "true", 1])
def test_an_ordinary_request_replays_nothing(flag: Any) -> None:
    assert ask(replay(exchange("RIGHT"), _ng_judge_replay=flag)) is None


@pytest.mark.parametrize("held", [None, "text", [None], [{"responses_create_params": QUESTION}]])
def test_what_is_no_exchange_is_no_answer(held: Any) -> None:
    assert ask(replay(judge_evaluations=held)) is None

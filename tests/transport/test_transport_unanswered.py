"""Which failed questions to models still count when the code that asked them returns."""

from typing import Any

import pytest

from palestra.config import ServerType
from palestra.errors import JudgeFailure, ModelError, PromptTooLong
from palestra.transport import Target, asking, note_unanswered, noting_questions

ASKED = {"input": [{"role": "user", "content": "same?"}], "temperature": 0.0}
MODEL = Target("judge", ServerType.MODEL)
ENVIRONMENT = Target("math", ServerType.RESOURCES)
RESULT = {"reward": 0.0}


def refused(target: Target, path: str, body: Any, error: Exception | None = None) -> None:
    """Make a call that fails with `error`, which is caught."""
    failure = error or ModelError("the endpoint is gone")
    try:
        with asking(target, path, body):
            raise failure
    except type(failure):
        pass


def test_a_failed_question_is_raised_with_the_code_that_went_on() -> None:
    with noting_questions("math/verify") as questions:
        refused(MODEL, "/v1/responses", ASKED)

    with pytest.raises(ModelError, match=r"gone; math/verify went on without this answer$"):
        questions.refuse(RESULT)


def test_the_number_of_further_failed_questions_is_in_the_message() -> None:
    with noting_questions("math/verify") as questions:
        refused(MODEL, "/v1/responses", ASKED)
        refused(MODEL, "/v1/responses", {"input": "polite?"})

    with pytest.raises(ModelError, match=r"without this answer and 1 more$"):
        questions.refuse(RESULT)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {**ASKED, "temperature": 1.0}),
        ("/v1/chat/completions", {"messages": ASKED["input"]}),
        ("/v1/responses", b'{"input": [{"role": "user", "content": "same?"}]}'),
    ],
    ids=["other sampling", "another dialect", "as JSON"],
)
def test_a_later_answer_to_the_same_question_settles_it(path: str, body: Any) -> None:
    with noting_questions("math/verify") as questions:
        refused(MODEL, "/v1/responses", ASKED)
        with asking(MODEL, path, body):
            pass

    questions.refuse(RESULT)


def test_an_earlier_answer_to_the_same_question_does_not_settle_it() -> None:
    with noting_questions("math/verify") as questions:
        with asking(MODEL, "/v1/responses", ASKED):
            pass
        refused(MODEL, "/v1/responses", ASKED)

    with pytest.raises(ModelError):
        questions.refuse(RESULT)


def test_a_shorter_prompt_settles_one_that_was_too_long() -> None:
    with noting_questions("math/verify") as questions:
        refused(MODEL, "/v1/responses", ASKED, PromptTooLong("too long"))
        with asking(MODEL, "/v1/responses", {"input": "shorter"}):
            pass

    questions.refuse(RESULT)


def test_a_failed_call_that_asks_no_model_does_not_count() -> None:
    with noting_questions("math/verify") as questions:
        refused(MODEL, "/tokenize", {"prompt": "q"})
        refused(ENVIRONMENT, "/look_up", {"word": "q"})

    questions.refuse(RESULT)


def test_the_judge_failure_of_another_environment_counts() -> None:
    with noting_questions("math/verify") as questions:
        refused(ENVIRONMENT, "/verify", {"response": {}}, JudgeFailure("no verdict"))

    with pytest.raises(JudgeFailure):
        questions.refuse(RESULT)


def test_what_the_called_server_asks_itself_does_not_count() -> None:
    with noting_questions("math/verify") as questions, asking(MODEL, "/v1/responses", ASKED):
        refused(MODEL, "/v1/responses", {"input": "within"})

    questions.refuse(RESULT)


def test_outside_of_a_verification_nothing_is_kept() -> None:
    with asking(MODEL, "/v1/responses", ASKED) as question:
        assert not question.is_kept
    note_unanswered(ASKED, ModelError("gone"))

    with noting_questions("math/verify") as questions:
        pass
    questions.refuse(RESULT)


def test_the_answer_of_a_tool_settles_no_prompt_that_was_too_long() -> None:
    with noting_questions("math/verify") as questions:
        refused(MODEL, "/v1/responses", ASKED, PromptTooLong("too long"))
        with asking(ENVIRONMENT, "/look_up", {"word": "q"}):
            pass

    with pytest.raises(PromptTooLong):
        questions.refuse(RESULT)


@pytest.mark.parametrize("path", ["/verify", "/look_up"])
def test_another_answer_settles_no_judge_failure_of_an_environment(path: str) -> None:
    with noting_questions("math/verify") as questions:
        refused(ENVIRONMENT, "/verify", {"response": {"id": "1"}}, JudgeFailure("no verdict"))
        with asking(ENVIRONMENT, path, {"response": {"id": "2"}}):
            pass

    with pytest.raises(JudgeFailure):
        questions.refuse(RESULT)


def test_a_repeated_verification_that_succeeds_settles_the_judge_failure() -> None:
    body = {"response": {"id": "1"}}
    with noting_questions("math/verify") as questions:
        refused(ENVIRONMENT, "/verify", body, JudgeFailure("no verdict"))
        with asking(ENVIRONMENT, "/verify", body):
            pass

    questions.refuse(RESULT)


def test_what_a_task_asks_after_the_code_returned_is_not_kept() -> None:
    with noting_questions("math/verify") as questions:
        question = asking(MODEL, "/v1/responses", ASKED)

    with pytest.raises(ModelError), question:
        raise ModelError("gone")
    questions.refuse(RESULT)


def test_a_question_that_is_no_json_keeps_its_own_error() -> None:
    with noting_questions("math/verify") as questions:
        refused(MODEL, "/v1/responses", {"input": "\ud800"})

    with pytest.raises(ModelError):
        questions.refuse(RESULT)

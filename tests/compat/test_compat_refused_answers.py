"""The server whose error answer an author's code failed on."""

from palestra.compat.http import EndpointRefused
from palestra.compat.refused_answers import RefusedAnswers
from palestra.errors import VerifierError

OF_A_SERVER = VerifierError("shop/verify raised ZeroDivisionError")


class Unread:
    """An error that a server answered, and that nobody looked at."""

    is_examined = False

    def failure(self) -> VerifierError:
        return OF_A_SERVER


def test_an_error_is_of_the_server_whose_answer_nobody_looked_at() -> None:
    answers = RefusedAnswers("model/responses")
    answers.note("shop", Unread())

    assert answers.failure_behind(KeyError("reward")) is OF_A_SERVER


def test_a_refusal_of_a_model_endpoint_is_never_of_another_server() -> None:
    answers = RefusedAnswers("model/responses")
    answers.note("shop", Unread())

    refusal = EndpointRefused("http://endpoint/v1/responses", 400, b"{}", "tiny")

    assert answers.failure_behind(refusal) is None

"""`litellm_model`: Responses in front of a LiteLLM proxy."""

from pathlib import Path

from palestra.testing import model_response, scripted_endpoint

FOLDER = Path(__file__).parents[1]


def test_the_endpoints_answer_is_the_response() -> None:
    with scripted_endpoint("4") as endpoint:
        response = model_response(FOLDER, "2 + 2 = ?", *endpoint.policy)

    assert response.final_text == "4"
    assert [request.path for request in endpoint.asked] == ["/v1/chat/completions"]


def test_the_key_and_the_model_are_sent() -> None:
    with scripted_endpoint("4") as endpoint:
        model_response(FOLDER, "2 + 2 = ?", *endpoint.policy)

    (request,) = endpoint.asked
    assert request.headers["authorization"] == "Bearer sk-scripted"
    assert request.body["model"] == "scripted"

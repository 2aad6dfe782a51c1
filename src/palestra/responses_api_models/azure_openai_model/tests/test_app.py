"""`azure_openai_model`: Responses in front of a deployment."""

from pathlib import Path

from palestra.testing import model_response, scripted_endpoint

FOLDER = Path(__file__).parents[1]


def test_the_endpoints_answer_is_the_response() -> None:
    with scripted_endpoint("4") as endpoint:
        response = model_response(
            FOLDER, "2 + 2 = ?", *endpoint.policy, f"++policy_base_url={endpoint.url}"
        )

    assert response.final_text == "4"
    assert [request.path for request in endpoint.asked] == ["/openai/v1/chat/completions"]


def test_the_key_and_the_model_are_sent() -> None:
    with scripted_endpoint("4") as endpoint:
        model_response(FOLDER, "2 + 2 = ?", *endpoint.policy, f"++policy_base_url={endpoint.url}")

    (request,) = endpoint.asked
    assert request.headers["api-key"] == "sk-scripted"
    assert request.body["model"] == "scripted"

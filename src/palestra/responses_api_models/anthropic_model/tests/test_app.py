"""`anthropic_model`: Responses API requests and answers, as Messages of Anthropic."""

from palestra.responses_api_models.anthropic_model.request import to_messages_request
from palestra.responses_api_models.anthropic_model.response import response_from_message
from palestra.schema import ResponseCreateParams, encode_json

PARAMS = ResponseCreateParams(input="2 + 2 = ?", max_output_tokens=9)


def test_a_question_is_one_message_of_the_user() -> None:
    request = to_messages_request(PARAMS, model="m", max_tokens=100, extra_body={})

    assert (request["model"], request["max_tokens"]) == ("m", 9)
    assert [message["role"] for message in request["messages"]] == ["user"]


def test_a_message_is_the_response() -> None:
    content = [{"type": "text", "text": "4"}]
    message = encode_json({"content": content, "stop_reason": "end_turn"})

    response = response_from_message(message, PARAMS, model="m")

    assert (response.final_text, response.status) == ("4", "completed")

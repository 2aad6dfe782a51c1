import asyncio
from typing import Any

import orjson
import pytest
from endpoint_fakes import VLLM, ScriptedTransport, capture, fake_endpoint, reply, vllm_model
from pydantic import ValidationError

from palestra.errors import (
    ConfigError,
    CredentialsRejected,
    KnownCause,
    Layer,
    ModelError,
    Outcome,
    PromptTooLong,
    RowIdentity,
    from_body,
)
from palestra.responses_api_models import ChatModelConfig
from palestra.schema import ChatCompletion, ChatCreateParams, Response, ResponseCreateParams
from palestra.server import Session
from palestra.transport import CallContext, HttpClient, call_asgi, calling


def ask(
    http: ScriptedTransport, *, given: Any = "hi", session: str = "s", **settings: Any
) -> Response:
    server = vllm_model(http, **settings)
    params = ResponseCreateParams.model_validate({"input": given, "max_output_tokens": 24})
    return asyncio.run(server.responses(params, Session(session)))


def scripted(*names: str) -> ScriptedTransport:
    return ScriptedTransport([reply(*VLLM[name]) for name in names])


def test_a_response_is_a_chat_completion_of_the_endpoint() -> None:
    http = scripted("chat")

    found = ask(http, api_key="sk-1", extra_body={"top_k": 5})

    assert found.output_text == "I'm glad you're enjoying the service."
    assert http.requests[0]["url"] == "http://fake/v1/chat/completions"
    assert http.requests[0]["body"] == {
        "top_k": 5,
        "model": "smollm2",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 24,
    }


@pytest.mark.parametrize("name", ["chat_basic", "chat_tool_required", "chat_logprobs"])
def test_captured_completions_become_responses(name: str) -> None:
    answer = capture(name)

    found = ask(ScriptedTransport([reply(answer["status"], answer["body"])]))

    usage = answer["body"]["usage"]
    assert found.usage is not None
    assert found.usage.total_tokens == usage["total_tokens"]
    assert found.output


ASKED_AGAIN = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "hello"},
    {"role": "user", "content": "go on"},
]
"""As items and as messages."""


@pytest.mark.parametrize("name", ["prompt overflow", "max_tokens overflow"])
def test_a_context_that_filled_is_an_empty_truncated_response(name: str) -> None:
    found = ask(scripted(name), given=ASKED_AGAIN)

    assert found.output_text == ""
    assert found.incomplete_details is not None
    assert found.incomplete_details.reason == "max_output_tokens"
    assert found.incomplete_details.true_reason == "context_full"


def test_a_prompt_that_never_fitted_is_the_rows_fault_with_the_endpoints_numbers() -> None:
    with pytest.raises(PromptTooLong, match=r"the prompt has .* the model takes 2,048") as caught:
        ask(scripted("prompt overflow"))

    assert (caught.value.outcome, caught.value.layer) == (Outcome.DATA_ERROR, Layer.DATA)
    assert not caught.value.retriable
    assert caught.value.evidence.hops[-1].status == 400


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/messages"])
def test_a_prompt_that_never_fitted_is_the_callers_fault_on_every_front(path: str) -> None:
    server = vllm_model(scripted("prompt overflow"))
    asked = {"input": "hi", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
    body = orjson.dumps({name: asked[name] for name in _TAKES[path]})

    found = asyncio.run(call_asgi(server.asgi_app(), "POST", path, body=body))

    assert found.status == 400
    assert orjson.loads(found.body)["error"]["reason"] == "prompt_too_long"


def test_turns_that_the_row_brings_were_not_generated() -> None:
    with calling(CallContext(written_turns=1)), pytest.raises(PromptTooLong):
        ask(scripted("prompt overflow"), given=ASKED_AGAIN)


AFRESH = [{"role": "user", "content": "another conversation"}]
PREFILLED = [*ASKED_AGAIN[:1], {"role": "assistant", "content": "hello, and the model's own"}]


@pytest.mark.parametrize("later", [AFRESH, PREFILLED])
def test_a_context_that_fills_in_a_rollout_with_answers_filled_later(later: Any) -> None:
    server = vllm_model(scripted("chat", "prompt overflow"))

    async def turn(given: Any) -> Response:
        return await server.responses(
            ResponseCreateParams.model_validate({"input": given}), Session("s")
        )

    with calling(CallContext(RowIdentity(0, 0, run="r"), written_turns=1)):
        asyncio.run(turn("hi"))
        found = asyncio.run(turn(later))

    assert found.incomplete_details is not None
    assert found.incomplete_details.true_reason == "context_full"


def test_turns_that_an_agent_made_up_were_not_generated() -> None:
    with calling(CallContext(RowIdentity(0, 0, run="r"))), pytest.raises(PromptTooLong):
        ask(scripted("prompt overflow"), given=ASKED_AGAIN)


def test_a_judge_whose_prompt_does_not_fit_gives_no_answer_to_judge_by() -> None:
    with calling(CallContext(in_environment=True)), pytest.raises(PromptTooLong):
        ask(scripted("prompt overflow"), given=ASKED_AGAIN)


def test_a_judge_that_spent_its_room_on_thinking_gives_no_answer_to_judge_by() -> None:
    said = "Could not finish the message because max_tokens or model output limit was reached."
    http = ScriptedTransport([reply(400, {"error": {"message": said}})])

    with calling(CallContext(in_environment=True)), pytest.raises(ModelError, match="its limit"):
        ask(http)


def test_reasoning_that_left_no_room_for_an_answer_had_read_the_prompt() -> None:
    said = "Could not finish the message because max_tokens or model output limit was reached."

    found = ask(ScriptedTransport([reply(400, {"error": {"message": said}})]))

    assert found.incomplete_details is not None


@pytest.mark.parametrize("body", [b"<html>proxy</html>", b'{"choices":[{}]}', b"\xff", b""])
def test_a_success_that_is_no_completion_is_shown(body: bytes) -> None:
    with pytest.raises(ModelError, match="not a valid chat completion") as caught:
        ask(ScriptedTransport([reply(200, body)]))

    assert caught.value.evidence.hops[0].status == 200


def test_a_session_stays_on_its_endpoint_and_sessions_spread() -> None:
    server = vllm_model(scripted(), base_url=["http://a/v1/", "http://b/v1"])

    chosen = [server.base_url_for(f"session-{i}") for i in range(50)]

    assert chosen == [server.base_url_for(f"session-{i}") for i in range(50)]
    assert set(chosen) == {"http://a/v1", "http://b/v1"}


def test_a_chat_completion_passes_with_the_configured_model_and_extras() -> None:
    http = scripted("chat")
    settings = {
        "extra_body": {"top_k": 5},
        "chat_template_kwargs": {"enable_thinking": False},
        "replace_developer_role_with_system": True,
        "sampling_overrides": {"temperature": 0.0},
    }
    params = ChatCreateParams.model_validate(
        {
            "model": "other",
            "messages": [{"role": "developer", "content": "d"}],
            "seed": 1,
            "temperature": 1.0,
        }
    )

    found = asyncio.run(vllm_model(http, **settings).chat_completions(params, Session("s")))

    assert found.choices[0].message.content == "I'm glad you're enjoying the service."
    assert http.requests[0]["body"] == {
        "top_k": 5,
        "messages": [{"role": "system", "content": "d"}],
        "seed": 1,
        "temperature": 0.0,
        "model": "smollm2",
        "chat_template_kwargs": {"enable_thinking": False},
    }


@pytest.mark.parametrize("fields", [{"stream": True}, {"model": "other"}])
def test_sampling_overrides_change_neither_the_model_nor_the_form_of_the_answer(
    fields: dict[str, Any],
) -> None:
    with pytest.raises(ConfigError, match="sampling_overrides"):
        vllm_model(scripted(), sampling_overrides=fields)


def test_a_failure_that_came_as_a_success_is_a_failure() -> None:
    body = {"error": {"code": 429, "message": "Rate limit exceeded: free-models-per-min."}}

    with pytest.raises(ModelError, match="answered 429: Rate limit exceeded"):
        ask(ScriptedTransport([reply(200, body)]))


def test_a_context_that_filled_is_an_empty_truncated_completion_in_the_endpoints_words() -> None:
    server = vllm_model(scripted("prompt overflow"))
    params = ChatCreateParams.model_validate({"messages": ASKED_AGAIN})

    [choice] = asyncio.run(server.chat_completions(params, Session("s"))).choices

    assert (choice.message.content, choice.finish_reason) == ("", "length")
    assert choice.model_extra is not None
    assert "maximum context length" in choice.model_extra["provider_message"]


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/messages"])
def test_a_tool_schema_that_is_refused_is_the_callers_fault_on_every_front(path: str) -> None:
    said = "Invalid JSON schema: 'object' is not a type of f"
    server = vllm_model(ScriptedTransport([reply(400, {"error": {"message": said}})]))
    asked = {"input": "hi", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
    body = orjson.dumps({name: asked[name] for name in _TAKES[path]})

    answer = asyncio.run(call_asgi(server.asgi_app(), "POST", path, body=body))

    told = orjson.loads(answer.body)["error"]
    assert answer.status == 400
    assert said in told["message"]
    assert not told["retriable"]


_TAKES = {
    "/v1/responses": ("input",),
    "/v1/chat/completions": ("messages",),
    "/v1/messages": ("messages", "max_tokens"),
}


def test_an_overflow_that_came_as_a_success_is_an_overflow() -> None:
    _, body = VLLM["prompt overflow"]

    found = ask(ScriptedTransport([reply(200, body)]), given=ASKED_AGAIN)

    assert found.incomplete_details is not None


CHAT: dict[str, Any] = VLLM["chat"][1]


def ended(reason: str, **more: Any) -> dict[str, Any]:
    return {**CHAT, "choices": [{**CHAT["choices"][0], "finish_reason": reason, **more}]}


def complete(body: dict[str, Any], **settings: Any) -> ChatCompletion:
    """What `/v1/chat/completions` answers when the endpoint answers `body`."""
    server = vllm_model(ScriptedTransport([reply(200, body)]), **settings)
    params = ChatCreateParams.model_validate({"messages": [{"role": "user", "content": "hi"}]})
    return asyncio.run(server.chat_completions(params, Session("s")))


def respond(body: dict[str, Any]) -> Response:
    return ask(ScriptedTransport([reply(200, body)]))


FRONTS = pytest.mark.parametrize("front", [complete, respond])


@FRONTS
@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_answer_that_was_broken_off_is_a_failure(front: Any, reason: str) -> None:
    with pytest.raises(
        ModelError, match=f"stopped in the middle of its answer .*{reason}"
    ) as caught:
        front(ended(reason))

    assert caught.value.evidence.hops[0].status == 200


@FRONTS
def test_why_an_answer_was_broken_off_is_in_the_providers_words(front: Any) -> None:
    error = {"code": 502, "message": "the provider went away"}

    with pytest.raises(ModelError, match=r"'error'\): the provider went away"):
        front(ended("error", error=error))


@FRONTS
def test_an_answer_without_choices_is_shown(front: Any) -> None:
    with pytest.raises(
        ModelError, match=r"not a valid chat completion \(the answer has no choices.*chatcmpl-a5ae"
    ):
        front({**CHAT, "choices": []})


@FRONTS
@pytest.mark.parametrize("choices", [[], None, CHAT["choices"]])
def test_an_error_beside_choices_is_in_the_providers_words(front: Any, choices: Any) -> None:
    error = {"code": 503, "message": "No instances available"}

    with pytest.raises(ModelError, match="answered 503: No instances available"):
        front({**CHAT, "choices": choices, "error": error})


@FRONTS
def test_nulls_for_what_an_endpoint_does_not_know_are_no_failure(front: Any) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": None, "total_tokens": None}

    found = front({**CHAT, "id": None, "created": None, "model": None, "usage": usage})

    assert found.id
    assert found.created if isinstance(found, ChatCompletion) else found.created_at
    assert found.model == "smollm2"
    assert front({**CHAT, "usage": None}).usage is None


def test_token_ids_on_messages_do_not_go_to_the_endpoint() -> None:
    http = scripted("chat")
    said = {
        "role": "assistant",
        "content": "a",
        "prompt_token_ids": [1],
        "generation_token_ids": [2],
    }
    params = ChatCreateParams.model_validate({"messages": [said]})

    asyncio.run(vllm_model(http).chat_completions(params, Session("s")))

    assert http.requests[0]["body"]["messages"] == [{"role": "assistant", "content": "a"}]


def test_a_chat_completion_that_never_fitted_is_none() -> None:
    params = ChatCreateParams.model_validate({"messages": [{"role": "user", "content": "q"}]})
    server = vllm_model(scripted("prompt overflow"))

    with pytest.raises(PromptTooLong):
        asyncio.run(server.chat_completions(params, Session("s")))


def test_the_check_says_whether_the_model_is_served() -> None:
    assert "serves smollm2" in asyncio.run(vllm_model(scripted("models")).check())

    other = asyncio.run(vllm_model(scripted("models"), model="qwen").check())
    assert "does not list 'qwen'" in other
    assert "smollm2" in other


def test_the_check_suggests_the_nearest_model_that_is_served() -> None:
    text = asyncio.run(vllm_model(scripted("models"), model="smolml2").check())

    assert "did you mean smollm2" in text


def test_the_check_survives_an_endpoint_that_lists_nothing() -> None:
    assert "lists no models" in asyncio.run(vllm_model(scripted("wrong path")).check())


def test_the_check_reports_a_rejected_key() -> None:
    http = ScriptedTransport([reply(401, {"error": "Unauthorized"})])

    with pytest.raises(CredentialsRejected, match="Unauthorized"):
        asyncio.run(vllm_model(http).check())


def test_models_are_listed_as_the_endpoint_lists_them() -> None:
    assert asyncio.run(vllm_model(scripted("models")).list_models()) == ["smollm2"]


@pytest.mark.parametrize("setting", ["is_responses_native", "return_token_id_information"])
def test_what_is_not_there_is_refused_by_the_name_of_its_setting(setting: str) -> None:
    given = {"name": "m", "base_url": "http://fake/v1", "model": "smollm2", setting: True}

    with pytest.raises(ConfigError, match=setting) as refused:
        ChatModelConfig.model_validate(given)

    assert refused.value.cause is KnownCause.ENDPOINT_LACKS_SETTING


@pytest.mark.parametrize("base_url", ["", [], ["http://a/v1", ""]])
def test_a_base_url_must_be_given(base_url: Any) -> None:
    with pytest.raises(ValidationError, match="at least one URL"):
        vllm_model(scripted(), base_url=base_url)


@pytest.mark.parametrize("base_url", ["127.0.0.1:8000/v1", ["http://a/v1", "127.0.0.1:8000/v1"]])
def test_a_base_url_without_a_scheme_is_refused_with_one(base_url: Any) -> None:
    with pytest.raises(ValidationError, match=r"write http://127\.0\.0\.1:8000/v1"):
        vllm_model(scripted(), base_url=base_url)


def test_the_key_is_not_in_the_servers_text() -> None:
    assert "sk-a-secret" not in repr(vllm_model(scripted(), api_key="sk-a-secret"))


def test_a_refusal_keeps_class_and_evidence_over_http() -> None:
    async def run() -> Any:
        http = HttpClient()
        try:
            async with fake_endpoint(reply(*VLLM["bad grammar"])) as url:
                app = vllm_model(http, base_url=url).asgi_app()
                return await call_asgi(
                    app, "POST", "/v1/responses", body=orjson.dumps({"input": "hi"})
                )
        finally:
            await http.aclose()

    error = from_body(orjson.loads(asyncio.run(run()).body))

    assert error is not None
    assert error.outcome == "data_error"
    assert "Invalid grammar specification" in error.message
    assert error.evidence.hops[-1].status == 400


def test_a_stream_cannot_be_configured() -> None:
    with pytest.raises(ConfigError, match=r"extra_body\.stream"):
        vllm_model(scripted(), extra_body={"stream": True})

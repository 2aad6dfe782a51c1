from typing import Any

import orjson
import pytest
from endpoint_fakes import CAPTURES, LLAMA_CPP_OVERFLOW, VLLM, capture, reply, vllm_error

from palestra.errors import (
    CallError,
    CredentialsRejected,
    ModelError,
    ModelNotServed,
    ModelRejectedRow,
    Outcome,
    WrongSetting,
)
from palestra.responses_api_models.chat import (
    ContextOverflow,
    is_context_overflow,
    provider_sentence,
)
from palestra.responses_api_models.chat.provider_errors import classify

URL = "http://fake/v1/chat/completions"


def classified(status: int, body: Any) -> ContextOverflow | CallError:
    return classify(reply(status, body), server="policy_model", url=URL, model="smollm2")


@pytest.mark.parametrize("name", ["prompt overflow", "max_tokens overflow"])
def test_vllms_overflows_are_recognised(name: str) -> None:
    found = classified(*VLLM[name])

    assert isinstance(found, ContextOverflow)
    assert found.sentence == VLLM[name][1]["error"]["message"]


@pytest.mark.parametrize("name", ["prompt", "maxtokens", "responses"])
def test_captured_overflows_are_recognised(name: str) -> None:
    answer = capture(f"err_context_overflow_{name}")

    assert isinstance(classified(answer["status"], answer["body"]), ContextOverflow)


def test_llama_cpps_overflow_is_recognised() -> None:
    assert isinstance(classified(400, LLAMA_CPP_OVERFLOW), ContextOverflow)


VLLM_WORDINGS = [
    (
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 "
        "in the messages, 1000 in the completion). Please reduce the length of the messages or "
        "completion."
    ),
    (
        "This model's maximum context length is 4096 tokens. However, your request has 5000 input "
        "tokens. Please reduce the length of the input messages."
    ),
    (
        "This model's maximum context length is 4096 tokens. However, you requested 0 output tokens and "
        "your prompt contains at least 4097 input tokens, for a total of at least 4097 tokens. Please "
        "reduce the length of the input prompt or the number of requested output tokens."
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum context "
        "length is 4096 tokens and your request has 10 input tokens (9000 > 4096 - 10)."
    ),
    "max_tokens must be at least 1, got -512.",
    (
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure "
        "that `max_model_len` is no smaller than the number of text tokens."
    ),
    "The prompt (total length 5000) is too long to fit into the model (context length 4096).",
    (
        "You passed 2049 input tokens and requested 16 output tokens. However, the model's context "
        "length is only 2048 tokens, resulting in a maximum input length of 2032 tokens. Please reduce "
        "the length of the input prompt. (parameter=input_tokens, value=2049)"
    ),
    "The engine prompt length 2049 exceeds the max_model_len 2048. Please reduce prompt.",
    "Prompt length of 5000 is longer than the maximum model length of 4096.",
]
"""As vLLM 0.2 to 0.32 said it, where no capture has it; numbers shortened."""

OTHERS_WORDINGS = [
    ("The input (9000 tokens) is longer than the model's context length (8192 tokens).", ""),
    ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 and 500", ""),
    ("`inputs` must have less than 4095 tokens. Given: 5000", ""),
    ("prompt is too long: 210000 tokens > 200000 maximum", ""),
    ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", ""),
    ("Your input exceeds the context window of this model.", ""),
    ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", ""),
    ("The input token count (40000) exceeds the maximum number of tokens allowed (32768).", ""),
    ("litellm.ContextWindowExceededError: ...", ""),
    ("Input is too long for requested model.", ""),
    ("no words", "invalid_request_error context_length_exceeded"),
    # OpenAI.
    (
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in "
            "9000 tokens (8000 in the messages, 1000 in the functions). Please reduce the length of "
            "the messages or functions."
        ),
        "",
    ),
    (
        (
            "Could not finish the message because max_tokens or model output limit was reached. Please "
            "try again with higher max_tokens."
        ),
        "",
    ),
    # Together; Fireworks; OpenRouter; Mistral; SGLang; DeepSeek; xAI is above.
    ("`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 4000 `inputs` tokens", ""),
    ("Input token count + max_tokens must be less than model context length", ""),
    ("The prompt is too long: 140000, model maximum context length: 131071", ""),
    (
        (
            "This endpoint's maximum context length is 131072 tokens. However, you requested about "
            "140000 tokens (139000 of text input, 1000 in the output). Please reduce the length of "
            'either one, or use the "middle-out" transform to compress your prompt automatically.'
        ),
        "",
    ),
    (
        (
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
            "context length"
        ),
        "",
    ),
    (
        (
            "Requested token count exceeds the model's maximum context length of 8192 tokens. You "
            "requested a total of 9000 tokens: 8000 tokens from the input messages and 1000 tokens for "
            "the completion."
        ),
        "",
    ),
    ("Input length (1234 tokens) exceeds the maximum allowed length (1000 tokens).", ""),
    (
        (
            "This model's maximum context length is 65536 tokens. However, you requested 66000 tokens "
            "(60000 in the messages, 6000 in the completion)."
        ),
        "",
    ),
    # Groq, Cerebras; TensorRT-LLM; Qwen; Kimi; GitHub; older llama.cpp.
    ("Please reduce the length of the messages or completion.", ""),
    ("The sum of prompt length (900) and max_tokens (200) exceeds max_seq_len (1024)", ""),
    ("Range of input length should be [1, 30720]", ""),
    ("Invalid request: Your request exceeded model token limit: 8192", ""),
    ("Request body too large for gpt-4o model. Max size: 8000 tokens.", "413 tokens_limit_reached"),
    ("the request exceeds the available context size. try increasing the context size", ""),
]


@pytest.mark.parametrize("sentence", VLLM_WORDINGS)
def test_every_wording_of_vllms_overflow_is_recognised(sentence: str) -> None:
    assert isinstance(classified(400, vllm_error(sentence)), ContextOverflow)


def test_an_overflow_in_the_envelope_of_old_vllms_is_recognised() -> None:
    old = {"object": "error", "message": VLLM_WORDINGS[0], "type": "BadRequestError", "code": 400}

    assert isinstance(classified(400, old), ContextOverflow)


@pytest.mark.parametrize(("sentence", "code"), OTHERS_WORDINGS)
def test_other_servers_wordings_of_an_overflow_are_recognised(sentence: str, code: str) -> None:
    assert is_context_overflow(sentence, code)


@pytest.mark.parametrize(
    "sentence",
    [
        VLLM["max_tokens of a wrong type"][1]["error"]["message"],
        "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens'.",
        "1 validation error:\n {'input': 'what is a context length?'}",
        "temperature must be non-negative, got -1.0. (parameter=temperature, value=-1.0)",
    ],
)
def test_a_wrong_parameter_is_no_overflow(sentence: str) -> None:
    assert isinstance(classified(400, vllm_error(sentence)), ModelRejectedRow)


def test_a_grammar_that_does_not_compile_is_the_rows_fault_in_the_providers_words() -> None:
    found = classified(*VLLM["bad grammar"])

    assert isinstance(found, ModelRejectedRow)
    assert found.outcome is Outcome.DATA_ERROR
    assert "Invalid grammar specification: 'triggers'" in found.message
    assert "correct the tools of this row" in found.hint


@pytest.mark.parametrize(
    "sentence",
    [
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "Unexpected message role. developer",
        "System message must be at the beginning.",
    ],
)
def test_an_order_of_roles_that_the_template_cannot_render_names_the_setting(sentence: str) -> None:
    found = classified(400, vllm_error(sentence))

    assert isinstance(found, ModelRejectedRow)
    assert "replace_developer_role_with_system" in found.hint


def test_llama_cpps_500_about_a_tool_is_the_rows_fault() -> None:
    body = {"error": {"code": 500, "message": "Failed to parse tools: x", "type": "server_error"}}

    assert isinstance(classified(500, body), ModelRejectedRow)


@pytest.mark.parametrize(
    "sentence",
    [
        # Groq, three ways.
        (
            "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` "
            "is less than the `context_window` for this model"
        ),
        "`max_completion_tokens` must be less than or equal to `16384`",
        "max_tokens for `llama-3.1-8b-instant` must be less than or equal to 8000",
        # OpenAI.
        "max_tokens is too large: 100000. This model supports at most 4096 completion tokens.",
        (
            "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 16384, "
            "but got 100000 instead."
        ),
        # Anthropic.
        (
            "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for "
            "claude-sonnet-4"
        ),
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",  # DeepSeek
        "Range of max_tokens should be [1, 8192]",  # Qwen
        "Input validation error: `max_new_tokens` must be <= 192. Given: 200",  # TGI
        "Requests with max_tokens > 4096 must have stream=true",  # Fireworks
        (
            "Unable to submit request because it has a maxOutputTokens value of 100000 but the "
            "supported range is from 1 (inclusive) to 8193 (exclusive)."
        ),  # Gemini
        "The maximum tokens you requested exceeds the model limit of 4096.",  # Bedrock
    ],
)
def test_a_limit_of_every_answer_is_the_rows_fault_and_no_overflow(sentence: str) -> None:
    found = classified(400, vllm_error(sentence))

    assert isinstance(found, ModelRejectedRow)
    assert "lower max_output_tokens" in found.hint


@pytest.mark.parametrize(
    "sentence",
    [
        # OpenAI.
        (
            "Invalid schema for function 'set_model': In context=('properties', "
            "'context_length'), 'default' is not permitted."
        ),
        (
            "Invalid schema for function 'tune': 'the maximum context length is 8 tokens' is not "
            "of type 'object'."
        ),
        # Gemini.
        (
            'Invalid JSON payload received. Unknown name "context_window" at '
            "'tools[0].function_declarations[0].parameters.properties[0].value'"
        ),
        # Groq.
        (
            "invalid JSON schema for tool tune, tools[0].function.parameters: "
            "`/properties/context_window/type`: value must be one of 7 types"
        ),
        "Invalid grammar specification: property 'context size', at most 10",  # vLLM
        "tools.0.custom.input_schema: 'context limit': exceeds the depth of 5",  # Anthropic
        "Unrecognized request argument supplied: max_model_len",  # OpenAI
        "Extra inputs are not permitted: 'context_length', given 4096",  # Mistral
        "Unsupported parameter: context_window exceeds what is known",
    ],
)
def test_a_refused_schema_or_parameter_is_no_overflow_whatever_it_names(sentence: str) -> None:
    assert isinstance(classified(400, vllm_error(sentence)), ModelRejectedRow)


@pytest.mark.parametrize(
    "body",
    [
        [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}],
        {
            "code": "Client specified an invalid argument",
            "error": "Incorrect API key provided: xa**.",
        },
    ],
)
def test_a_key_may_be_rejected_as_a_bad_request(body: Any) -> None:
    assert isinstance(classified(400, body), CredentialsRejected)


def test_a_row_that_speaks_of_keys_is_a_row() -> None:
    said = "1 validation error: body.tools.0.description 'Incorrect API key provided'"

    assert isinstance(classified(400, {"error": {"message": said}}), ModelRejectedRow)


@pytest.mark.parametrize("status", [401, 402, 403])
def test_a_rejected_key_ends_the_run_in_the_providers_words(status: int) -> None:
    found = classified(status, {"error": {"message": "Incorrect API key provided"}})

    assert isinstance(found, CredentialsRejected)
    assert "Incorrect API key provided" in found.message


@pytest.mark.parametrize(
    ("sentence", "code"),
    [
        ('openai/o1 requires moderation on OpenRouter. Your input was flagged for "hate".', None),
        ("Your chosen model requires moderation and your input was flagged", 403),  # OpenRouter
        (
            (
                "Content violates usage guidelines. Team: 8e1, API key ID: a6b, Model: grok-4, Failed "
                "check: SAFETY_CHECK_TYPE_BIO"
            ),
            None,
        ),  # xAI
        ("Request failed content safety check.", None),  # Azure's gateway
        ("no words", "content_filter"),
    ],
)
def test_a_403_about_what_a_row_says_is_its_own_failure(sentence: str, code: str | None) -> None:
    found = classified(403, {"error": {"message": sentence, "code": code}})

    assert isinstance(found, ModelRejectedRow)
    assert sentence in found.message
    assert "not the key" in found.hint


@pytest.mark.parametrize(
    "sentence",
    [
        "Country, region, or territory not supported",  # OpenAI
        "Access denied. Please check your network settings.",  # Groq
        "Your account has been flagged for violating our usage policies.",
        "Your access was terminated due to violation of our content policy.",
        "Key limit exceeded (total limit). Manage it using https://openrouter.ai/settings/keys",
        "Public access is disabled. Please configure private endpoint.",  # Azure
        "<html>403 Forbidden</html>",
    ],
)
def test_a_403_about_whoever_asks_ends_the_run(sentence: str) -> None:
    assert isinstance(classified(403, {"error": {"message": sentence}}), CredentialsRejected)


def test_azures_content_filter_is_the_rows_own_failure() -> None:
    sentence = (
        "The response was filtered due to the prompt triggering Azure OpenAI's content management "
        "policy. Please modify your prompt and retry."
    )

    found = classified(400, {"error": {"message": sentence, "code": "content_filter"}})

    assert isinstance(found, ModelRejectedRow)
    assert "rejected the content of this row" in found.hint


def test_togethers_403_of_a_full_context_is_an_overflow() -> None:
    sentence = "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 and 512"

    assert isinstance(classified(403, {"error": {"message": sentence}}), ContextOverflow)


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (404, "No endpoints found that support tool use. To learn more about provider routing, …"),
        (404, "No endpoints found that support the provided 'tool_choice' value."),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'),
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (400, "`tool calling` is not supported with this model"),
    ],
)
def test_a_model_without_tools_ends_the_run_and_the_hint_names_them(
    status: int, sentence: str
) -> None:
    found = classified(status, vllm_error(sentence, code=status))

    assert isinstance(found, WrongSetting)
    assert sentence in found.message
    assert "rows with tools need a model that takes them" in found.hint


@pytest.mark.parametrize(
    ("sentence", "hint"),
    [("Not Found", "vllm_model"), ("The model `smollm2` does not exist.", "GET <base_url>/models")],
)
def test_an_endpoint_without_the_responses_api_is_told_from_one_without_the_model(
    sentence: str, hint: str
) -> None:
    answer = reply(404, {"error": {"message": sentence}})
    found = classify(answer, server="policy_model", url="http://fake/v1/responses", model="smollm2")

    assert isinstance(found, ModelNotServed)
    assert hint in found.hint


def test_an_endpoint_that_names_the_unknown_model_needs_another_name_only() -> None:
    answer = reply(404, {"error": {"message": "The model `smollm2` does not exist."}})

    error = classify(answer, server="policy_model", url="http://fake/v1/x", model="smollm2")

    assert isinstance(error, ModelNotServed)
    assert "/v1" not in error.hint
    assert "?" not in error.hint


def test_a_router_without_a_provider_says_what_may_be_changed() -> None:
    sentence = "No endpoints found that support image input"

    found = classified(404, {"error": {"message": sentence, "code": 404}})

    assert isinstance(found, ModelNotServed)
    assert "no provider for it" in found.hint


@pytest.mark.parametrize(
    "sentence", ["Response with id 'resp_1' not found.", "No such File object: file-1"]
)
def test_a_404_of_something_that_a_row_names_is_its_own_failure(sentence: str) -> None:
    assert isinstance(classified(404, vllm_error(sentence, code=404)), ModelRejectedRow)


@pytest.mark.parametrize(
    ("sentence", "code"),
    [
        ("Model Not Exist", "invalid_request_error"),  # DeepSeek
        ("foo/bar is not a valid model ID", "400"),  # OpenRouter
        ("Invalid model: mistral-huge", "1500"),  # Mistral
        ("/chat/completions: Invalid model name passed in model=x.", "400"),  # LiteLLM
        ("no words", "model_not_found"),
    ],
)
def test_a_400_about_the_models_name_ends_the_run(sentence: str, code: str) -> None:
    found = classified(400, {"error": {"message": sentence, "code": code}})

    assert isinstance(found, ModelNotServed)


def test_what_a_validation_error_quotes_of_a_row_ends_no_run() -> None:
    quoted = "1 validation error:\n {'input': 'my model does not support tools: model_not_found'}"

    assert isinstance(classified(400, vllm_error(quoted)), ModelRejectedRow)


def test_an_unknown_model_names_model_endpoint_and_what_is_served() -> None:
    found = classified(*VLLM["wrong model"])

    assert isinstance(found, ModelNotServed)
    assert not found.retriable
    for part in ("smollm2", URL, "Valid aliases: smollm2."):
        assert part in found.message


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (408, ModelError),
        (409, ModelRejectedRow),
        (418, ModelRejectedRow),
        (429, ModelError),
        (500, ModelError),
        (502, ModelError),
        (307, ModelError),
    ],
)
def test_the_status_decides_where_words_do_not(status: int, expected: type[CallError]) -> None:
    found = classified(status, b"teapot")

    assert type(found) is expected
    assert isinstance(found, CallError)
    assert found.status == status


def test_the_body_is_kept_word_for_word() -> None:
    status, body = VLLM["max_tokens of a wrong type"]

    found = classified(status, body)

    assert isinstance(found, CallError)
    (hop,) = found.evidence.hops
    assert (hop.server, hop.url, hop.status) == ("policy_model", URL, 400)
    assert orjson.loads(hop.body) == body


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"error":{"message":"a"}}', "a"),
        (b'{"error":"a"}', "a"),
        (b'{"message":"a"}', "a"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"detail":[{"loc":["body"],"msg":"a"}]}', "a"),
        (b'[{"error":{"code":400,"message":"a","status":"INVALID_ARGUMENT"}}]', "a"),
        (b'{"other":1}', '{"other":1}'),
        (b"<html>502</html>", "<html>502</html>"),
        (b"[1]", "[1]"),
        (b"", ""),
    ],
)
def test_the_providers_sentence_is_found(body: bytes, sentence: str) -> None:
    assert provider_sentence(body) == sentence


REFUSALS = sorted(path.stem for path in CAPTURES.glob("err_*.json") if "overflow" not in path.stem)


@pytest.mark.parametrize("name", REFUSALS)
def test_every_captured_refusal_keeps_its_body_word_for_word(name: str) -> None:
    answer = capture(name)

    found = classified(answer["status"], answer["body"])

    assert isinstance(found, ModelNotServed if answer["status"] == 404 else ModelRejectedRow)
    assert answer["body"]["error"]["message"] in found.message
    assert orjson.loads(found.evidence.hops[0].body) == answer["body"]

from typing import Any

import orjson
import pytest
from endpoint_fakes import CAPTURES, LLAMA_CPP_OVERFLOW, VLLM, capture, reply, vllm_error

from palestra.errors import (
    CallError,
    CredentialsRejected,
    FailureKind,
    ModelError,
    ModelNotServed,
    ModelRejectedRow,
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
        "max_tokens is too large: 100000. This model supports at most 4096 completion tokens.",
    ],
)
def test_a_wrong_parameter_is_no_overflow(sentence: str) -> None:
    assert isinstance(classified(400, vllm_error(sentence)), ModelRejectedRow)


def test_a_grammar_that_does_not_compile_is_the_rows_fault_in_the_providers_words() -> None:
    found = classified(*VLLM["bad grammar"])

    assert isinstance(found, ModelRejectedRow)
    assert found.kind is FailureKind.DATA
    assert "Invalid grammar specification: 'triggers'" in found.message
    assert "mend the tools of this row" in found.hint


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


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_key_ends_the_run_in_the_providers_words(status: int) -> None:
    found = classified(status, {"error": {"message": "Incorrect API key provided"}})

    assert isinstance(found, CredentialsRejected)
    assert "Incorrect API key provided" in found.message


def test_an_unknown_model_names_model_endpoint_and_what_is_served() -> None:
    found = classified(*VLLM["wrong model"])

    assert isinstance(found, ModelNotServed)
    assert not found.retriable
    assert found.kind is FailureKind.CONFIG
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

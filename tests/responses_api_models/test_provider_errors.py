from typing import Any

import orjson
import pytest
from endpoint_fakes import LLAMA_CPP_OVERFLOW, VLLM, capture, reply, vllm_error

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


@pytest.mark.parametrize(
    ("sentence", "code"),
    [
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", ""),
        ("max_tokens must be at least 1, got -512.", ""),
        ("'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's ...", ""),
        ("The input (9000 tokens) is longer than the model's context length (8192 tokens).", ""),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 and 500", ""),
        ("prompt is too long: 210000 tokens > 200000 maximum", ""),
        ("Your input exceeds the context window of this model.", ""),
        ("no words", "invalid_request_error context_length_exceeded"),
    ],
)
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
    assert found.kind is FailureKind.DATA
    assert "Invalid grammar specification: 'triggers'" in found.message
    assert "mend the tools of this row" in found.hint


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


def test_every_captured_refusal_keeps_its_sentence() -> None:
    capture("err_wrong_model")  # skips where there are none
    for name in ("err_bad_tool_noname", "err_temperature", "err_tool_choice_unknown"):
        answer = capture(name)

        found = classified(answer["status"], answer["body"])

        assert isinstance(found, ModelRejectedRow)
        assert answer["body"]["error"]["message"] in found.message

"""The types of `nemo_gym.openai_utils` have the fields of the field's own types, and their rules."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from palestra.compat.nemo_gym.openai_utils import (
    RATE_LIMIT_ERROR_CODES,
    REQUIRED_TOKEN_METADATA_FIELDS,
    RETRY_ERROR_CODES,
    TOKEN_METADATA_FIELDS,
    NeMoGymChatCompletionCreateParamsNonStreaming,
    NeMoGymChatCompletionMessage,
    NeMoGymChatCompletionMessageForTraining,
    NeMoGymChoice,
    NeMoGymFunctionCallOutput,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    NeMoGymResponseInputTokensDetails,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseOutputMessageForTraining,
    NeMoGymResponseOutputTokensDetails,
    NeMoGymResponseReasoningItem,
    NeMoGymResponseUsage,
    accumulate_response_usage,
    training_variant_of,
)

TOKENS = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}
PARTIAL = {"prompt_token_ids": [1]}
MESSAGE: dict[str, Any] = {"type": "message", "role": "assistant", "content": []}

ATOMIC = "Token metadata must include all required fields; missing: generation_log_probs"


def response(*output: dict[str, Any]) -> NeMoGymResponse:
    return NeMoGymResponse.model_validate(
        {"id": "r", "created_at": 0, "model": "m", "output": list(output)}
    )


def usage(cached: int | None, reasoning: int | None, tokens: int = 1) -> NeMoGymResponseUsage:
    return NeMoGymResponseUsage(
        input_tokens=tokens,
        input_tokens_details=NeMoGymResponseInputTokensDetails(cached_tokens=cached),
        output_tokens=tokens,
        output_tokens_details=NeMoGymResponseOutputTokensDetails(reasoning_tokens=reasoning),
        total_tokens=2 * tokens,
    )


def details(total: NeMoGymResponseUsage) -> tuple[int | None, int | None]:
    return (
        total.input_tokens_details.cached_tokens,
        total.output_tokens_details.reasoning_tokens,
    )


# Constants


def test_retry_error_codes_are_the_rate_limit_error_codes_and_500() -> None:
    assert RATE_LIMIT_ERROR_CODES == [429, 502, 503, 504, 520]
    assert [*RATE_LIMIT_ERROR_CODES, 500] == RETRY_ERROR_CODES


def test_token_metadata_fields_are_the_required_ones_and_routed_experts() -> None:
    assert frozenset(TOKENS) == REQUIRED_TOKEN_METADATA_FIELDS
    assert frozenset({*TOKENS, "routed_experts"}) == TOKEN_METADATA_FIELDS


# NeMoGymResponseReasoningItem


def test_reasoning_item_dumps_content_and_drops_status() -> None:
    fields = {"type": "reasoning", "id": "rs", "summary": [], "status": "completed"}

    (item,) = response(fields).output

    assert isinstance(item, NeMoGymResponseReasoningItem)
    assert item.model_dump() == {
        "type": "reasoning",
        "id": "rs",
        "summary": [],
        "encrypted_content": None,
        "content": None,
    }


def test_reasoning_item_keeps_its_content() -> None:
    content = [{"type": "reasoning_text", "text": "hm"}]

    (item,) = response({"type": "reasoning", "id": "rs", "summary": [], "content": content}).output

    assert item.content[0].text == "hm"


# NeMoGymResponseUsage


@pytest.mark.parametrize(
    "kind", [NeMoGymResponseInputTokensDetails, NeMoGymResponseOutputTokensDetails]
)
def test_usage_details_are_required_and_may_be_none(kind: type[BaseModel]) -> None:
    (name,) = kind.model_fields

    assert kind.model_validate({name: None}).model_dump() == {name: None}
    with pytest.raises(ValidationError):
        kind.model_validate({})


@pytest.mark.parametrize(
    "given", [{}, {"input_tokens_details": {}}, {"output_tokens_details": {"other": 1}}]
)
def test_usage_without_details_does_not_know_them(given: dict[str, Any]) -> None:
    counts = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}

    assert details(NeMoGymResponseUsage.model_validate({**counts, **given})) == (None, None)


def test_usage_sum_from_list_starts_from_zeros() -> None:
    assert NeMoGymResponseUsage.sum_from_list([]).total_tokens == 0
    assert details(NeMoGymResponseUsage.sum_from_list([])) == (0, 0)

    total = NeMoGymResponseUsage.sum_from_list([usage(1, 2, 10), usage(3, 4, 5)])

    assert (total.input_tokens, total.output_tokens, total.total_tokens) == (15, 15, 30)
    assert details(total) == (4, 6)


def test_usage_sums_do_not_know_what_one_part_does_not_know() -> None:
    parts = [usage(1, None), usage(None, 2), usage(3, 4)]

    total = None
    for part in parts:
        total = accumulate_response_usage(total, part)

    assert total is not None
    assert details(total) == (None, None)
    assert details(NeMoGymResponseUsage.sum_from_list(parts)) == (None, None)
    assert details(parts[0]) == (1, None)


# Token metadata is atomic


@pytest.mark.parametrize(
    "item",
    [
        MESSAGE,
        {"type": "message", "role": "user", "content": "x"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
        {"type": "reasoning", "id": "rs", "summary": []},
    ],
)
def test_token_metadata_of_an_item_is_whole_or_absent(item: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=ATOMIC):
        response({**item, **PARTIAL})
    with pytest.raises(ValueError, match="missing"):
        response({**item, "routed_experts": "x"})


def test_token_metadata_of_a_message_is_whole_or_absent() -> None:
    message = {"role": "assistant", "content": "x", **PARTIAL}

    with pytest.raises(ValueError, match=ATOMIC):
        NeMoGymChoice.model_validate({"message": message})
    with pytest.raises(ValueError, match=ATOMIC):
        NeMoGymChatCompletionCreateParamsNonStreaming.model_validate({"messages": [message]})
    with pytest.raises(ValueError, match=ATOMIC):
        NeMoGymResponseOutputMessage.model_validate({**MESSAGE, **PARTIAL})


def test_token_metadata_makes_the_message_of_a_choice_one_for_training() -> None:
    message = {"role": "assistant", "content": "x"}

    plain = NeMoGymChoice.model_validate({"message": message}).message
    trained = NeMoGymChoice.model_validate({"message": {**message, **TOKENS}}).message

    assert type(plain) is NeMoGymChatCompletionMessage
    assert isinstance(trained, NeMoGymChatCompletionMessageForTraining)
    assert trained.model_dump(exclude_unset=True) == {**message, **TOKENS}


def test_token_metadata_makes_an_item_one_for_training() -> None:
    (item,) = response({**MESSAGE, **TOKENS, "routed_experts": [[0]]}).output

    assert isinstance(item, NeMoGymResponseOutputMessageForTraining)
    assert item.routed_experts == [[0]]


def test_training_variant_of_a_class_without_one_is_not_implemented() -> None:
    variant = training_variant_of(NeMoGymResponseOutputMessage)

    assert variant is NeMoGymResponseOutputMessageForTraining
    with pytest.raises(NotImplementedError):
        training_variant_of(NeMoGymFunctionCallOutput)


# Requests


def test_chat_completion_create_params_have_no_functions() -> None:
    names = NeMoGymChatCompletionCreateParamsNonStreaming.model_fields

    assert not {"function_call", "functions"} & names.keys()
    assert {"messages", "tools", "metadata"} <= names.keys()


def test_response_create_params_refuse_other_fields() -> None:
    with pytest.raises(ValidationError) as refused:
        NeMoGymResponseCreateParamsNonStreaming.model_validate({"input": "x", "seed": 1})

    assert [error["loc"] for error in refused.value.errors()] == [("seed",)]

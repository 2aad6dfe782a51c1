"""Convert a Chat Completions answer to a Responses API response. Pure functions.

The answer becomes reasoning and messages in the order in which the model wrote them (nearly always
one of each), then the tool calls. Converted back into a chat message, the text is identical. The
objects are built without validation, because the answer was checked when it was decoded and this
code is on the hottest path of a rollout.
"""

import time
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import orjson

from palestra.errors import KnownCause, WrongSetting
from palestra.responses_api_models.chat.provider_errors import ContextOverflow, check_whole
from palestra.responses_api_models.chat.settings import ConversionSettings
from palestra.responses_api_models.chat.thinking import TextSpan, has_tags, said_in
from palestra.responses_api_models.chat.unread import refuse_unread
from palestra.schema import (
    BESIDE_REASONING,
    CALL_SIGNATURE,
    CONTEXT_FULL,
    FunctionCall,
    IncompleteDetails,
    OutputMessage,
    OutputText,
    Reasoning,
    Refusal,
    Response,
    ResponseCreateParams,
    SummaryText,
    UnknownPart,
    UpstreamChoice,
    UpstreamCompletion,
    UpstreamMessage,
    UpstreamToolCall,
    UpstreamUsage,
    Usage,
    block_of_part,
    cached_tokens,
    maker,
    reasoning_tokens,
)
from palestra.transport import new_id

_make_function_call = maker(FunctionCall)
_make_incomplete_details = maker(IncompleteDetails)
_make_output_message = maker(OutputMessage)
_make_output_text = maker(OutputText)
_make_reasoning = maker(Reasoning)
_make_refusal = maker(Refusal)
_make_response = maker(Response)
_make_summary_text = maker(SummaryText)
_make_usage = maker(Usage)

_INCOMPLETE = {
    "length": "max_output_tokens",
    "model_length": "max_output_tokens",
    "content_filter": "content_filter",
}

_ECHOED = (
    "instructions",
    "max_output_tokens",
    "metadata",
    "reasoning",
    "temperature",
    "text",
    "top_p",
    "truncation",
    "user",
)


def to_response(
    completion: UpstreamCompletion,
    params: ResponseCreateParams,
    *,
    model: str,
    settings: ConversionSettings,
) -> Response:
    """Return the response to `params`. `model`: the model name, used when the endpoint sends none.

    Raises `ModelError`: the answer has no choices or was broken off. `WrongSetting`: the answer has
    reasoning fields that the settings do not expect.
    """
    check_whole([choice.finish_reason for choice in completion.choices], model=model)
    choice = completion.choices[0]
    digits = new_id()
    reason = _INCOMPLETE.get(choice.finish_reason or "")
    return new_response(
        params,
        digits,
        output=_output(choice, digits, settings, "completed" if reason is None else "incomplete"),
        model=completion.model or model,
        created_at=completion.created or time.time(),
        incomplete=None if reason is None else _incomplete(reason, choice.finish_reason),
        usage=None if completion.usage is None else _usage(completion.usage),
    )


def overflow_response(
    params: ResponseCreateParams, *, model: str, overflow: ContextOverflow
) -> Response:
    """Return the empty, truncated response for a conversation that no longer fits the model's
    context.

    Its reason is `max_output_tokens`, because clients know no reason for a full context. Extra
    fields give the true cause and the endpoint's message (`provider_message`). Raises
    PromptTooLong: no model has answered in this rollout.
    """
    refuse_unread(overflow, params.input if isinstance(params.input, list) else ())
    digits = new_id()
    return new_response(
        params,
        digits,
        output=[_message([], digits, "incomplete")],
        model=model,
        created_at=time.time(),
        incomplete=_make_incomplete_details(
            {"reason": "max_output_tokens"},
            {"stopped_by": CONTEXT_FULL, "provider_message": overflow.sentence},
        ),
        usage=None,
    )


def _incomplete(reason: str, finish_reason: str | None) -> IncompleteDetails:
    # Mistral's word for a full context.
    full = {"stopped_by": CONTEXT_FULL} if finish_reason == "model_length" else {}
    return _make_incomplete_details({"reason": reason}, full)


def new_response(
    params: ResponseCreateParams,
    digits: str,
    *,
    output: list[Any],
    model: str,
    created_at: float,
    incomplete: IncompleteDetails | None,
    usage: Usage | None,
) -> Response:
    """Return a response around `output`, with the request's parameters repeated as the protocol
    requires.

    `digits`: the common part of the ids of the response and its items.
    """
    request_values = params.__dict__
    values = {
        "id": f"resp_{digits}",
        "object": "response",
        "created_at": created_at,
        "model": model,
        "status": "completed" if incomplete is None else "incomplete",
        "output": output,
        "usage": usage,
        "incomplete_details": incomplete,
        "error": None,
        "parallel_tool_calls": params.parallel_tool_calls,
        "tool_choice": params.tool_choice,
        "tools": params.tools,
    }
    for name in _ECHOED:
        if request_values[name] is not None:
            values[name] = request_values[name]
    return _make_response(values)


def _output(
    choice: UpstreamChoice, digits: str, settings: ConversionSettings, status: str
) -> list[Any]:
    message = choice.message
    reasoning_field = message.reasoning_content or message.reasoning
    if reasoning_field and not settings.uses_reasoning_parser:
        raise WrongSetting(
            "the endpoint returned reasoning in a separate field, but `uses_reasoning_parser: "
            "false` says that it has no reasoning parser",
            hint="set uses_reasoning_parser: true on this model server, or start the "
            "endpoint without a reasoning parser",
            cause=KnownCause.REASONING_PARSER,
        )
    output = _message_parts(message.content, reasoning_field, digits, status)
    if message.reasoning_details is not None or message.thinking_blocks is not None:
        _add_beside_reasoning(output, message, digits)
    if message.refusal or choice.logprobs:
        _add_to_message(output, message, choice.logprobs, digits, status)
    if message.tool_calls:
        output += [
            _call(call, f"{digits}{index}", status) for index, call in enumerate(message.tool_calls)
        ]
    return output or [_message([], digits, status)]


def _message_parts(
    content: Any, reasoning_field: str | None, digits: str, status: str
) -> list[Any]:
    """Return the reasoning and message items of a content and its separate reasoning field."""
    if content is None or (isinstance(content, str) and not has_tags(content)):
        # The usual answer: nothing to take apart.
        output: list[Any] = []
        if reasoning_field:
            output.append(_reasoning((TextSpan(reasoning_field, is_reasoning=True),), digits))
        if content:
            output.append(_message([_output_text(content)], digits, status))
        return output
    spans = list(said_in(content, lone_tags=not reasoning_field))
    if reasoning_field:
        spans.insert(0, TextSpan(reasoning_field, is_reasoning=True))
    return _spoken(spans, digits, status)


def _spoken(spans: Iterable[TextSpan], digits: str, status: str) -> list[Any]:
    """Return reasoning and message items in text order; adjacent reasoning blocks become one item."""
    output: list[Any] = []
    for is_reasoning, group in groupby(spans, key=lambda stretch: stretch.is_reasoning):
        # The usual answer has one of each, with the response's own digits.
        its_digits = f"{digits}{len(output)}" if len(output) > 1 else digits
        if is_reasoning:
            output.append(_reasoning(group, its_digits))
        else:
            output.append(_message(_parts(group), its_digits, status))
    return output


def _parts(spans: Iterable[TextSpan]) -> list[Any]:
    """Return the spans as content parts: adjacent texts are joined, the endpoint's own parts are
    kept.
    """
    parts: list[Any] = []
    for is_own, group in groupby(spans, key=lambda stretch: stretch.part is not None):
        if is_own:
            parts += [_own_part(stretch.part) for stretch in group]
        else:
            parts.append(_output_text("".join([stretch.text for stretch in group])))
    return parts


def _own_part(part: Any) -> Refusal | UnknownPart:
    if part.get("type") == "refusal":
        return _make_refusal({"type": "refusal", "refusal": str(part.get("refusal") or "")})
    return UnknownPart.model_validate({**part, "type": str(part.get("type"))})


def _add_beside_reasoning(output: list[Any], message: UpstreamMessage, digits: str) -> None:
    """Store the fields that only the provider can read on the first reasoning item."""
    extra_fields = {name: text for name in BESIDE_REASONING if (text := getattr(message, name))}
    if not extra_fields:
        return
    if not output or not isinstance(output[0], Reasoning):
        output.insert(0, _reasoning([], digits))
    for name, value in extra_fields.items():
        setattr(output[0], name, value)


def _add_to_message(
    output: list[Any], message: UpstreamMessage, logprobs: Any, digits: str, status: str
) -> None:
    """Add the refusal and the log probs, which belong to the whole answer, to its last message."""
    last = next((item for item in reversed(output) if isinstance(item, OutputMessage)), None)
    if message.refusal:
        part = _make_refusal({"type": "refusal", "refusal": message.refusal})
        if last is None:
            output.append(_message([part], digits, status))
        else:
            last.content.append(part)
    if last is not None and logprobs and logprobs.get("content"):
        text = next((part for part in last.content if isinstance(part, OutputText)), None)
        if text is not None:
            text.logprobs = logprobs["content"]


def _output_text(text: str) -> OutputText:
    return _make_output_text({"type": "output_text", "text": text, "annotations": []})


def _message(parts: list[Any], digits: str, status: str) -> OutputMessage:
    """Return one message item; without parts, its content is the empty text."""
    return _make_output_message(
        {
            "id": f"msg_{digits}",
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": parts or [_output_text("")],
        },
    )


def _reasoning(blocks: Iterable[TextSpan], digits: str) -> Reasoning:
    summary = [_block(block) for block in blocks]
    return _make_reasoning({"id": f"rs_{digits}", "type": "reasoning", "summary": summary})


def _block(block: TextSpan) -> SummaryText:
    if block.part is not None:
        return SummaryText.model_validate(block_of_part(block.part))
    return _make_summary_text({"type": "summary_text", "text": block.text})


def _call(call: UpstreamToolCall, digits: str, status: str) -> FunctionCall:
    arguments = call.function.arguments
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        arguments = orjson.dumps(arguments).decode()
    return _make_function_call(
        {
            "id": f"fc_{digits}",
            "type": "function_call",
            "call_id": call.id or new_id("call_"),
            "name": call.function.name,
            "arguments": arguments,
            "status": status,
        },
        None if call.extra_content is None else {CALL_SIGNATURE: call.extra_content},
    )


def _usage(usage: UpstreamUsage) -> Usage:
    input_details, written = usage.prompt_tokens_details, usage.completion_tokens_details
    cached = None if input_details is None else input_details.cached_tokens
    reasoned = None if written is None else written.reasoning_tokens
    return _make_usage(
        {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": cached_tokens(cached),
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": reasoning_tokens(reasoned),
            "total_tokens": usage.total_tokens or usage.prompt_tokens + usage.completion_tokens,
        },
    )

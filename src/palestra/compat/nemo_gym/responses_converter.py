"""`nemo_gym.responses_converter`: convert between the Responses API and Chat Completions.

One turn of the model (reasoning, text, tool calls) is several items of a conversation, but one chat
message. Reasoning is a `<think>` block in the text of that message: the model server moves it to
where its endpoint expects it.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import uuid4

from pydantic import BaseModel

from palestra.compat.nemo_gym.openai_utils import training_variant_of
from palestra.compat.openai_types.base import OpenAIModel, field_of, plain
from palestra.compat.openai_types.chat import (
    NeMoGymChatCompletion,
    NeMoGymChatCompletionAssistantMessageForTrainingParam,
    NeMoGymChatCompletionAssistantMessageParam,
    NeMoGymChatCompletionCreateParamsNonStreaming,
)
from palestra.compat.openai_types.conversion import (
    REPEATED,
    SAME_NAME,
    InexpressibleError,
    chat_content,
    chat_tool,
    chat_tool_choice,
    response_format,
    responses_content,
    split_responses_input_output_items,
    text_of,
    with_instructions,
    written_text,
)
from palestra.compat.openai_types.items import (
    NeMoGymEasyInputMessage,
    NeMoGymFunctionCallOutput,
    NeMoGymResponseFunctionToolCall,
    NeMoGymResponseOutputMessage,
    NeMoGymResponseOutputRefusal,
    NeMoGymResponseOutputText,
    NeMoGymResponseReasoningItem,
    NeMoGymSummary,
)
from palestra.compat.openai_types.responses import (
    NeMoGymIncompleteDetails,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    NeMoGymResponseInputTokensDetails,
    NeMoGymResponseOutputTokensDetails,
    NeMoGymResponseUsage,
)
from palestra.compat.openai_types.tokens import TOKEN_METADATA_FIELDS, token_metadata_of
from palestra.schema import (
    PROMPT_ROLES,
    TURN_FIELDS,
    ChatCreateParams,
    JsonDict,
    JsonObject,
    Response,
    to_plain,
)
from palestra.server import completion_from_response, params_from_chat

logger = logging.getLogger("palestra.compat.responses_converter")

_INCOMPLETE_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass
class ResponsesConverterState:
    """The state of the conversion of a conversation to chat messages.

    `content_buffer`, `tool_calls_buffer`: the text and the tool calls of the assistant message that
    is being built; `assistant_item_buffered`: whether there is one.
    """

    return_token_id_information: bool
    messages: list[Any] = field(default_factory=list)
    content_buffer: str = ""
    tool_calls_buffer: list[Any] = field(default_factory=list)
    assistant_item_buffered: bool = False
    token_information: Any = None
    """The token fields of the assistant message that is being built, as an object or a mapping."""

    def flush_assistant(self) -> None:
        """Append the buffered assistant message to `messages`, if there is one, and clear it."""
        if not (self.assistant_item_buffered or self.content_buffer or self.tool_calls_buffer):
            return
        message = NeMoGymChatCompletionAssistantMessageParam(
            role="assistant", content=self.content_buffer or None
        )
        if self.tool_calls_buffer:
            message["tool_calls"] = self.tool_calls_buffer
        if self.return_token_id_information and self.token_information is not None:
            message = NeMoGymChatCompletionAssistantMessageForTrainingParam(
                message, **token_metadata_of(self.token_information)
            )
        self.messages.append(message)
        self.content_buffer = ""
        self.tool_calls_buffer = []
        self.assistant_item_buffered = False
        self.token_information = None


VLLMConverterResponsesToChatCompletionsState = ResponsesConverterState


class ResponsesConverter(BaseModel):
    """Converts requests and answers in both directions.

    `return_token_id_information`: whether the token ids of an assistant message are put on the last
    of its items, and on the message when converting back. `uses_reasoning_parser`: whether `<think>`
    blocks in the text of an assistant message become a reasoning item.
    """

    THINK_TAG_PATTERN: ClassVar[re.Pattern[str]] = re.compile(r"<think>(.*?)</think>", re.DOTALL)

    return_token_id_information: bool
    uses_reasoning_parser: bool = True

    # Reasoning in the text

    @classmethod
    def _parse_think_tags(cls, content: str) -> tuple[list[str], str]:
        """Return the texts of the complete `<think>` blocks, and the text without these blocks."""
        return cls.THINK_TAG_PATTERN.findall(content), cls.THINK_TAG_PATTERN.sub("", content)

    @classmethod
    def _extract_reasoning_from_content(cls, content: str) -> tuple[list[str], str]:
        return cls._parse_think_tags(content)

    @staticmethod
    def _wrap_reasoning_in_think_tags(texts: Iterable[str]) -> str:
        """Return the texts that are not empty, each as a `<think>` block."""
        return "".join(f"<think>{text}</think>" for text in texts if text)

    # Requests

    def responses_to_chat_completion_create_params(
        self, responses_create_params: Any
    ) -> NeMoGymChatCompletionCreateParamsNonStreaming:
        """Convert a Responses API request to a Chat Completions request.

        Parameters that a chat does not have are left out, as is `strict` of a tool.

        Raises InexpressibleError: the conversation or the tools have a part that a chat does not
        have.
        """
        params = to_plain(plain(responses_create_params))
        params = {name: value for name, value in params.items() if value is not None}
        messages = self.responses_input_to_chat_messages(params.get("input", []))
        if instructions := params.get("instructions"):
            messages = with_instructions(instructions, messages)
        chat_params: JsonDict = {"messages": messages}
        chat_params |= {name: params[name] for name in SAME_NAME if name in params}
        if "max_output_tokens" in params:
            chat_params["max_tokens"] = params["max_output_tokens"]
        if effort := params.get("reasoning", {}).get("effort"):
            chat_params["reasoning_effort"] = effort
        if chat_format := response_format(params.get("text", {}).get("format")):
            chat_params["response_format"] = chat_format
        if tools := params.get("tools"):
            chat_params["tools"] = [chat_tool(tool) for tool in tools]
            if "tool_choice" in params:
                chat_params["tool_choice"] = chat_tool_choice(params["tool_choice"])
        else:
            chat_params.pop("parallel_tool_calls", None)
        return NeMoGymChatCompletionCreateParamsNonStreaming.model_validate(chat_params)

    def responses_input_to_chat_messages(self, items: str | Sequence[Any]) -> list[JsonDict]:
        """Convert a text or the items of a conversation to chat messages.

        Raises InexpressibleError: an item has a type or a part that a chat does not have.
        """
        if isinstance(items, str):
            return [{"role": "user", "content": [{"type": "text", "text": items}]}]
        state = ResponsesConverterState(self.return_token_id_information)
        for item in items:
            self._add_item(to_plain(plain(item)), state)
        state.flush_assistant()
        return state.messages

    def _add_item(self, item: JsonObject, state: ResponsesConverterState) -> None:
        kind = item.get("type") or "message"
        if kind == "function_call_output":
            state.flush_assistant()
            state.messages.append(
                {
                    "role": "tool",
                    "content": chat_content(item["output"]),
                    "tool_call_id": item["call_id"],
                }
            )
        elif kind == "message" and item.get("role") in PROMPT_ROLES:
            state.flush_assistant()
            content = chat_content(item.get("content"))
            state.messages.append({"role": item["role"], "content": content, **_name(item)})
        else:
            self._add_written(kind, item, state)

    def _add_written(self, kind: str, item: JsonObject, state: ResponsesConverterState) -> None:
        if kind == "message" and item.get("role") == "assistant":
            state.content_buffer += written_text(item.get("content"))
        elif kind == "reasoning":
            state.content_buffer += self._wrap_reasoning_in_think_tags(
                block["text"] for block in item.get("summary") or item.get("content") or ()
            )
        elif kind == "function_call":
            function = {"name": item["name"], "arguments": item["arguments"]}
            state.tool_calls_buffer.append(
                {"id": item["call_id"], "type": "function", "function": function}
            )
        else:
            raise InexpressibleError(
                f"a chat has no item of type {kind!r} and role {item.get('role')!r}"
            )
        state.assistant_item_buffered = True
        if token_fields := token_metadata_of(item):
            state.token_information = token_fields

    def chat_completion_to_responses_create_params(
        self, params: Any
    ) -> NeMoGymResponseCreateParamsNonStreaming:
        """Convert a Chat Completions request to a Responses API request. Parameters that the
        Responses API does not have are left out.
        """
        chat_params = ChatCreateParams.model_validate(to_plain(plain(params)))
        fields = to_plain(params_from_chat(chat_params))
        declared = NeMoGymResponseCreateParamsNonStreaming.model_fields
        return NeMoGymResponseCreateParamsNonStreaming.model_validate(
            {name: value for name, value in fields.items() if name in declared}
        )

    def chat_completions_messages_to_responses_items(self, messages: Sequence[Any]) -> list[Any]:
        """Convert chat messages to the items of a conversation.

        Raises InexpressibleError: a message has a role or a part that the Responses API does not
        have.
        """
        return [item for message in messages for item in self._items_of(to_plain(plain(message)))]

    def _items_of(self, message: JsonObject) -> list[Any]:
        role = message.get("role")
        if role == "assistant":
            return self.postprocess_assistant_message_dict(message)
        if role == "tool":
            output = responses_content(message.get("content"))
            call_id = message["tool_call_id"]
            return [
                NeMoGymFunctionCallOutput(call_id=call_id, output=output, status="completed"),
            ]
        if role not in PROMPT_ROLES:
            raise InexpressibleError(f"the Responses API has no message of the role {role!r}")
        content = responses_content(message.get("content"))
        return [
            NeMoGymEasyInputMessage(role=role, content=content, type="message", **_name(message))
        ]

    # Answers

    def chat_completion_to_response(
        self, responses_create_params: Any, chat_completion: Any
    ) -> NeMoGymResponse:
        """Convert the chat completion that answers a request to a Responses API response.

        The model and the parameters of the response are those of the request.
        """
        params = to_plain(plain(responses_create_params))
        completion = NeMoGymChatCompletion.model_validate(chat_completion)
        choice = completion.choices[0]
        response_fields: JsonDict = {
            "id": f"resp_{uuid4().hex}",
            "created_at": completion.created,
            "model": params.get("model") or completion.model,
            "object": "response",
            "output": self.postprocess_chat_response(choice),
            "usage": _response_usage(completion.usage),
        }
        for name in REPEATED:
            if params.get(name) is not None:
                response_fields[name] = params[name]
        if reason := _INCOMPLETE_REASONS.get(choice.finish_reason or ""):
            response_fields["status"] = "incomplete"
            response_fields["incomplete_details"] = NeMoGymIncompleteDetails(reason=reason)
        return NeMoGymResponse.model_validate(response_fields)

    def postprocess_chat_response(self, choice: Any) -> list[Any]:
        """Convert the message of one choice of a chat completion to items."""
        return self.postprocess_assistant_message_dict(plain(field_of(choice, "message")))

    def postprocess_assistant_message_dict(self, message_dict: JsonObject) -> list[Any]:
        """Convert one assistant message to items: reasoning, text, tool calls.

        The text keeps its whitespace. A message without anything becomes one empty output message.
        """
        thoughts, text = self._reasoning_and_text(message_dict)
        refusal = message_dict.get("refusal")
        items: list[Any] = []
        if thoughts:
            summary = [NeMoGymSummary(text=thought, type="summary_text") for thought in thoughts]
            items.append(
                NeMoGymResponseReasoningItem(
                    id=f"rs_{uuid4().hex}", summary=summary, type="reasoning"
                )
            )
        calls = message_dict.get("tool_calls") or ()
        if text or refusal or not (thoughts or calls):
            items.append(_output_message(text, refusal))
        items += [_function_call(to_plain(plain(call))) for call in calls]
        if self.return_token_id_information and (tokens := _turn_fields(message_dict)):
            last = items[-1]
            variant: type[OpenAIModel] = training_variant_of(type(last))
            items[-1] = variant.model_validate({**last.model_dump(exclude_unset=True), **tokens})
        return items

    def _reasoning_and_text(self, message: JsonObject) -> tuple[list[str], str]:
        text = text_of(to_plain(message.get("content")))
        parsed = message.get("reasoning_content") or message.get("reasoning")
        if not self.uses_reasoning_parser:
            if isinstance(parsed, str) and parsed and parsed not in text:
                logger.warning(
                    "the endpoint returned reasoning beside the text, which is left out: set "
                    "uses_reasoning_parser: true"
                )
            return [], text
        thoughts, text = self._extract_reasoning_from_content(text)
        # Endpoints send parsed reasoning in one field or in two; a server that has put the first
        # back into the text may have left the second.
        if not thoughts and isinstance(parsed, str) and parsed:
            thoughts = [parsed]
        return thoughts, text

    def response_to_chat_completion(self, response: Any) -> NeMoGymChatCompletion:
        """Convert a Responses API response to a chat completion."""
        chat_completion = completion_from_response(
            Response.model_validate(to_plain(plain(response)))
        )
        return NeMoGymChatCompletion.model_validate(to_plain(chat_completion))


VLLMConverter = ResponsesConverter


def _output_message(text: str, refusal: str | None) -> NeMoGymResponseOutputMessage:
    parts: list[Any] = []
    if text or not refusal:
        parts.append(NeMoGymResponseOutputText(annotations=[], text=text, type="output_text"))
    if refusal:
        parts.append(NeMoGymResponseOutputRefusal(refusal=refusal, type="refusal"))
    return NeMoGymResponseOutputMessage(
        id=f"msg_{uuid4().hex}",
        content=parts,
        role="assistant",
        status="completed",
        type="message",
    )


def _name(message: JsonObject) -> JsonDict:
    """Return the name of who speaks, which both APIs have."""
    return {"name": message["name"]} if message.get("name") else {}


def _function_call(call: JsonObject) -> NeMoGymResponseFunctionToolCall:
    if not call.get("function"):
        raise InexpressibleError(f"the answer has a tool call of type {call.get('type')!r}")
    return NeMoGymResponseFunctionToolCall(
        arguments=call["function"]["arguments"],
        call_id=call["id"],
        name=call["function"]["name"],
        type="function_call",
        id=call["id"],
        status="completed",
    )


def _turn_fields(message: JsonObject) -> JsonDict:
    """Return the token fields of a message, and what a model server says about them."""
    if not token_metadata_of(message):
        return {}
    names = sorted(TOKEN_METADATA_FIELDS.union(TURN_FIELDS))
    return {name: message[name] for name in names if message.get(name) is not None}


def _response_usage(usage: Any) -> NeMoGymResponseUsage | None:
    if usage is None:
        return None
    return NeMoGymResponseUsage(
        input_tokens=usage.prompt_tokens,
        input_tokens_details=NeMoGymResponseInputTokensDetails(
            cached_tokens=_usage_detail(
                usage,
                "prompt_tokens_details",
                "cached_tokens",
                "cached_tokens",
                "prompt_cache_hit_tokens",
            )
        ),
        output_tokens=usage.completion_tokens,
        output_tokens_details=NeMoGymResponseOutputTokensDetails(
            reasoning_tokens=_usage_detail(
                usage, "completion_tokens_details", "reasoning_tokens", "reasoning_tokens"
            )
        ),
        # Some endpoints leave the sum out.
        total_tokens=usage.total_tokens or usage.prompt_tokens + usage.completion_tokens,
    )


def _usage_detail(
    usage: Any, detail_group: str, detail_name: str, *top_level_aliases: str
) -> int | None:
    """Return the count `usage[detail_group][detail_name]`, else the first of the
    `top_level_aliases` that the usage has; None when it has none.

    Only integers from 0 count. `usage` and the group may be objects or mappings.
    """
    detail = field_of(field_of(usage, detail_group), detail_name)
    counts = (detail, *(field_of(usage, alias) for alias in top_level_aliases))
    return next((count for count in counts if type(count) is int and count >= 0), None)


__all__ = [
    "InexpressibleError",
    "ResponsesConverter",
    "ResponsesConverterState",
    "VLLMConverter",
    "VLLMConverterResponsesToChatCompletionsState",
    "split_responses_input_output_items",
]

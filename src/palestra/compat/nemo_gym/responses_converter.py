"""`nemo_gym.responses_converter`: convert between the Responses API and Chat Completions."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from palestra.compat.openai_types.base import plain
from palestra.compat.openai_types.chat import (
    NeMoGymChatCompletion,
    NeMoGymChatCompletionCreateParamsNonStreaming,
)
from palestra.compat.openai_types.items import NeMoGymResponseInput
from palestra.compat.openai_types.responses import (
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    input_messages,
)
from palestra.responses_api_models.chat import ConversionSettings, to_chat_request, to_response
from palestra.schema import (
    TURN_FIELDS,
    ChatCreateParams,
    JsonDict,
    JsonObject,
    ResponseCreateParams,
    decode_completion,
    encode_json,
    to_plain,
)
from palestra.server import params_from_chat, without_tokens

_ITEMS: TypeAdapter[list[Any]] = TypeAdapter(NeMoGymResponseInput)
_NAMELESS = "model"


class ResponsesConverter(BaseModel):
    """Converts requests and responses in both directions.

    With `return_token_id_information`, the token ids of an assistant message are put on the last of
    its items, and on the message when converting back.
    """

    model_config = ConfigDict(extra="allow")

    return_token_id_information: bool = False
    uses_reasoning_parser: bool = False
    uses_interleaved_reasoning: bool = True
    replace_developer_role_with_system: bool = False

    def __init__(self, return_token_id_information: bool = False, **settings: Any) -> None:
        super().__init__(return_token_id_information=return_token_id_information, **settings)

    @property
    def _settings(self) -> ConversionSettings:
        return ConversionSettings(
            uses_reasoning_parser=self.uses_reasoning_parser,
            uses_interleaved_reasoning=self.uses_interleaved_reasoning,
            replace_developer_role_with_system=self.replace_developer_role_with_system,
        )

    # Requests

    def responses_to_chat_completion_create_params(
        self, responses_create_params: Any
    ) -> NeMoGymChatCompletionCreateParamsNonStreaming:
        """Convert a Responses API request to a Chat Completions request."""
        params = ResponseCreateParams.model_validate(to_plain(plain(responses_create_params)))
        model_name = params.model or _NAMELESS
        body = to_chat_request(params, model=model_name, settings=self._settings)
        if params.model is None:
            del body["model"]
        return NeMoGymChatCompletionCreateParamsNonStreaming.model_validate(body)

    def responses_input_to_chat_messages(self, items: Any) -> list[JsonDict]:
        """Convert the items of a conversation to chat messages."""
        request_body = {"input": [to_plain(plain(item)) for item in input_messages(items)]}
        chat_messages = self.responses_to_chat_completion_create_params(request_body).messages
        return [dict(message) for message in chat_messages]

    def chat_completion_to_responses_create_params(
        self, params: Any
    ) -> NeMoGymResponseCreateParamsNonStreaming:
        """Convert a Chat Completions request to a Responses API request."""
        chat_params = ChatCreateParams.model_validate(to_plain(plain(params)))
        return NeMoGymResponseCreateParamsNonStreaming.model_validate(
            to_plain(params_from_chat(chat_params))
        )

    def chat_completions_messages_to_responses_items(self, messages: Sequence[Any]) -> list[Any]:
        """Convert chat messages to the items of a conversation."""
        chat_params = ChatCreateParams.model_validate(
            {"messages": [to_plain(plain(m)) for m in messages]}
        )
        params = to_plain(params_from_chat(chat_params))
        items = params["input"]
        instructions = params.get("instructions")
        if instructions:
            items = [{"role": "system", "content": instructions}, *input_messages(items)]
        return _ITEMS.validate_python(input_messages(items))

    # Answers

    def chat_completion_to_response(
        self, chat_completion: Any, responses_create_params: Any = None
    ) -> NeMoGymResponse:
        """Convert a chat completion to a Responses API response. `responses_create_params`: its
        request.
        """
        completion = to_plain(plain(chat_completion))
        request_params = (
            {"input": []} if responses_create_params is None else responses_create_params
        )
        params = ResponseCreateParams.model_validate(to_plain(plain(request_params)))
        converted = to_response(
            decode_completion(encode_json(completion)),
            params,
            model=str(completion.get("model") or _NAMELESS),
            settings=self._settings,
        )
        answer = to_plain(converted)
        message = completion["choices"][0]["message"]
        self._put_tokens(answer["output"], message)
        return NeMoGymResponse.model_validate(answer)

    def postprocess_chat_response(self, choice: Any) -> list[Any]:
        """Convert one choice of a chat completion to items."""
        choice_fields = to_plain(plain(choice))
        completion = {"id": "", "created": 0, "model": _NAMELESS, "choices": [choice_fields]}
        return list(self.chat_completion_to_response(completion).output)

    def postprocess_assistant_message_dict(self, message_dict: JsonObject) -> list[Any]:
        """Convert one assistant message to items."""
        return self.postprocess_chat_response({"index": 0, "message": dict(message_dict)})

    def response_to_chat_completion(self, response: Any) -> NeMoGymChatCompletion:
        """Convert a Responses API response to a chat completion."""
        from palestra.schema import Response
        from palestra.server import completion_from_response

        chat_completion = completion_from_response(
            Response.model_validate(to_plain(plain(response)))
        )
        return NeMoGymChatCompletion.model_validate(to_plain(chat_completion))

    def _put_tokens(self, items: list[JsonDict], message: JsonObject) -> None:
        if not self.return_token_id_information or not items:
            return
        if without_tokens(message) != dict(message):
            items[-1].update({name: message[name] for name in TURN_FIELDS if name in message})


VLLMConverter = ResponsesConverter

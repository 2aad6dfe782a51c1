"""Code shared by the model servers in front of Chat Completions endpoints.

`request` and `response` convert (pure functions). `provider_errors` classifies refusals by status
and, with `wordings`, by text. `upstream` sends requests, `answers` reads the answers, and `server`
combines all of them. A model server in another folder subclasses `ChatCompletionsServer`; this
folder itself contains no runnable server.
"""

from palestra.responses_api_models.chat.endpoint_config import EndpointConfig
from palestra.responses_api_models.chat.messages import to_messages
from palestra.responses_api_models.chat.provider_errors import (
    ContextOverflow,
    cause_of,
    check_whole,
    classify,
    provider_sentence,
)
from palestra.responses_api_models.chat.request import json_setting, to_chat_request
from palestra.responses_api_models.chat.response import (
    new_response,
    overflow_response,
    to_response,
)
from palestra.responses_api_models.chat.server import (
    ChatCompletionsServer,
    ChatModelConfig,
    base_urls,
    check_endpoint,
)
from palestra.responses_api_models.chat.settings import ConversionSettings
from palestra.responses_api_models.chat.thinking import split_thinking, wrap_thinking
from palestra.responses_api_models.chat.unread import overflow_completion
from palestra.responses_api_models.chat.upstream import Upstream
from palestra.responses_api_models.chat.wordings import is_context_overflow

__all__ = [
    "ChatCompletionsServer",
    "ChatModelConfig",
    "ContextOverflow",
    "ConversionSettings",
    "EndpointConfig",
    "Upstream",
    "base_urls",
    "cause_of",
    "check_endpoint",
    "check_whole",
    "classify",
    "is_context_overflow",
    "json_setting",
    "new_response",
    "overflow_completion",
    "overflow_response",
    "provider_sentence",
    "split_thinking",
    "to_chat_request",
    "to_messages",
    "to_response",
    "wrap_thinking",
]

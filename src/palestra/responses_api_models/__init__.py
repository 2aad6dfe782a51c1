"""Model servers: each turns Responses API requests into calls of a real endpoint.

One folder per server, with its app.py, configs and README. `chat` holds what those in front of
a Chat Completions endpoint share; subclass `ChatCompletionsServer` to write another.
"""

from palestra.responses_api_models.chat import (
    ChatCompletionsServer,
    ChatModelConfig,
    ConversionSettings,
    Upstream,
    to_chat_request,
    to_response,
)

__all__ = [
    "ChatCompletionsServer",
    "ChatModelConfig",
    "ConversionSettings",
    "Upstream",
    "to_chat_request",
    "to_response",
]

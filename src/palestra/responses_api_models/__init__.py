"""Model servers. Each converts Responses API requests to calls of a real endpoint.

One folder per server, with its app.py, configs and README. `chat` contains the code shared by the
servers in front of a Chat Completions endpoint. To write another one, subclass
`ChatCompletionsServer`.
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

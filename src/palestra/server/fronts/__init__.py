"""Protocols that other clients speak, in front of any model server.

- `chat`: Chat Completions, as the OpenAI client and LiteLLM speak it.
- `messages`: Anthropic's Messages.
- `streams`: answers as the event streams that clients ask for, each event at once.

All pure: requests become Responses API parameters, responses become answers. Token ids travel on
assistant messages, as they do on the items of a response.
"""

from palestra.server.fronts.asked import unpacked, without_tokens
from palestra.server.fronts.chat import completion_from_response, params_from_chat
from palestra.server.fronts.messages import (
    EVENT_STREAM,
    MessagesAnswer,
    MessagesRequest,
    chat_events,
    message_events,
    message_from_response,
    params_from_messages,
)

__all__ = [
    "EVENT_STREAM",
    "MessagesAnswer",
    "MessagesRequest",
    "chat_events",
    "completion_from_response",
    "message_events",
    "message_from_response",
    "params_from_chat",
    "params_from_messages",
    "unpacked",
    "without_tokens",
]

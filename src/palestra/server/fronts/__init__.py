"""Protocols that other clients speak, in front of any model server.

- `chat`: Chat Completions, as the OpenAI client and LiteLLM speak it.
- `messages`: Anthropic's Messages.
- `streams`: answers as the event streams that clients ask for, each event at once.

All pure: requests become Responses API parameters, responses become answers. Token ids travel on
assistant messages, as they do on the items of a response.
"""

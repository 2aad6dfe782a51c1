"""Other clients' protocols, in front of any model server.

- `chat`: Chat Completions, as the OpenAI client and LiteLLM use it.
- `messages`: Anthropic's Messages, and the event streams of both protocols.

Pure functions: requests become Responses API parameters, responses become answers. Token ids are
fields of assistant messages, as they are fields of a response's items.
"""

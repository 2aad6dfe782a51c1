"""A rollout as chat messages, for trainers that read text."""

from palestra.responses_api_models import ConversionSettings, to_chat_request
from palestra.schema import JsonDict, ResponseCreateParams
from palestra.training.outcomes import Completed


def chat_of(outcome: Completed) -> tuple[list[JsonDict], list[JsonDict]]:
    """Return the prompt, and the messages after it: the model's and those that tools answered.

    Raises RowError: a chat cannot express a part of the conversation.
    """
    row = outcome.raw.plain()
    params = row.get("responses_create_params") or {}
    prompt = _messages(params)
    output = (row.get("response") or {}).get("output") or []
    return prompt, _messages({**params, "input": [*_items(params), *output]})[len(prompt) :]


def _items(params: JsonDict) -> list[JsonDict]:
    text = params.get("input")
    return [{"role": "user", "content": text}] if isinstance(text, str) else list(text or [])


def _messages(params: JsonDict) -> list[JsonDict]:
    conversation = {"input": _items(params), "instructions": params.get("instructions")}
    body = ResponseCreateParams.model_validate(conversation)
    request = to_chat_request(body, model="", settings=ConversionSettings())
    messages: list[JsonDict] = request["messages"]
    return messages

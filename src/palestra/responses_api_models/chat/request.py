"""Convert a Responses API request to a Chat Completions request. Pure functions.

What a chat cannot express is refused with a JSON pointer to it, never left out.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from palestra.responses_api_models.chat.messages import to_messages
from palestra.responses_api_models.chat.settings import CHAT_ENDPOINT, ConversionSettings, refuse
from palestra.schema import FunctionTool, JsonDict, JsonObject, ResponseCreateParams, Tool

_LOGPROBS = "message.output_text.logprobs"

_INCLUDED = frozenset({_LOGPROBS, "reasoning.encrypted_content"})
"""The accepted values of `include`. Reasoning is always included as readable text, so encrypted
reasoning is not needed for the next turn."""

_SAME_NAME = ("temperature", "top_p", "user", "service_tier", "store")

_ONE_ANSWER = "1: a response is one answer (`--repeats` asks for more)"
_ALL_OF_IT = "the whole conversation in `input`: a chat endpoint keeps none"
_ONLY_HARMLESS: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "previous_response_id": ((None,), _ALL_OF_IT),
    "conversation": ((None,), _ALL_OF_IT),
    "prompt": ((None,), "the prompt itself, as `instructions` and `input`"),
    "background": ((None, False), "false: whoever asks waits for the answer"),
    "truncation": (
        (None, "disabled"),
        (
            '"disabled": too long a conversation ends as a truncated answer (to have vLLM shorten '
            "its prompt, set truncate_prompt_tokens in metadata.extra_body)"
        ),
    ),
    "context_management": ((None,), "nothing: what a conversation holds is its agent's choice"),
    "max_tool_calls": (
        (None,),
        (
            "nothing: it limits tools that a provider runs; `max_steps` of the agent limits turns "
            "with yours, and parallel_tool_calls: false the calls of a turn"
        ),
    ),
    "stream_options": ((None,), "nothing: an answer is read in one piece"),
}
"""Parameters that a chat does not have. Each has the values that change nothing, and the
alternative to name in the error."""

_REASONING: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "context": (
        (None, "auto"),
        '"auto": `uses_interleaved_reasoning` of the model server decides which turns keep theirs',
    ),
    "mode": ((None, "standard"), '"standard": a chat has no other'),
}
_REASONING_SAID = frozenset({"effort", "summary", "generate_summary"})
"""The accepted fields of `reasoning`. `effort` is sent as `reasoning_effort`. A summary is not
needed: the reasoning is returned in full."""


def to_chat_request(
    params: ResponseCreateParams, *, model: str, settings: ConversionSettings
) -> JsonDict:
    """Return the body to POST. It shares tool schemas with `params`, so it must not be changed.

    Later sources override earlier ones: the configured `extra_body`, the row's
    `metadata.extra_body`, unknown fields of the row's parameters, known fields, the configured
    `sampling_overrides`. Raises `RowError`: a chat cannot express a part of the row.
    """
    metadata = params.metadata or {}
    unknown = params.model_extra or {}
    refuse_unsayable(params)
    request: JsonDict = {
        **settings.extra_body,
        **json_setting(metadata, "extra_body"),
        **{name: value for name, value in unknown.items() if value is not None},
        "model": model,
        "messages": to_messages(params, settings),
    }
    template = template_kwargs(metadata, unknown, settings)
    if template:
        request["chat_template_kwargs"] = template
    request.update(_sampling(params, settings))
    if settings.sampling_overrides:
        request.update(settings.sampling_overrides)
    if request.get("stream"):
        refuse("/metadata/extra_body", "no `stream`: an answer is read in one piece")
    if request.get("n") not in {None, 1}:
        refuse("/n" if "n" in unknown else "/metadata/extra_body", f"an `n` of {_ONE_ANSWER}")
    request.update(_tools(params, has_others=bool(request.get("tools"))))
    return request


def refuse_unsayable(
    params: ResponseCreateParams,
    *,
    endpoint: str = CHAT_ENDPOINT,
    included: frozenset[str] = _INCLUDED,
) -> None:
    """Raise `RowError`: a parameter asks for what only the Responses API has.

    `endpoint`: what the request goes to, for the message. `included`: the accepted values of
    `include`.
    """
    set_names = params.model_fields_set
    if not _ONLY_HARMLESS.keys().isdisjoint(set_names):
        for name, (harmless, expected) in _ONLY_HARMLESS.items():
            if name in set_names and getattr(params, name) not in harmless:
                refuse(f"/{name}", expected, endpoint=endpoint)
    for index, name in enumerate(params.include or ()):
        if name not in included:
            expected = f"one of {', '.join(sorted(included))}: it answers with nothing else"
            refuse(f"/include/{index}", expected, endpoint=endpoint)


def template_kwargs(
    metadata: JsonObject, request_kwargs: JsonObject, settings: ConversionSettings
) -> JsonDict:
    """Return the arguments of the chat template; the row's values override the configured ones.

    Both the row and the configuration may set `chat_template_kwargs` directly or inside
    `extra_body`. `request_kwargs`: the request's own fields. Raises `RowError`: a value is not a
    JSON object.
    """
    merged: JsonDict = {}
    configured = settings.extra_body or settings.chat_template_kwargs
    if not metadata and not request_kwargs and not configured:
        return merged  # as nearly always: this is on the hottest path
    for pointer, kwargs in (
        ("", settings.extra_body.get("chat_template_kwargs")),
        ("", settings.chat_template_kwargs),
        ("/metadata/extra_body", json_setting(metadata, "extra_body").get("chat_template_kwargs")),
        ("", request_kwargs.get("chat_template_kwargs")),
        ("/metadata", json_setting(metadata, "chat_template_kwargs")),
    ):
        if kwargs is None:
            continue
        if not isinstance(kwargs, Mapping):
            refuse(f"{pointer}/chat_template_kwargs", f"a JSON object, got {kwargs!r:.100}")
        merged.update(kwargs)
    return merged


def json_setting(metadata: JsonObject, key: str) -> JsonDict:
    """Return the JSON object stored as text in `metadata[key]`, or {} if unset.

    Raises `RowError`: the value is not a JSON object.
    """
    raw = metadata.get(key)
    if raw is None:
        return {}
    try:
        value = orjson.loads(raw) if isinstance(raw, str) else raw
    except orjson.JSONDecodeError as error:
        refuse(f"/metadata/{key}", f"a JSON object as text ({error})")
    if not isinstance(value, dict):
        refuse(f"/metadata/{key}", f"a JSON object as text, got {raw!r:.100}")
    return value


def _sampling(params: ResponseCreateParams, settings: ConversionSettings) -> JsonDict:
    """Return all request fields that control the answer, except tools."""
    values = params.__dict__
    sampling = {name: value for name in _SAME_NAME if (value := values[name]) is not None}
    if params.max_output_tokens is not None:
        if params.max_output_tokens < 1:
            # An endpoint would say what it says of a prompt that leaves no room for an answer.
            refuse("/max_output_tokens", f"at least 1, got {params.max_output_tokens}")
        sampling[settings.max_tokens_parameter] = params.max_output_tokens
    if params.include and _LOGPROBS in params.include:
        sampling["logprobs"] = True
    if params.top_logprobs:
        sampling["logprobs"] = True
        sampling["top_logprobs"] = params.top_logprobs
    if params.reasoning:
        effort = reasoning_effort(params.reasoning)
        sampling |= {} if effort is None else {"reasoning_effort": effort}
    if params.text:
        sampling.update(_text_format(params.text))
    return sampling


def reasoning_effort(reasoning: JsonObject) -> Any:
    """Return the `effort` of `reasoning`; None when it is not set. Raises `RowError`: it asks for
    something else, too.
    """
    for name, value in reasoning.items():
        if name in _REASONING_SAID:
            continue
        expected = "`effort` alone (a provider's own settings go into metadata.extra_body)"
        harmless, expected = _REASONING.get(name, ((None,), expected))
        if value not in harmless:
            refuse(f"/reasoning/{name}", expected)
    return reasoning.get("effort")


def _text_format(text: JsonObject) -> JsonDict:
    text_fields: JsonDict = {}
    for name, value in text.items():
        if value is not None and name not in {"format", "verbosity"}:
            refuse(f"/text/{name}", "`format` and `verbosity` alone")
    if text.get("verbosity") is not None:
        text_fields["verbosity"] = text["verbosity"]
    text_format = text.get("format") or {}
    if text_format.get("type") == "json_schema":
        schema = {key: value for key, value in text_format.items() if key != "type"}
        text_fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif text_format.get("type") not in {None, "text"}:
        text_fields["response_format"] = dict(text_format)
    return text_fields


def _tools(params: ResponseCreateParams, *, has_others: bool) -> JsonDict:
    """Return the tool fields of the request. Without tools there are none, because endpoints refuse
    them.

    `has_others`: the request already has tools from another source; these tools replace them.
    """
    choice = params.tool_choice if "tool_choice" in params.model_fields_set else None
    tool_fields: JsonDict = {}
    if params.tools:
        tool_fields["tools"] = [_tool(tool, index) for index, tool in enumerate(params.tools)]
    elif not has_others:
        if choice is not None and choice not in ("auto", "none"):
            refuse(
                "/tool_choice", f'"auto" or "none" where there are no tools, got {choice!r:.100}'
            )
        return {}
    if choice is not None:
        tool_fields["tool_choice"] = _tool_choice(choice)
    parallel = params.parallel_tool_calls
    if parallel is not None and "parallel_tool_calls" in params.model_fields_set:
        tool_fields["parallel_tool_calls"] = parallel
    return tool_fields


def _tool(tool: Tool, index: int) -> JsonDict:
    """Return a tool as a chat tool, without `strict`: few endpoints know it, and they enforce what
    others ignore.
    """
    if not isinstance(tool, FunctionTool):
        refuse(f"/tools/{index}", f'a tool of type "function", got {tool.type!r}')
    function: JsonDict = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.parameters is not None:
        function["parameters"] = tool.parameters
    function.update(tool.model_extra or {})
    return {"type": "function", "function": function}


def _tool_choice(choice: str | JsonDict) -> str | JsonDict:
    if isinstance(choice, str):
        return choice
    if choice.get("type") == "function" and "name" in choice:
        return {"type": "function", "function": {"name": choice["name"]}}
    if choice.get("type") == "allowed_tools" and "tools" in choice:
        allowed = {
            "mode": choice.get("mode", "auto"),
            "tools": [_tool_choice(tool) for tool in choice["tools"]],
        }
        return {"type": "allowed_tools", "allowed_tools": allowed}
    return choice

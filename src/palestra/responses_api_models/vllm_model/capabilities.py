"""What an endpoint can do, found by asking it: never by trusting that it would have refused.

An endpoint that does not know a parameter mostly ignores it, and answers 200. So each thing is
asked for in a small request, and what counts is whether it came.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from palestra.errors import WrongSetting
from palestra.responses_api_models.vllm_model.splicing import closing_token

Ask = Callable[[str, str, dict[str, Any] | None], Awaitable[tuple[int, Any]]]
"""(method, URL, JSON body) to (status, decoded JSON or None). Raises `CallError`: no answer."""


class TokenIds(StrEnum):
    """How ids of prompt and generation can be had. The values are shown."""

    NOT_ASKED = "not asked for"
    NONE = "none"
    WITH_ANSWER = "with each answer"
    BY_TOKENIZE = "generated with each answer, the prompt's by /tokenize"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """One endpoint, as it showed itself."""

    base_url: str
    server: str = ""
    """Product and version, where it says so: `vLLM 0.32.0`."""
    models: tuple[str, ...] = ()
    max_model_len: int | None = None
    """Prompt and answer together, in tokens."""
    tool_parser: str = ""
    """Where the endpoint tells it; vLLM does so in its development mode alone."""
    token_ids: TokenIds = TokenIds.NOT_ASKED
    tokenize: bool = False
    """`/tokenize` renders and tokenizes a chat."""
    generate: bool = False
    """Token ids can be sent: the chat is rendered, generated and parsed in separate requests."""
    closing_token: int | None = None
    """The id that closes a turn of the model."""

    def line(self) -> str:
        """For people, in a line."""
        facts = [self.server or "an unknown server"]
        if self.max_model_len is not None:
            facts.append(f"{self.max_model_len} tokens of context")
        if self.tool_parser:
            facts.append(f"tool parser {self.tool_parser}")
        facts.append(f"/tokenize {'of chats' if self.tokenize else 'of chats missing'}")
        if self.token_ids is not TokenIds.NOT_ASKED:
            facts.append(f"token ids: {self.token_ids.value}")
            prompts = "sent as ids" if self.generate else "sent as text (re-tokenization is marked)"
            facts.append(f"later prompts: {prompts}")
        return ", ".join(facts)

    def require_token_ids(self, server: str) -> None:
        """Raises `WrongSetting` when token ids are wanted and cannot be had."""
        if self.token_ids is TokenIds.NONE:
            raise WrongSetting(
                f"{server}: return_token_id_information is true, and {self.base_url} "
                f"({self.server or 'an unknown server'}) returns no token ids: it ignored "
                "`return_token_ids` and `return_tokens_as_token_ids`"
                + ("" if self.tokenize else ", and its /tokenize does not render chats"),
                hint="serve the model with vLLM (`palestra serve-model vllm …`), or set "
                "return_token_id_information: false",
            )


async def probe(ask: Ask, base_url: str, model: str, *, want_token_ids: bool) -> Capabilities:
    """Ask the endpoint. Raises `CallError` when it cannot be reached.

    Without `want_token_ids` nothing is generated: a provider may bill what it generates.
    """
    # What vLLM and llama.cpp have of their own is beside `/v1`.
    root = base_url.removesuffix("/v1")
    found = Capabilities(base_url)
    (_, listed), (version_status, version), (props_status, props) = await asyncio.gather(
        ask("GET", f"{base_url}/models", None),
        ask("GET", f"{root}/version", None),
        ask("GET", f"{root}/props", None),
    )
    found = _with_models(found, listed, model)
    if version_status == 200 and isinstance(version, dict) and "version" in version:
        found = replace(found, server=f"vLLM {version['version']}")
    elif props_status == 200 and isinstance(props, dict) and "build_info" in props:
        found = replace(found, server=f"llama.cpp {props['build_info']}")
    found = await _with_tokenize(found, ask, root, model)
    found = replace(found, tool_parser=await _tool_parser(ask, root))
    if want_token_ids:
        found = await _with_token_ids(found, ask, base_url, model)
        found = replace(found, generate=await _takes_ids(ask, base_url, model))
    return found


def common(found: Sequence[Capabilities]) -> Capabilities:
    """What can be counted on, whichever of these endpoints a request goes to."""
    first = found[0]
    by_tokenize = any(one.token_ids is TokenIds.BY_TOKENIZE for one in found)
    alike = all(one.closing_token == first.closing_token for one in found)
    return replace(
        first,
        token_ids=TokenIds.BY_TOKENIZE if by_tokenize else first.token_ids,
        tokenize=all(one.tokenize for one in found),
        generate=all(one.generate for one in found),
        closing_token=first.closing_token if alike else None,
    )


def _with_models(found: Capabilities, listed: Any, model: str) -> Capabilities:
    entries = listed.get("data") if isinstance(listed, dict) else None
    cards = [card for card in entries or () if isinstance(card, dict) and "id" in card]
    names = tuple(str(card["id"]) for card in cards)
    ours = next((card for card in cards if card["id"] == model), cards[0] if cards else {})
    length = ours.get("max_model_len")
    return replace(found, models=names, max_model_len=length if isinstance(length, int) else None)


async def _tool_parser(ask: Ask, root: str) -> str:
    status, info = await ask("GET", f"{root}/server_info?config_format=json", None)
    if status != 200:
        return ""
    return _search(info, "tool_call_parser") or _search(info, "tool_parser") or ""


def _search(value: Any, name: str) -> str | None:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get(name), str):
        return str(value[name])
    return next((hit for part in value.values() if (hit := _search(part, name))), None)


def _said(*answers: str) -> list[dict[str, str]]:
    """A chat in which the model gave these answers."""
    chat = []
    for answer in answers:
        chat += [{"role": "user", "content": "Say a word."}, {"role": "assistant"}]
        chat[-1]["content"] = answer
    return chat


async def _with_tokenize(found: Capabilities, ask: Ask, root: str, model: str) -> Capabilities:
    async def ids(answer: str) -> list[int]:
        body = {"model": model, "messages": _said(answer), "add_generation_prompt": False}
        status, reply = await ask("POST", f"{root}/tokenize", body)
        tokens = reply.get("tokens") if status == 200 and isinstance(reply, dict) else None
        return tokens if isinstance(tokens, list) else []

    one, other = await asyncio.gather(ids("yes"), ids("no"))
    # llama.cpp knows no messages here and answers with an empty list.
    if not one or not other:
        return found
    return replace(found, tokenize=True, closing_token=closing_token(one, other))


async def _with_token_ids(found: Capabilities, ask: Ask, base_url: str, model: str) -> Capabilities:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Say a word."}],
        "max_tokens": 1,
        "logprobs": True,
        "return_tokens_as_token_ids": True,
        "return_token_ids": True,
    }
    status, reply = await ask("POST", f"{base_url}/chat/completions", body)
    if status != 200:
        return replace(found, token_ids=TokenIds.NONE)
    return replace(found, token_ids=_kind(reply, tokenize=found.tokenize))


def _kind(reply: Any, *, tokenize: bool) -> TokenIds:
    try:
        choice = reply["choices"][0]
        if choice.get("token_ids") and reply.get("prompt_token_ids"):
            return TokenIds.WITH_ANSWER
        spelt = choice["logprobs"]["content"][0]["token"].startswith("token_id:")
    except (LookupError, TypeError, AttributeError):
        return TokenIds.NONE
    return TokenIds.BY_TOKENIZE if spelt and tokenize else TokenIds.NONE


async def _takes_ids(ask: Ask, base_url: str, model: str) -> bool:
    """Whether a chat can be rendered here. Rendering, generating and parsing come together."""
    body = {"model": model, "messages": [{"role": "user", "content": "Say a word."}]}
    status, reply = await ask("POST", f"{base_url}/chat/completions/render", body)
    return status == 200 and isinstance(reply, dict) and bool(reply.get("token_ids"))

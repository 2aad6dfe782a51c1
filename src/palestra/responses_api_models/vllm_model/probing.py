"""Find out what an endpoint can do, without expecting that it refuses unknown parameters.

Most endpoints ignore an unknown parameter and answer 200. So each capability is tested with a small
request, and only the result in the answer counts. Only some error statuses are evidence
(`EVIDENCE`). A server that is starting or overloaded, or a gateway that wants another key, also
answers, but its answer leaves the question open.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, final

import msgspec

from palestra.errors import CallError, Hopeless, ModelError, ModelNotServed
from palestra.responses_api_models.chat import cause_of, check_whole
from palestra.responses_api_models.vllm_model.capabilities import (
    Capabilities,
    Question,
    TokenIds,
    Unanswered,
)
from palestra.responses_api_models.vllm_model.splicing import closing_token
from palestra.responses_api_models.vllm_model.wire import (
    ASKED,
    CHAT,
    GENERATE,
    PARSE,
    RENDER,
    Generated,
    to_parse,
)
from palestra.schema import JsonDict

EVIDENCE = frozenset({400, 404, 405, 422, 501})
"""The error statuses that are evidence about an endpoint: it has no such path, or refuses the
request."""

_PASSING = frozenset({408, 425, 429})
_IN_THE_END = frozenset({Question.TOKEN_IDS, Question.IDS_IN})
"""The questions asked last: their answers depend on whether `/tokenize` works."""


@dataclass(frozen=True, slots=True)
class ProbeReply:
    """An endpoint's answer to a test request.

    `content`: the decoded JSON or None. `said`: the message of a refusal, else the beginning of the
    body. `status`: the HTTP status, or the error status inside a 200 answer.
    """

    status: int
    content: Any = None
    said: str = ""


Ask = Callable[[str, str, JsonDict | None], Awaitable[ProbeReply]]
"""A function that sends a request (method, URL, JSON body). Raises `CallError`: no answer."""

Finding = Callable[[Capabilities], Capabilities]
"""A function that adds the answer of one question to an endpoint's capabilities."""

Made = TypeVar("Made")


class _NoEvidence(Exception):
    """The error for an answer that does not settle the question."""

    def __init__(self, why: str, *, passing: bool) -> None:
        super().__init__(why)
        self.unanswered = Unanswered(why, passing)


async def probe(
    ask: Ask, capabilities: Capabilities, model: str, questions: Collection[Question]
) -> Capabilities:
    """Ask the unanswered ones of `questions`. A question that stays unanswered gets the reason.

    Raises `Hopeless`: with this configuration, no answer can come.
    """
    asking = _Asking(ask, capabilities.base_url, model)
    open_ = [
        question
        for question in Question
        if question in questions and question in capabilities.unanswered
    ]
    for stage in (
        [question for question in open_ if question not in _IN_THE_END],
        [question for question in open_ if question in _IN_THE_END],
    ):
        for finding in await together(asking.about(question, capabilities) for question in stage):
            capabilities = finding(capabilities)
    return capabilities


async def together(work: Iterable[Awaitable[Made]]) -> list[Made]:
    """Await all of `work` and return the results. Raises the first failure, after all have ended."""
    results = await asyncio.gather(*work, return_exceptions=True)
    values: list[Made] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        values.append(result)
    return values


@final
class _Asking:
    """The test requests to one endpoint. Each returns a finding or raises `_NoEvidence`."""

    def __init__(self, ask: Ask, base_url: str, model: str) -> None:
        self._ask = ask
        self._base = base_url
        # What vLLM and llama.cpp have of their own is beside `/v1`.
        self._root = base_url.removesuffix("/v1")
        self._model = model

    async def about(self, question: Question, capabilities: Capabilities) -> Finding:
        """Ask one question and return the finding, which may be that it stays unanswered."""
        questions: dict[Question, Callable[[Capabilities], Awaitable[Finding]]] = {
            Question.SERVER: self._server,
            Question.MODELS: self._models,
            Question.TOOL_PARSER: self._tool_parser,
            Question.TOKENIZE: self._tokenize,
            Question.TOKEN_IDS: self._token_ids,
            Question.IDS_IN: self._ids_in,
        }
        try:
            finding = await questions[question](capabilities)
        except _NoEvidence as error:
            unanswered = error.unanswered
            return lambda now: replace(now, unanswered={**now.unanswered, question: unanswered})
        return lambda now: _without(question, finding(now))

    async def _server(self, _: Capabilities) -> Finding:
        version = await self._content("GET", f"{self._root}/version")
        if isinstance(version, dict) and "version" in version:
            return lambda now: replace(now, server=f"vLLM {version['version']}")
        props = await self._content("GET", f"{self._root}/props")
        if isinstance(props, dict) and "build_info" in props:
            return lambda now: replace(now, server=f"llama.cpp {props['build_info']}")
        return lambda now: replace(now, server="")

    async def _models(self, _: Capabilities) -> Finding:
        listed = await self._content("GET", f"{self._base}/models")
        entries = listed.get("data") if isinstance(listed, dict) else None
        cards = [card for card in entries or () if isinstance(card, dict) and "id" in card]
        names = tuple(str(card["id"]) for card in cards)
        first = cards[0] if cards else {}
        ours = next((card for card in cards if card["id"] == self._model), first)
        length = ours.get("max_model_len")
        limit = length if isinstance(length, int) else None
        return lambda now: replace(now, models=names, max_model_len=limit)

    async def _tool_parser(self, _: Capabilities) -> Finding:
        info = await self._content("GET", f"{self._root}/server_info?config_format=json")
        name = _search(info, "tool_call_parser") or _search(info, "tool_parser") or ""
        return lambda now: replace(now, tool_parser=name)

    async def _tokenize(self, _: Capabilities) -> Finding:
        yes_ids, no_ids = await self._tokens_of("yes"), await self._tokens_of("no")
        # llama.cpp knows no messages here and answers with an empty list.
        if not yes_ids or not no_ids:
            return lambda now: replace(now, tokenize=False, closing_token=None)
        closing = closing_token(yes_ids, no_ids)
        return lambda now: replace(now, tokenize=True, closing_token=closing)

    async def _tokens_of(self, answer: str) -> list[int]:
        chat = [{"role": "user", "content": "Say a word."}]
        chat.append({"role": "assistant", "content": answer})
        body = {"model": self._model, "messages": chat, "add_generation_prompt": False}
        reply = await self._content("POST", f"{self._root}/tokenize", body)
        tokens = reply.get("tokens") if isinstance(reply, dict) else None
        return tokens if isinstance(tokens, list) else []

    async def _token_ids(self, capabilities: Capabilities) -> Finding:
        url = self._base + CHAT
        answer = await self._evidence("POST", url, {**self._word(), **ASKED})
        if answer.status == 404:
            raise ModelNotServed(
                f"{url} answered 404 for model {self._model!r}: {answer.said}",
                hint="is the model listed by GET <base_url>/models, and does base_url end in /v1?",
                cause=cause_of(ModelNotServed, 404, answer.said),
            )
        if answer.status >= 300:
            refusal = f"it answered {answer.status}: {answer.said}"
            return lambda now: replace(now, token_ids=TokenIds.NONE, no_token_ids=refusal)
        if not _is_whole(answer.content, self._model):
            raise _NoEvidence(f"POST {url} answered without a choice: {answer.said}", passing=True)
        token_ids = _token_ids_of(answer.content)
        if token_ids is TokenIds.BY_TOKENIZE and Question.TOKENIZE in capabilities.unanswered:
            why = capabilities.unanswered[Question.TOKENIZE]
            raise _NoEvidence(why.why, passing=why.passing)
        if token_ids is TokenIds.BY_TOKENIZE and not capabilities.tokenize:
            token_ids = TokenIds.NONE
        ignored = "it ignored `return_token_ids` and `return_tokens_as_token_ids`"
        if not capabilities.tokenize:
            ignored += ", and its /tokenize does not render chats"
        return lambda now: replace(
            now, token_ids=token_ids, no_token_ids=ignored if token_ids is TokenIds.NONE else ""
        )

    async def _ids_in(self, _: Capabilities) -> Finding:
        """Test whether the endpoint renders a chat, generates a token from its ids, and parses the
        result.
        """
        request = self._word()
        rendered = await self._content("POST", self._base + RENDER, request)
        if not isinstance(rendered, dict) or not rendered.get("token_ids"):
            return _takes_no_ids
        generated = await self._content("POST", self._root + GENERATE.removeprefix(".."), rendered)
        try:
            generation = msgspec.convert(generated, Generated)
            body = to_parse(
                request, generation, rendered["token_ids"], generation.choices[0].token_ids
            )
        except (LookupError, msgspec.ValidationError):
            return _takes_no_ids
        parsed = await self._content("POST", self._base + PARSE, body)
        takes = isinstance(parsed, dict) and bool(parsed.get("choices"))
        return lambda now: replace(now, ids_in=takes)

    def _word(self) -> JsonDict:
        """Return a chat request whose answer is one token."""
        messages = [{"role": "user", "content": "Say a word."}]
        return {"model": self._model, "messages": messages, "max_tokens": 1}

    async def _content(self, method: str, url: str, body: JsonDict | None = None) -> Any:
        """Return the decoded JSON of a successful answer; None when the endpoint lacks the path or
        refuses the request.
        """
        answer = await self._evidence(method, url, body)
        return answer.content if answer.status < 300 else None

    async def _evidence(self, method: str, url: str, body: JsonDict | None) -> ProbeReply:
        try:
            answer = await self._ask(method, url, body)
        except Hopeless:
            raise
        except CallError as error:
            raise _NoEvidence(error.message, passing=True) from error
        if 200 <= answer.status < 300 or answer.status in EVIDENCE:
            return answer
        raise _NoEvidence(
            f"{method} {url} answered {answer.status}: {answer.said}",
            passing=answer.status >= 500 or answer.status in _PASSING,
        )


def _takes_no_ids(capabilities: Capabilities) -> Capabilities:
    return replace(capabilities, ids_in=False)


def _without(question: Question, capabilities: Capabilities) -> Capabilities:
    unanswered = {
        other_question: why
        for other_question, why in capabilities.unanswered.items()
        if other_question is not question
    }
    return replace(capabilities, unanswered=unanswered)


def _is_whole(reply: Any, model: str) -> bool:
    """Whether `reply` is a chat completion that was not broken off."""
    try:
        check_whole([choice.get("finish_reason") for choice in reply["choices"]], model=model)
    except (LookupError, TypeError, AttributeError, ModelError):
        return False
    return True


def _token_ids_of(reply: Any) -> TokenIds:
    """Return how the endpoint provides token ids, assuming that `/tokenize` works."""
    try:
        choice = reply["choices"][0]
        if choice.get("token_ids") and reply.get("prompt_token_ids"):
            return TokenIds.WITH_ANSWER
        spelt = choice["logprobs"]["content"][0]["token"].startswith("token_id:")
    except (LookupError, TypeError, AttributeError):
        return TokenIds.NONE
    return TokenIds.BY_TOKENIZE if spelt else TokenIds.NONE


def _search(value: Any, name: str) -> str | None:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get(name), str):
        return str(value[name])
    return next((hit for part in value.values() if (hit := _search(part, name))), None)

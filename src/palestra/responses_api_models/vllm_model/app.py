"""`vllm_model`: a model server for any Chat Completions endpoint, with token ids from vLLM."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Coroutine
from functools import cached_property
from typing import Any, ClassVar, Self

import msgspec
import orjson
from pydantic import model_validator

from palestra.errors import CallError, ConfigError
from palestra.responses_api_models.chat import (
    ChatCompletionsServer,
    ChatModelConfig,
    check_whole,
    overflow_completion,
)
from palestra.responses_api_models.chat.provider_errors import (
    ContextOverflow,
    failure_status,
    provider_sentence,
)
from palestra.responses_api_models.chat.request import to_chat_request
from palestra.responses_api_models.chat.response import overflow_response, to_response
from palestra.responses_api_models.chat.upstream import Answered
from palestra.responses_api_models.vllm_model.capabilities import (
    FOR_ALL,
    FOR_TOKEN_IDS,
    Capabilities,
    Question,
    TokenIds,
)
from palestra.responses_api_models.vllm_model.history import (
    items_of,
    previous_of_items,
    previous_of_messages,
    with_ids_of_items,
    with_ids_of_messages,
)
from palestra.responses_api_models.vllm_model.known import Known
from palestra.responses_api_models.vllm_model.probing import ProbeReply, probe, together
from palestra.responses_api_models.vllm_model.token_ids import (
    Continuity,
    State,
    attach,
    seal_items,
    seal_messages,
)
from palestra.responses_api_models.vllm_model.turns import ONE_ANSWER, ModelTurn, Turns
from palestra.schema import (
    ChatChoice,
    ChatCompletion,
    ChatCreateParams,
    ChatMessage,
    JsonDict,
    JsonObject,
    Response,
    ResponseCreateParams,
    TokenVerdict,
    TurnTokens,
    UpstreamChoice,
    UpstreamCompletion,
    UpstreamMessage,
    encode_json,
)
from palestra.server import EndpointFacts, Session
from palestra.transport import new_id

logger = logging.getLogger("palestra.vllm_model")

UNNEEDED_S = 3.0
"""The maximum seconds to ask for facts that no setting needs."""
PROBE_TIMEOUT_S = 30.0
"""The timeout in seconds of each request that tests an endpoint's capabilities; some generate a
token."""


class VLLMModelConfig(ChatModelConfig):
    """The settings of `vllm_model`."""

    return_token_id_information: bool = False
    """Whether to put `prompt_token_ids`, `generation_token_ids` and `generation_log_probs` on the
    last item of every turn, and to start each turn's prompt with the token ids of the turns before
    it."""
    pass_on_token_ids: bool = False
    """Whether to send the three token fields to the endpoint, on the messages. For a trainer's own
    server, which continues a turn by its token ids; other endpoints may refuse them."""
    has_token_ids: ClassVar[bool] = True

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        answers_wanted = (self.extra_body or {}).get("n")
        if self.return_token_id_information and answers_wanted not in ONE_ANSWER:
            raise ConfigError(
                f"extra_body.n is {answers_wanted!r}, and return_token_id_information: true returns the "
                "token ids of one answer to a request",
                hint="leave n out, and ask for each task as often as you want answers (num_repeats)",
            )
        return self


class VLLMModel(ChatCompletionsServer):
    """A model server in front of a Chat Completions endpoint. It can return token ids."""

    config: VLLMModelConfig

    @cached_property
    def _known_capabilities(self) -> Known:
        def ask(
            capabilities: Capabilities, questions: frozenset[Question]
        ) -> Awaitable[Capabilities]:
            return probe(self._ask, capabilities, self.config.model, questions)

        return Known(ask, server=self.name)

    @cached_property
    def _continuities(self) -> Counter[tuple[str, str]]:
        return Counter()

    def responses(
        self, body: ResponseCreateParams, session: Session
    ) -> Coroutine[Any, Any, Response]:
        """Return one model turn. Raises `CallError`: the endpoint refuses the request."""
        if self.config.return_token_id_information:
            return self._with_token_ids(body, session)
        return super().responses(body, session)

    async def _with_token_ids(self, body: ResponseCreateParams, session: Session) -> Response:
        model, settings = self.config.model, self._conversion
        request = to_chat_request(body, model=model, settings=settings)
        previous, why_not = previous_of_items(body, request["messages"], settings)
        if self.config.pass_on_token_ids:
            request["messages"] = with_ids_of_items(request["messages"], body)
        turns = await self._turns(session, later=previous is not None)
        turn = await turns.ask(request, previous, why_not)
        if isinstance(turn, ContextOverflow):
            return overflow_response(body, model=model, overflow=turn)
        completion = _plain_completion(turn, with_log_probs=bool(request.get("logprobs")))
        response = to_response(completion, body, model=model, settings=settings)
        items = [*items_of(body), *response.output]
        seal = seal_items(items, turn.tokens, instructions=body.instructions, tools=body.tools)
        attach(response.output[-1], turn.tokens, self._counted(turn, seal))
        return response

    async def chat_completions(self, body: ChatCreateParams, session: Session) -> ChatCompletion:
        """Return one chat completion, with token ids on its message if the settings ask for them."""
        if not self.config.return_token_id_information:
            return await super().chat_completions(body, session)
        request = self._chat_request(body)
        if self.config.pass_on_token_ids:
            request["messages"] = with_ids_of_messages(request["messages"], body.messages)
        tools = body.tools or []
        previous, why_not = previous_of_messages(body.messages, tools)
        turns = await self._turns(session, later=previous is not None)
        turn = await turns.ask(request, previous, why_not)
        if isinstance(turn, ContextOverflow):
            return overflow_completion(body, model=self.config.model, overflow=turn)
        answer = chat_answer(
            turn, model=self.config.model, with_log_probs=bool(request.get("logprobs"))
        )
        message = answer.choices[0].message
        seal = seal_messages([*body.messages, message], turn.tokens, tools=tools)
        attach(message, turn.tokens, self._counted(turn, seal))
        return answer

    def token_verdict(self, tokens: TurnTokens) -> TokenVerdict:
        """Check the log probs only: an answer with invalid token ids was already refused on
        arrival.
        """
        return TokenVerdict(log_probs=tokens.fault_of_log_probs())

    def facts(self) -> EndpointFacts:
        """Return what is known about the endpoints; with several endpoints, the shortest context
        length.
        """
        all_capabilities = [self._known_capabilities.now(url) for url in self._base_urls]
        lengths = [
            capabilities.max_model_len
            for capabilities in all_capabilities
            if capabilities.max_model_len is not None
        ]
        return EndpointFacts(
            model=self.config.model,
            served=tuple(
                dict.fromkeys(
                    name for capabilities in all_capabilities for name in capabilities.models
                )
            ),
            max_model_len=min(lengths, default=None),
            tool_parser=next(
                (
                    capabilities.tool_parser
                    for capabilities in all_capabilities
                    if capabilities.tool_parser
                ),
                "",
            ),
        )

    async def check(self) -> str:
        """Ask each endpoint what it serves and what it can do, and return a summary.

        Raises `CallError`: no endpoint answers, one rejects the key, or one lacks something that a
        setting needs. Facts that no setting needs are asked for at most `UNNEEDED_S` seconds, and
        may stay unknown.
        """
        served = await super().check()
        wants_ids = self.config.return_token_id_information
        lines: list[str] = []
        try:
            async with asyncio.timeout(None if wants_ids else UNNEEDED_S):
                lines = await self._capability_lines()
        except (CallError, TimeoutError):
            if wants_ids:
                raise
        return "; ".join([served, *lines, *self._continuity_line()])

    async def _capability_lines(self) -> list[str]:
        wants_ids = self.config.return_token_id_information
        questions = FOR_ALL | FOR_TOKEN_IDS if wants_ids else FOR_ALL
        all_capabilities = await together(
            self._known_capabilities.asked(url, questions) for url in self._base_urls
        )
        if not wants_ids:
            lines = (capabilities.line() for capabilities in all_capabilities)
            return [line for line in lines if line]
        for capabilities in all_capabilities:
            capabilities.require_token_ids(self.name)
        if all_capabilities and all(
            capabilities.token_ids is TokenIds.NOT_ASKED for capabilities in all_capabilities
        ):
            # Perhaps in a moment: whoever waits for the endpoint asks again.
            raise all_capabilities[0].not_known(self.name, Question.TOKEN_IDS)
        return [self._with_unknown(capabilities) for capabilities in all_capabilities]

    def _with_unknown(self, capabilities: Capabilities) -> str:
        unknown = capabilities.unknown_line(FOR_TOKEN_IDS)
        return f"{capabilities.line()}, not known yet {unknown}" if unknown else capabilities.line()

    # Endpoints

    async def _turns(self, session: Session, *, later: bool) -> Turns:
        """Return the `Turns` that requests turns for the session. `later`: the turn continues
        another turn.
        """

        async def post(path: str, body: JsonObject) -> Answered:
            return await self.post(path, body, session)

        def lacking() -> None:
            # Not `can`'s own: that may be another one, to which this one was taken to be alike.
            self._known_capabilities.forget(self.base_url_for(session.id), Question.IDS_IN)

        can = await self._capabilities(session, later=later)
        return Turns(
            post,
            self._upstream,
            can,
            server=self.name,
            on_lacking=lacking,
            log_probs_as_they_are=self.asked_by_a_trainer,
        )

    async def _capabilities(self, session: Session, *, later: bool) -> Capabilities:
        """Return what the session's endpoint can do, and ask the endpoint if it is unknown.

        If it stays unknown and another endpoint is known, the same is assumed for this one; a turn
        falls back if that is wrong. Raises `WrongSetting`: the endpoint returns no token ids.
        `InfraError`: the capabilities stay unknown.
        """
        home = self.base_url_for(session.id)
        capabilities = await self._known_capabilities.asked(home, FOR_TOKEN_IDS)
        capabilities.require_token_ids(self.name)
        if capabilities.missing(later=later) is None:
            return capabilities
        for url in self._base_urls:
            capabilities_there = self._known_capabilities.now(url)
            if capabilities_there.missing(later=later) is None:
                return capabilities_there
        return await self._known_capabilities.certain(home, later=later)

    async def _ask(self, method: str, url: str, body: JsonDict | None) -> ProbeReply:
        encoded = None if body is None else encode_json(body)
        reply = await self._upstream.ask(method, url, encoded, timeout_s=PROBE_TIMEOUT_S)
        sentence = self._upstream.mask(provider_sentence(reply.body))
        if reply.status >= 300:
            return ProbeReply(reply.status, said=sentence)
        if (failed := failure_status(reply.body)) is not None:
            return ProbeReply(failed, said=sentence)
        try:
            return ProbeReply(reply.status, orjson.loads(reply.body), sentence)
        except orjson.JSONDecodeError:
            return ProbeReply(reply.status, said=sentence)

    # Continuity

    def _counted(self, turn: ModelTurn, seal: str) -> Continuity:
        kind = (turn.state.value, turn.reason)
        self._continuities[kind] += 1
        if turn.state is State.BROKEN and self._continuities[kind] == 1:
            logger.warning(
                "%s: a turn's prompt does not start with the ids of the turn before: %s (logged "
                "once; each such turn is marked, token_continuity.state: broken)",
                self.name,
                turn.reason,
            )
        return Continuity(turn.state, turn.reason, seal)

    def _continuity_line(self) -> list[str]:
        if not self._continuities:
            return []
        counts = [
            f"{count} {state}" + (f" ({reason})" if reason else "")
            for (state, reason), count in self._continuities.most_common()
        ]
        return ["turns with token ids: " + ", ".join(counts)]


def _plain_completion(turn: ModelTurn, *, with_log_probs: bool) -> UpstreamCompletion:
    completion = turn.completion
    choice = completion.choices[0]
    log_probs = choice.logprobs if with_log_probs else None
    return UpstreamCompletion(
        choices=[UpstreamChoice(choice.message, choice.finish_reason, log_probs)],
        model=completion.model,
        id=completion.id,
        created=completion.created,
        usage=completion.usage,
    )


def chat_answer(turn: ModelTurn, *, model: str, with_log_probs: bool) -> ChatCompletion:
    """Return the completion for the caller, still without token ids.

    Raises `ModelError`: the endpoint broke the answer off.
    """
    completion = turn.completion
    check_whole([choice.finish_reason for choice in completion.choices], model=model)
    choice = completion.choices[0]
    message = _chat_message(choice.message)
    called = bool(message.tool_calls) and choice.finish_reason == "stop"
    return ChatCompletion(
        id=completion.id or new_id("chatcmpl-"),
        created=int(completion.created or time.time()),
        model=completion.model or model,
        choices=[
            ChatChoice(
                index=0,
                message=message,
                finish_reason="tool_calls" if called else choice.finish_reason,
                logprobs=_chat_log_probs(turn.tokens) if with_log_probs else None,
            )
        ],
        usage=None if completion.usage is None else msgspec.to_builtins(completion.usage),
    )


def _chat_message(upstream_message: UpstreamMessage) -> ChatMessage:
    calls: list[JsonDict] = [
        {
            "id": call.id or new_id("call_"),
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in upstream_message.tool_calls or ()
    ]
    message = ChatMessage(role="assistant", content=upstream_message.content)
    if calls:
        message.tool_calls = calls
    if reasoning := upstream_message.reasoning_content or upstream_message.reasoning:
        message.reasoning_content = reasoning
    return message


def _chat_log_probs(tokens: TurnTokens) -> JsonDict:
    # There may be too few: a trainer wants to hear of that itself.
    pairs = zip(tokens.generation, tokens.log_probs, strict=False)
    content: list[JsonDict] = [
        {"token": f"token_id:{token}", "logprob": value, "bytes": None, "top_logprobs": []}
        for token, value in pairs
    ]
    return {"content": content}

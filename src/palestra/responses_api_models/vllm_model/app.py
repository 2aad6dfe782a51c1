"""`vllm_model`: any Chat Completions endpoint, vLLM above all."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import orjson

from palestra.errors import CallError, Hopeless, ModelError
from palestra.responses_api_models.chat import ChatCompletionsServer, ChatModelConfig
from palestra.responses_api_models.chat.provider_errors import ContextOverflow
from palestra.responses_api_models.chat.request import to_chat_request
from palestra.responses_api_models.chat.response import overflow_response, to_response
from palestra.responses_api_models.chat.upstream import Answered
from palestra.responses_api_models.vllm_model.capabilities import Capabilities, common, probe
from palestra.responses_api_models.vllm_model.completions import chat_answer, overflow_answer
from palestra.responses_api_models.vllm_model.history import (
    items_of,
    previous_of_items,
    previous_of_messages,
    without_tokens,
)
from palestra.responses_api_models.vllm_model.token_ids import (
    Continuity,
    State,
    attach,
    seal_items,
    seal_messages,
)
from palestra.responses_api_models.vllm_model.turns import Turn, Turns
from palestra.schema import (
    ChatCompletion,
    ChatCreateParams,
    Response,
    ResponseCreateParams,
    UpstreamChoice,
    UpstreamCompletion,
    encode_json,
)
from palestra.serving import Session
from palestra.transport import HttpRequest

logger = logging.getLogger("palestra.vllm_model")

UNNEEDED_S = 3.0
"""How long what no setting needs is asked for."""
PROBE_TIMEOUT_S = 30.0
"""For each question about an endpoint; one of them has it generate a token."""


class VLLMModelConfig(ChatModelConfig):
    """Settings of `vllm_model`."""

    return_token_id_information: bool = False
    """Put `prompt_token_ids`, `generation_token_ids` and `generation_log_probs` on the last item
    of every turn, and have each turn's prompt start with the ids before it."""
    has_token_ids: ClassVar[bool] = True


class VLLMModel(ChatCompletionsServer):
    """The Responses API in front of a Chat Completions endpoint."""

    config: VLLMModelConfig

    @cached_property
    def _found(self) -> list[Capabilities]:
        return []

    @cached_property
    def _probing(self) -> asyncio.Lock:
        return asyncio.Lock()

    @cached_property
    def _continuities(self) -> Counter[tuple[str, str]]:
        return Counter()

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        """One turn of the model. Raises `CallError` for whatever the endpoint refuses."""
        if not self.config.return_token_id_information:
            return await super().responses(body, session)
        model, settings = self.config.model, self._conversion
        request = to_chat_request(body, model=model, settings=settings)
        previous, why_not = previous_of_items(body, request["messages"], settings)
        turns = await self._turns(session)
        turn = await turns.ask(request, previous, why_not)
        if isinstance(turn, ContextOverflow):
            return overflow_response(body, model=model, sentence=turn.sentence)
        completion = _plain_completion(turn, with_log_probs=bool(request.get("logprobs")))
        response = to_response(completion, body, model=model, settings=settings)
        items = [*items_of(body), *response.output]
        seal = seal_items(items, turn.tokens, instructions=body.instructions, tools=body.tools)
        attach(response.output[-1], turn.tokens, self._counted(turn, seal))
        return response

    async def chat_completions(self, body: ChatCreateParams, session: Session) -> ChatCompletion:
        """One chat completion; with token ids on its message when they are asked for."""
        if not self.config.return_token_id_information:
            return await super().chat_completions(body, session)
        request = self._chat_request(body)
        request["messages"] = [without_tokens(message) for message in request["messages"]]
        tools = body.tools or []
        previous, why_not = previous_of_messages(body.messages, tools)
        turns = await self._turns(session)
        turn = await turns.ask(request, previous, why_not)
        if isinstance(turn, ContextOverflow):
            return overflow_answer(self.config.model)
        answer = chat_answer(
            turn, model=self.config.model, with_log_probs=bool(request.get("logprobs"))
        )
        message = answer.choices[0].message
        seal = seal_messages([*body.messages, message], turn.tokens, tools=tools)
        attach(message, turn.tokens, self._counted(turn, seal))
        return answer

    async def check(self) -> str:
        """Ask each endpoint what it serves and what it can do.

        Raises `CallError` when one cannot answer, or cannot do what a setting needs. What no
        setting needs is asked for a moment only, and may stay unknown.
        """
        served = await super().check()
        wanted = self.config.return_token_id_information
        lines = []
        try:
            async with asyncio.timeout(None if wanted else UNNEEDED_S):
                lines = [one.line() for one in await self._capabilities()]
        except (CallError, TimeoutError):
            if wanted:
                raise
        return "; ".join([served, *lines, *self._continuity_line()])

    # Endpoints

    async def _turns(self, session: Session) -> Turns:
        async def post(path: str, body: Mapping[str, Any]) -> Answered:
            return await self.post(path, body, session)

        return Turns(post, common(await self._capabilities()), server=self.name)

    async def _capabilities(self) -> list[Capabilities]:
        """What the endpoints can do, asked once of each that answers.

        Raises `CallError` when none does; `WrongSetting` for one that lacks what is needed.
        """
        if not self._found:
            async with self._probing:
                if not self._found:
                    self._found.extend(await self._probe_all())
        return self._found

    async def _probe_all(self) -> list[Capabilities]:
        if not self._base_urls:
            raise ModelError(f"{self.name} has no endpoint yet", hint="its start() must set one")
        results = await asyncio.gather(
            *(self._probe(url) for url in self._base_urls), return_exceptions=True
        )
        failed = [result for result in results if isinstance(result, BaseException)]
        found = [result for result in results if isinstance(result, Capabilities)]
        for error in failed:
            # One of several that cannot be reached is left to the choice among them.
            if not found or isinstance(error, Hopeless) or not isinstance(error, CallError):
                raise error
        return found

    async def _probe(self, base_url: str) -> Capabilities:
        wanted = self.config.return_token_id_information
        found = await probe(self._ask, base_url, self.config.model, want_token_ids=wanted)
        if wanted:
            found.require_token_ids(self.name)
        return found

    async def _ask(self, method: str, url: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        headers = {"content-type": "application/json"}
        if key := self.config.api_key.get_secret_value():
            headers["authorization"] = f"Bearer {key}"
        headers.update({name.lower(): value for name, value in self.config.default_headers.items()})
        sent = None if body is None else encode_json(body)
        reply = await self.server_client.http.send(
            HttpRequest(method, url, headers, sent, timeout_s=PROBE_TIMEOUT_S, repeatable=True)
        )
        try:
            return reply.status, orjson.loads(reply.body)
        except orjson.JSONDecodeError:
            return reply.status, None

    # Continuity

    def _counted(self, turn: Turn, seal: str) -> Continuity:
        kind = (turn.state.value, turn.reason)
        self._continuities[kind] += 1
        if turn.state is State.BROKEN and self._continuities[kind] == 1:
            logger.warning(
                "%s: a turn's prompt does not start with the ids of the turn before: %s "
                "(told once; each such turn is marked, token_continuity.state: broken)",
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


def _plain_completion(turn: Turn, *, with_log_probs: bool) -> UpstreamCompletion:
    made = turn.completion
    choice = made.choices[0]
    log_probs = choice.logprobs if with_log_probs else None
    return UpstreamCompletion(
        choices=[UpstreamChoice(choice.message, choice.finish_reason, log_probs)],
        model=made.model,
        id=made.id,
        created=made.created,
        usage=made.usage,
    )

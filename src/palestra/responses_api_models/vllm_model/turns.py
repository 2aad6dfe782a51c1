"""One model turn with its token ids, on policy if the endpoint accepts token ids.

The first turn is an ordinary chat completion. A later turn takes three steps, so that its prompt
can be the ids so far plus the ids of the new messages. The endpoint renders the chat (which also
returns its sampling settings and its grammar for the tools), generates from the ids that Palestra
combined, and parses the result with its own tool and reasoning parsers.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, final

from palestra.errors import CallError, CallEvidence, FieldProblem, ModelError, RowError
from palestra.responses_api_models.chat.provider_errors import ContextOverflow
from palestra.responses_api_models.chat.upstream import Answered, Upstream
from palestra.responses_api_models.vllm_model.capabilities import Capabilities, Question
from palestra.responses_api_models.vllm_model.splicing import spliced
from palestra.responses_api_models.vllm_model.token_ids import (
    MissingTokens,
    Reason,
    State,
    TokenChoice,
    TokenCompletion,
    decode_with_tokens,
    generated,
)
from palestra.responses_api_models.vllm_model.wire import (
    ASKED,
    CHAT,
    GENERATE,
    PARSE,
    RENDER,
    TOKENIZE,
    Generated,
    before_stop,
    decode_generated,
    read_ids,
    read_rendered,
    to_parse,
    to_tokenize,
    without_stop,
)
from palestra.schema import JsonDict, JsonObject, TurnTokens, UpstreamMessage, UpstreamUsage

Post = Callable[[str, JsonObject], Awaitable[Answered]]
"""A function that POSTs a body to a path of the session's endpoint. Raises `CallError`: it refuses.
"""

ONE_ANSWER = (None, 1)
"""The accepted values of `n` in a request: tokens and continuity belong to one answer."""

_NO_SUCH_PATH = frozenset({404, 405, 501})


@dataclass(frozen=True, slots=True)
class Previous:
    """The last turn with token ids. `messages`: the number of chat messages up to and including it.

    `sealed`: whether its seal shows that the turn and the history before it are unchanged.
    """

    tokens: TurnTokens
    messages: int
    sealed: bool = True


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """The model's answer with its tokens. `state` and `reason` describe its continuity."""

    completion: TokenCompletion
    tokens: TurnTokens
    state: State
    reason: str = ""


@final
class Turns:
    """A client that requests turns from the endpoints of one session."""

    def __init__(
        self,
        post: Post,
        upstream: Upstream,
        capabilities: Capabilities,
        *,
        server: str,
        on_lacking: Callable[[], None] = lambda: None,
        log_probs_as_they_are: bool = False,
    ) -> None:
        """Store the settings of the client.

        `upstream`: reads the endpoint's answers. `on_lacking`: called when the endpoint turns out
        to accept no token ids. `log_probs_as_they_are`: skip the check of the log probs, because
        the caller checks them and decides about invalid ones.
        """
        self._post = post
        self._upstream = upstream
        self._can = capabilities
        self._server = server
        self._on_lacking = on_lacking
        self._log_probs_as_they_are = log_probs_as_they_are

    async def ask(
        self, request: JsonObject, previous: Previous | None, why_not: Reason | None = None
    ) -> ModelTurn | ContextOverflow:
        """Ask the endpoint for the next turn of the chat and return it.

        `why_not`: the reason why the prompt cannot begin with the token ids of the turn before; None
        when it can. Raises `CallError`: the endpoint refuses the request, or its answer lacks
        something. `RowError`:
        the request asks for several answers.
        """
        _require_one_answer(request)
        request = {**request, **ASKED}
        if previous is None:
            # Tasks may begin with turns that somebody wrote: that is no break.
            written = why_not in {None, Reason.NO_IDS}
            return await self._chat(
                request, None, State.FIRST if written else State.BROKEN, why_not
            )
        if not previous.sealed:
            # Nothing but the endpoint's own rendering says that these ids are this history's.
            return await self._chat(request, previous, State.BROKEN, Reason.UNSEALED)
        if not self._can.splices:
            return await self._chat(request, previous, State.BROKEN, Reason.RENDERED)
        try:
            return await self._continuing(request, previous)
        except CallError as error:
            if error.status not in _NO_SUCH_PATH:
                raise
        # Another endpoint took over, or this one was started anew, and takes no ids.
        self._on_lacking()
        return await self._chat(request, previous, State.BROKEN, Reason.RENDERED)

    # A chat completion

    async def _chat(
        self,
        request: JsonObject,
        previous: Previous | None,
        state: State,
        reason: Reason | None,
    ) -> ModelTurn | ContextOverflow:
        """Request an ordinary chat completion. Its prompt may still turn out to continue the turn
        before.
        """
        reply = await self._post(CHAT, request)
        completion = self._upstream.answers.read(*reply, decode_with_tokens)
        if isinstance(completion, ContextOverflow):
            return completion
        prompt = completion.prompt_token_ids or await self._tokenized(request, completion.usage)
        tokens = self._tokens(reply, prompt, completion.choices[0])
        if previous is not None:
            before = previous.tokens.all
            if tokens.prompt[: len(before)] == before:
                continued = State.CONTINUED if previous.sealed else State.UNSEALED
                return ModelTurn(completion, tokens, continued)
        return ModelTurn(completion, tokens, state, reason.value if reason is not None else "")

    async def _tokenized(self, request: JsonObject, usage: UpstreamUsage | None) -> list[int]:
        """Return the prompt's token ids, for an endpoint that does not return them with the answer.

        Raises `ModelError`: their number differs from the prompt length that the endpoint reports.
        """
        if Question.TOKENIZE in self._can.unanswered:
            raise self._can.not_known(self._server, Question.TOKENIZE)
        if not self._can.tokenize:
            return []
        ids = await self._tokenize(to_tokenize(request))
        if isinstance(ids, ContextOverflow):
            return []
        if usage is not None and usage.prompt_tokens and len(ids) != usage.prompt_tokens:
            raise self._other_prompt(len(ids), usage.prompt_tokens)
        return ids

    async def _tokenize(self, body: JsonObject) -> list[int] | ContextOverflow:
        reply = await self._post(TOKENIZE, body)
        return self._upstream.answers.read_as("list of token ids", *reply, read_ids)

    # A chat in three steps

    async def _continuing(
        self, request: JsonObject, previous: Previous
    ) -> ModelTurn | ContextOverflow:
        rendered = await self._render(request)
        if isinstance(rendered, ContextOverflow):
            return rendered
        prompt = await self._continued(request, rendered, previous)
        if isinstance(prompt, ContextOverflow):
            return prompt
        if isinstance(prompt, Reason):
            return await self._chat(request, previous, State.BROKEN, prompt)
        return await self._generate(request, {**rendered, "token_ids": prompt})

    async def _render(self, request: JsonObject) -> JsonDict | ContextOverflow:
        reply = await self._post(RENDER, request)
        return self._upstream.answers.read_as("rendered chat", *reply, read_rendered)

    async def _continued(
        self, request: JsonObject, rendered: JsonObject, previous: Previous
    ) -> list[int] | Reason | ContextOverflow:
        """Return the prompt that continues the turn before, or the reason why there is none."""
        before = previous.tokens.all
        ids: list[int] = rendered["token_ids"]
        closed = before[-1] == self._can.closing_token
        if closed and ids[: len(before)] == before:
            return ids
        if rendered.get("features") is not None:
            return Reason.MEDIA
        body = to_tokenize({**request, "messages": request["messages"][: previous.messages]})
        closed_turns = {"add_generation_prompt": False, "continue_final_message": False}
        history = await self._tokenize({**body, **closed_turns})
        if isinstance(history, ContextOverflow):
            return history
        return spliced(before, ids, history, self._can.closing_token)

    async def _generate(
        self, request: JsonObject, generate: JsonObject
    ) -> ModelTurn | ContextOverflow:
        reply = await self._post(GENERATE, {**generate, "return_token_ids": True})
        answer = self._upstream.answers.read(*reply, decode_generated)
        if isinstance(answer, ContextOverflow):
            return answer
        choice = answer.choices[0]
        prompt: list[int] = generate["token_ids"]
        if answer.prompt_token_ids != prompt:
            raise self._lacking(reply, "another prompt than it was sent")
        entries = choice.logprobs.content if choice.logprobs is not None else []
        if [entry.token_id for entry in entries] != choice.token_ids[: len(entries)]:
            raise self._lacking(reply, "`token_ids` and the ids in its log probs that differ")
        log_probs: list[Any] = [entry.logprob for entry in entries]
        tokens = self._checked(reply, TurnTokens(prompt, choice.token_ids, log_probs))
        message = await self._parse(request, answer, prompt)
        completion = TokenCompletion(
            choices=[TokenChoice(message, finish_reason=choice.finish_reason)],
            model=answer.model or "",
            created=answer.created or 0,
            usage=answer.usage,
        )
        return ModelTurn(completion, tokens, State.CONTINUED)

    async def _parse(
        self, request: JsonObject, answer: Generated, prompt: list[int]
    ) -> UpstreamMessage:
        """Return the generated message, parsed by the endpoint's own parsers."""
        choice = answer.choices[0]
        ids = without_stop(choice)
        if not ids:
            return UpstreamMessage(content="")
        reply = await self._post(PARSE, to_parse(request, answer, prompt, ids))
        parsed = self._upstream.answers.read(*reply, decode_with_tokens)
        if isinstance(parsed, ContextOverflow):
            raise self._lacking(reply, parsed.sentence)
        message = parsed.choices[0].message
        if isinstance(choice.stop_reason, str) and not request.get("include_stop_str_in_output"):
            message.content = before_stop(message.content, choice.stop_reason)
        return message

    # Answers

    def _tokens(self, reply: Answered, prompt: list[int], choice: TokenChoice) -> TurnTokens:
        try:
            ids, log_probs = generated(choice)
        except MissingTokens as error:
            raise self._lacking(reply, str(error)) from error
        return self._checked(reply, TurnTokens(prompt, ids, log_probs))

    def _checked(self, reply: Answered, tokens: TurnTokens) -> TurnTokens:
        """Return `tokens` after checking them: the ids of every answer pass here. See
        `VLLMModel.token_verdict`.
        """
        problem = tokens.lacks() or tokens.fault_of_ids()
        if not problem and not self._log_probs_as_they_are:
            problem = tokens.fault_of_log_probs()
        if problem:
            raise self._lacking(reply, str(problem))
        return tokens

    def _other_prompt(self, tokenized: int, expected: int) -> ModelError:
        """Return the error for token ids that are not the prompt's. Otherwise the trainer would
        train on wrong ids.
        """
        error = ModelError(
            f"{self._server}: {self._can.base_url} read a prompt of {expected} tokens, but its "
            f"/tokenize returns {tokenized} tokens for the same request",
            hint="/tokenize renders this request differently (documents, images, a tool_choice "
            "that leaves tools out?); a vLLM that knows return_token_ids returns them with "
            "the answer",
        )
        error.retriable = False
        return error

    def _lacking(self, reply: Answered, instead: str) -> ModelError:
        error = ModelError(
            f"{self._server}: {reply.url} was asked for token ids, and it answered with {instead}",
            hint="set return_token_id_information: false to run without token ids",
        )
        body = reply.body if isinstance(reply.body, bytes) else b""
        return self._upstream.answers.failed(reply.url, body, error)


def _require_one_answer(request: JsonObject) -> None:
    count = request.get("n")
    if count in ONE_ANSWER:
        return
    expected = "1, as token ids are returned of one answer to a request"
    raise RowError(
        f"/n is {count!r}; expected: {expected}",
        hint="ask for each task as often as you want answers (num_repeats), or set "
        "return_token_id_information: false",
        evidence=CallEvidence(problems=(FieldProblem("/n", expected),)),
    )

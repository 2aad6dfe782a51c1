"""`ChatAnswerReader`: what one provider's answers mean, to the rollout that asked."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, final

from msgspec.structs import replace

from palestra.errors import Evidence, Hop, Hopeless, ModelError, add_hop, excerpt, mask_error
from palestra.responses_api_models.chat.provider_errors import (
    ContextOverflow,
    check_whole,
    classify,
    failure_status,
)
from palestra.schema import why_unreadable
from palestra.transport import AnsweredRollouts, HttpReply, current_call


class CompletionChoice(Protocol):
    """One of a completion's."""

    @property
    def finish_reason(self) -> str | None:
        """Why it ended, in the endpoint's word."""


class Completion(Protocol):
    """A chat completion, decoded one way or another."""

    @property
    def choices(self) -> Sequence[CompletionChoice]:
        """As many as were asked for."""


C = TypeVar("C", bound=Completion)
T = TypeVar("T")

_UNREADABLE = (ValueError, LookupError, TypeError, RecursionError)
"""What decoders raise. RecursionError: some thousand brackets, which none of them follows."""


@final
class ChatAnswerReader:
    """Reads bodies, and refusals.

    `server` is the model server's instance name, under which failures are reported; `mask` takes
    secrets out of a text, as an answer may quote them.
    """

    def __init__(
        self,
        *,
        server: str,
        model: str,
        mask: Callable[[str], str],
        answered_rollouts: AnsweredRollouts,
    ) -> None:
        self._server = server
        self._model = model
        self._mask = mask
        self._answered = answered_rollouts

    def read(
        self, url: str, body: bytes | ContextOverflow, decode: Callable[[bytes], C]
    ) -> C | ContextOverflow:
        """The whole completion in a success; an overflow stays one.

        Raises `CallError` when there is none, or one that the endpoint broke off.
        """
        if isinstance(body, ContextOverflow):
            return body
        # As `read_as`, in one frame: this is on the hottest path.
        try:
            completion = decode(body)
            if getattr(completion, "error", None) or not completion.choices:
                raise ValueError("no choices, or an error beside them")
        except _UNREADABLE as error:
            return self.no_answer(url, body, "chat completion", error)
        reasons = [choice.finish_reason for choice in completion.choices]
        try:
            check_whole(reasons, model=self._model, body=body)
        except ModelError as error:
            raise self.failed(url, body, error) from None
        self._answered.note(current_call())
        return completion

    def read_as(
        self, expected: str, url: str, body: bytes | ContextOverflow, decode: Callable[[bytes], T]
    ) -> T | ContextOverflow:
        """What `decode` makes of a success; an overflow stays one.

        `decode` raises ValueError, LookupError or TypeError for a body that is no `expected`. Raises
        `CallError` then.
        """
        if isinstance(body, ContextOverflow):
            return body
        try:
            return decode(body)
        except _UNREADABLE as error:
            return self.no_answer(url, body, expected, error)

    def failed(self, url: str, body: bytes, error: ModelError) -> ModelError:
        """`error`, which a success was found to tell of, with where and what was answered."""
        mask_error(error, self._mask)
        add_hop(error, Hop(self._server, url, 200, self._mask(excerpt(body))))
        return error

    def no_answer(self, url: str, body: bytes, expected: str, error: Exception) -> ContextOverflow:
        """What a success means that holds no answer: some routers report failures that way.

        Raises `CallError`, but for a context that is full.
        """
        status = failure_status(body)
        if status is None:
            raise self.unreadable(url, body, expected, error) from error
        return self.refused(url, HttpReply(status=status, body=body))

    def unreadable(self, url: str, body: bytes, expected: str, error: Exception) -> ModelError:
        """A success whose body is not what was asked for."""
        text = self._mask(excerpt(body))
        return ModelError(
            f"{self._server}: {url} answered 200 with what is no {expected} "
            f"({self._mask(why_unreadable(body, error))}): {text[:500]}",
            hint="does the base_url point to an OpenAI-compatible endpoint, /v1 included?",
            evidence=Evidence(hops=(Hop(self._server, url, 200, text),)),
        )

    def refused(self, url: str, reply: HttpReply) -> ContextOverflow:
        """What an answer of status 300 or more means. Raises `CallError`, but for a full context."""
        reply = replace(reply, body=self._mask(reply.body.decode("utf-8", "replace")).encode())
        failure = classify(reply, server=self._server, url=url, model=self._model)
        if isinstance(failure, ContextOverflow):
            return self.overflow(failure.sentence, failure.hop)
        raise failure

    def overflow(self, sentence: str, hop: Hop) -> ContextOverflow:
        """A full context in the rollout of the current call."""
        return ContextOverflow(sentence, hop, self._answered.knows(current_call()))

    def answered(self) -> None:
        """The model has answered the current call; `read` notes it by itself."""
        self._answered.note(current_call())

    def raise_hopeless(self, url: str, reply: HttpReply) -> None:
        """Raises `Hopeless` for a refusal that looks like one to wait for, and is none."""
        failure = classify(reply, server=self._server, url=url, model=self._model)
        if isinstance(failure, Hopeless):
            raise failure

    def hop(self, url: str, reply: HttpReply | None) -> Hop:
        """A call of the endpoint, with what it answered, if it did."""
        if reply is None:
            return Hop(self._server, url)
        return Hop(self._server, url, reply.status, self._mask(excerpt(reply.body)))

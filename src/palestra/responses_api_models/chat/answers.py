"""`ChatAnswerReader`: decodes a provider's answers and turns refusals into errors of the rollout."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, final

from msgspec.structs import replace

from palestra.errors import CallEvidence, Hop, Hopeless, ModelError, add_hop, excerpt, mask_error
from palestra.responses_api_models.chat.provider_errors import (
    ContextOverflow,
    check_whole,
    classify,
    failure_status,
)
from palestra.schema import why_unreadable
from palestra.transport import AnsweredRollouts, HttpReply, current_call


class CompletionChoice(Protocol):
    """One choice of a chat completion."""

    @property
    def finish_reason(self) -> str | None:
        """The endpoint's `finish_reason`: why the choice ended."""


class Completion(Protocol):
    """A chat completion, decoded by any of several decoders."""

    @property
    def choices(self) -> Sequence[CompletionChoice]:
        """The choices of the completion; their number is the number that the request asked for."""


C = TypeVar("C", bound=Completion)
T = TypeVar("T")

_UNREADABLE = (ValueError, LookupError, TypeError, RecursionError)
"""The errors that decoders raise. RecursionError: more nested brackets (thousands) than a decoder
can follow."""


@final
class ChatAnswerReader:
    """A reader of an endpoint's answers and refusals.

    `server`: the model server's instance name, used in error messages. `mask`: removes secrets from
    a text, because an answer may quote them.
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
        """Decode a successful answer and return the completion. A `ContextOverflow` is returned
        unchanged.

        Raises `CallError`: the body holds no completion, or the endpoint broke the answer off.
        """
        if isinstance(body, ContextOverflow):
            return body
        # As `read_as`, in one frame: this is on the hottest path.
        try:
            completion = decode(body)
            if getattr(completion, "error", None) or not completion.choices:
                raise ValueError("the answer has no choices, or also an error")
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
        """Return `decode(body)` of a successful answer. A `ContextOverflow` is returned unchanged.

        `decode` raises ValueError, LookupError or TypeError when the body is not what `expected`
        names. This method then raises `CallError`.
        """
        if isinstance(body, ContextOverflow):
            return body
        try:
            return decode(body)
        except _UNREADABLE as error:
            return self.no_answer(url, body, expected, error)

    def failed(self, url: str, body: bytes, error: ModelError) -> ModelError:
        """Add the URL and the answered body to `error`, mask its secrets, and return it.

        For an answer of status 200 whose body reports a failure.
        """
        mask_error(error, self._mask)
        add_hop(error, Hop(self._server, url, 200, self._mask(excerpt(body))))
        return error

    def no_answer(self, url: str, body: bytes, expected: str, error: Exception) -> ContextOverflow:
        """Classify an answer of status 200 that holds no completion: some routers report failures
        that way.

        Returns ContextOverflow: the context is full. Raises `CallError`: any other failure.
        """
        status = failure_status(body)
        if status is None:
            raise self.unreadable(url, body, expected, error) from error
        return self.refused(url, HttpReply(status=status, body=body))

    def unreadable(self, url: str, body: bytes, expected: str, error: Exception) -> ModelError:
        """Return the error for an answer of status 200 whose body is not what `expected` names."""
        text = self._mask(excerpt(body))
        return ModelError(
            f"{self._server}: {url} answered 200 with a body that is not a valid {expected} "
            f"({self._mask(why_unreadable(body, error))}): {text[:500]}",
            hint="does the base_url point to an OpenAI-compatible endpoint, /v1 included?",
            evidence=CallEvidence(hops=(Hop(self._server, url, 200, text),)),
        )

    def refused(self, url: str, reply: HttpReply) -> ContextOverflow:
        """Classify an answer of status 300 or more.

        Returns ContextOverflow: the context is full. Raises `CallError`: any other refusal.
        """
        reply = replace(reply, body=self._mask(reply.body.decode("utf-8", "replace")).encode())
        failure = classify(reply, server=self._server, url=url, model=self._model)
        if isinstance(failure, ContextOverflow):
            return self.overflow(failure.sentence, failure.hop)
        raise failure

    def overflow(self, sentence: str, hop: Hop) -> ContextOverflow:
        """Return the `ContextOverflow` for the rollout of the current call."""
        return ContextOverflow(sentence, hop, self._answered.knows(current_call()))

    def answered(self) -> None:
        """Record that the model has answered in the current call's rollout. `read` does this by
        itself.
        """
        self._answered.note(current_call())

    def raise_hopeless(self, url: str, reply: HttpReply) -> None:
        """Raise `Hopeless` when the refusal looks temporary, but no retry can help."""
        failure = classify(reply, server=self._server, url=url, model=self._model)
        if isinstance(failure, Hopeless):
            raise failure

    def hop(self, url: str, reply: HttpReply | None) -> Hop:
        """Return the record of one call of the endpoint, with the answer in `reply` if there was
        one.
        """
        if reply is None:
            return Hop(self._server, url)
        return Hop(self._server, url, reply.status, self._mask(excerpt(reply.body)))

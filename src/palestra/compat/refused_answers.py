"""The errors that servers answered during one call of an author's code.

An author may read such an answer without a look at its status. What the code raises then is about a
field that the answer lacks, and does not name the server that failed.
"""

import inspect
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from typing import Any, Final, Protocol, final

from pydantic import ValidationError
from starlette.exceptions import HTTPException

from palestra.compat.agent_calls import SeededSessions
from palestra.compat.http import EndpointRefused, ServerRefused
from palestra.compat.nemo_gym.judge import JudgeError
from palestra.errors import CallError
from palestra.server import error_text, own_frames

_ERROR_FIELDS: Final = frozenset({"error", "detail"})
"""The fields of which the body of an error has one: of Palestra's, of endpoints', of FastAPI's."""


class RefusedAnswer(Protocol):
    """An answer with an error status."""

    is_examined: bool
    """Whether the author's code has looked at the status."""

    def failure(self) -> CallError:
        """Return the error that the answer stands for."""
        ...


@final
class RefusedAnswers:
    """Of one call of an author's code: the last answer of each server, where it is an error.

    `where`: server and path of the code.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.sessions = SeededSessions()
        self.model_reply = b""
        """The body of the last answer of a model without an error; empty before the first."""
        self._by_server: dict[str, RefusedAnswer] = {}

    def note(self, server: str, answer: RefusedAnswer | None) -> None:
        """Record the last answer of a server; None when it is no error."""
        if answer is None:
            self._by_server.pop(server, None)
        else:
            self._by_server[server] = answer

    def failure_behind(self, error: Exception) -> CallError | None:
        """Return the failure of the server whose answer came last before the code raised `error`.

        None when no server failed, when the code looked at the status of each error, or when `error`
        names a failed call itself.
        """
        # Code that looked at the status has handled the answer: its error may be about anything else.
        unexamined = [answer for answer in self._by_server.values() if not answer.is_examined]
        if not unexamined or _names_its_call(error):
            return None
        failure = unexamined[-1].failure()
        failure.message = (
            f"{failure.message}; {self.where} then failed on this answer: {_short_text(error)}"
        )
        failure.args = (failure.message,)
        if not failure.evidence.traceback:
            failure.evidence = replace(failure.evidence, traceback=own_frames(error))
        return failure


_of_call: Final[ContextVar[RefusedAnswers | None]] = ContextVar(
    "palestra_refused_answers", default=None
)


def answers_of_call() -> RefusedAnswers | None:
    """Return the errors that servers answered in the current call of an author's code; None outside."""
    return _of_call.get()


def naming_refusals(function: Any, where: str) -> Any:
    """Return `function`, which raises the error of a server in place of the error that the server's
    answer led to. `where`: server and path of the function.
    """
    if not inspect.iscoroutinefunction(function):
        return function  # it cannot await the client

    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        answers = RefusedAnswers(where)
        token = _of_call.set(answers)
        try:
            return await function(*args, **kwargs)
        except Exception as error:
            failure = answers.failure_behind(error)
            if failure is None:
                raise
            raise failure from error
        finally:
            _of_call.reset(token)

    return call


def only_inner(error: BaseException | None) -> BaseException | None:
    """Return the only exception of a group that holds one; else `error` itself."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _short_text(error: Exception) -> str:
    """Return the type and text of an exception; without the fields that an error answer lacks, which
    say nothing more.
    """
    inner = only_inner(error)
    if isinstance(inner, ValidationError) and any(
        _is_error_body(problem["input"]) for problem in inner.errors()
    ):
        return f"{type(inner).__name__} of {inner.title}"
    return error_text(error)


def _is_error_body(value: Any) -> bool:
    return isinstance(value, dict) and not _ERROR_FIELDS.isdisjoint(value)


def _names_its_call(error: BaseException) -> bool:
    inner = only_inner(error)
    if isinstance(inner, JudgeError):
        inner = only_inner(inner.__cause__)
    if isinstance(inner, ServerRefused):
        return isinstance(inner, EndpointRefused) or inner.failure is not None
    return isinstance(inner, CallError | HTTPException)

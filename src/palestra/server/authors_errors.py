"""Errors that escape from an author's code: whether the author's code caused them, and their text."""

import asyncio
import inspect
import signal
import threading
import traceback
from dataclasses import dataclass
from typing import Final

from fastapi.exceptions import ResponseValidationError
from pydantic import ValidationError

from palestra.config import ServerType
from palestra.errors import CallError, CallEvidence, ends_of
from palestra.schema import RejectedField, rejection_text
from palestra.transport import fault_of

ESCAPES = (Exception, SystemExit, KeyboardInterrupt, asyncio.CancelledError)
"""Exceptions that a server's code may raise and that must not reach its callers: `sys.exit` in a
verifier would end the whole run, and a cancelled await inside the code would lose the rollout."""

LONGEST_TEXT: Final = 1000
"""The most characters of an exception's text in a message, but for what stands in its middle."""
_REJECTIONS = (ValidationError, ResponseValidationError)

TIME_LIMIT: Final = "rollout_timeout (of reverify and verify-env: timeout)"
"""The name of the setting that limits a rollout's time, for error messages."""


class CalledExit(Exception):
    """An author's code raised SystemExit or KeyboardInterrupt, which is the cause of this error.

    Tasks raise this one in its place: those two end the event loop when they leave a task.
    """


def raised_by_author(error: BaseException) -> BaseException:
    """Return the exception that an author's code raised, when `error` is in its place."""
    is_stand_in = isinstance(error, CalledExit) and error.__cause__ is not None
    return error.__cause__ or error if is_stand_in else error


def stops_this_task(error: BaseException) -> bool:
    """Whether `error` is the cancellation of this task or a Ctrl-C, and not an error that the code
    raised.
    """
    if isinstance(error, KeyboardInterrupt):
        return is_ctrl_c(error)
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def is_ctrl_c(error: KeyboardInterrupt) -> bool:
    """Whether a user's Ctrl-C may have caused the error, and not a `raise` in the code.

    Palestra's commands and server processes handle the signal, so that it raises nothing there.
    """
    if threading.current_thread() is not threading.main_thread():
        return False  # signals are handled by the main thread alone
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename == asyncio.runners.__file__


def text_of(error: BaseException) -> str:
    """Return the text of an exception, escaped so that it can always be written and sent. The text
    of a rejection by a model is one line, with every field and its reason.
    """
    try:
        text = _rejection(error) if isinstance(error, _REJECTIONS) else str(error)
    except Exception as inner:
        text = f"(its text cannot be made: {type(inner).__name__})"
    return text.encode("utf-8", "backslashreplace").decode()


def _rejection(error: ValidationError | ResponseValidationError) -> str:
    name = error.title if isinstance(error, ValidationError) else "the result"
    fields = [
        RejectedField(
            "".join(f"/{step}" for step in problem["loc"]),
            str(problem["msg"]).removeprefix("Value error, "),
        )
        for problem in error.errors()
    ]
    if len(fields) == 1 and not fields[0].pointer:  # a check of the model itself
        return f"{name}: {fields[0].sentence}"
    return f"{name} rejects {rejection_text(fields)}"


def error_text(error: BaseException) -> str:
    """Return the type and text of an exception for a message, such as `KeyError: 'x'`."""
    error = raised_by_author(error)
    return named_text(type(error).__name__, text_of(error))


def named_text(kind: str, text: str) -> str:
    """Return the type and text of an exception for a message; its type alone when it has no text.

    Of a long text the beginning and the end: `float(answer)` quotes the whole answer.
    """
    return _of_kind(kind, ends_of(text, LONGEST_TEXT))


def whole_error_text(error: BaseException) -> str:
    """Return the type and text of an exception, not shortened, as a model reads it."""
    error = raised_by_author(error)
    return _of_kind(type(error).__name__, text_of(error))


def _of_kind(kind: str, text: str) -> str:
    return f"{kind}: {text}" if text else kind


class UnfitResult(Exception):
    """Error: an author's function returned what cannot be sent. It did not raise.

    Its text begins with `returned`. `hint`: what to return. `function`: `FILE:LINE in NAME`; empty
    when it is in no file.
    """

    def __init__(self, text: str, *, hint: str, function: str) -> None:
        super().__init__(text)
        self.hint = hint
        self.function = function


AWAIT: Final = "write async def, and await the call: return await …"


def unawaited_call(value: object) -> str:
    """Return that a value is the call of an async function that nobody awaited; empty when it is
    not. The call is closed, else Python would print a RuntimeWarning, too.
    """
    if not inspect.iscoroutine(value):
        return ""
    value.close()
    return f"a call of {value.__qualname__} that was not awaited, and not its result"


@dataclass(frozen=True, slots=True)
class AuthorsPlace:
    """A line of an author's file. `function` is empty when only the call is known."""

    function: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}" if self.file else ""

    def in_sentence(self) -> str:
        """Return ` in FUNCTION, FILE:LINE` for a sentence; empty when the line is not known."""
        return f" in {self.function}, {self.file}:{self.line}" if self.file else ""


def ended_process(
    server: str,
    path: str,
    author: AuthorsPlace,
    how: str,
    *,
    server_type: str = ServerType.RESOURCES,
) -> CallError:
    """Return the error of a call whose code ended its own process. `how`: `exit code 3`, for one."""
    failure = fault_of(server_type, path)(
        f"{server}{path} ended the process that it ran in ({how}){author.in_sentence()}",
        hint="look for os._exit in that function, or for a library that ends the process",
        evidence=CallEvidence(traceback=str(author)),
    )
    failure.retriable = False
    return failure


def overran(
    server: str,
    path: str,
    author: AuthorsPlace,
    ran_s: float,
    *,
    server_type: str = ServerType.RESOURCES,
) -> CallError:
    """Return the error of a call whose author's code was still running at the rollout's deadline.

    `author`: the innermost frame of the author's own code at that moment.
    """
    return fault_of(server_type, path)(
        f"{server}{path} was still running after {ran_s:.1f} s{author.in_sentence()}, and was "
        "stopped",
        hint=f"set a time limit in the code at that line, or raise {TIME_LIMIT}",
        evidence=CallEvidence(traceback=str(author)),
    )

"""Errors that escape from an author's code: whether the author's code caused them, and their text."""

import asyncio
from dataclasses import dataclass
from typing import Final

from palestra.config import ServerType
from palestra.errors import CallError, CallEvidence
from palestra.transport import fault_of

ESCAPES = (Exception, SystemExit, asyncio.CancelledError)
"""Exceptions that a server's code may raise and that must not reach its callers: `sys.exit` in a
verifier would end the whole run, and a cancelled await inside the code would lose the rollout."""

TIME_LIMIT: Final = "rollout_timeout (of reverify and verify-env: timeout)"
"""The name of the setting that limits a rollout's time, for error messages."""


def stops_this_task(error: BaseException) -> bool:
    """Whether `error` is the cancellation of this task, and not an error that the code raised."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def text_of(error: BaseException) -> str:
    """Return the text of an exception, escaped so that it can always be written and sent."""
    try:
        text = str(error)
    except Exception as inner:
        text = f"(its text cannot be made: {type(inner).__name__})"
    return text.encode("utf-8", "backslashreplace").decode()


def error_text(error: BaseException) -> str:
    """Return the type and text of an exception, such as `KeyError: 'x'`."""
    return f"{type(error).__name__}: {text_of(error)}"


@dataclass(frozen=True, slots=True)
class AuthorsPlace:
    """A line of an author's file. `function` is empty when only the call is known."""

    function: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}" if self.file else ""


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
    where = f" in {author.function}, {author.file}:{author.line}" if author.file else ""
    return fault_of(server_type, path)(
        f"{server}{path} was still running after {ran_s:.1f} s{where}, and was stopped",
        hint=f"set a time limit in the code at that line, or raise {TIME_LIMIT}",
        evidence=CallEvidence(traceback=str(author)),
    )

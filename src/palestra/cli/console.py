"""What the user sees of an error, and what the shell sees of it."""

import contextlib
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NoReturn

import orjson

from palestra.cli.escaping import visible
from palestra.errors import CallError, PalestraError, mask_error, with_cause

INTERRUPTED = 130
THREADS_END_S = 0.5


def say(text: str = "") -> None:
    """A line for the user on standard output."""
    sys.stdout.write(visible(text) + "\n")
    sys.stdout.flush()


def say_json(value: object) -> None:
    """A JSON document on standard output."""
    say(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def notice(text: str) -> None:
    """A line beside the output proper, on standard error: above the live view where one runs."""
    sys.stderr.write(visible(text) + "\n")
    sys.stderr.flush()


def show_error(error: PalestraError, mask: Callable[[str], str] = str) -> int:
    """Print one clear error, and return the exit code that goes with it."""
    notice(mask(f"error: {with_cause(error.message, error.cause)}"))
    if isinstance(error, CallError):
        for hop in error.evidence.hops:
            if hop.body and not _told(hop.body, error.message):
                notice(mask(f"  {hop.server} {hop.url} answered {hop.status}: {hop.body[:500]}"))
    if hint := error.hint or _known_hint(error):
        notice(mask(f"hint: {hint}"))
    return error.exit_code


def _known_hint(error: PalestraError) -> str:
    """What the table of known troubles advises, where the error itself advises nothing."""
    # Only a command that fails pays for reading it.
    from palestra.doctor import hint_for

    return hint_for(error)


def _told(body: str, message: str) -> bool:
    """Whether `message` says already what `body` has to say: one of its sentences, or all of it."""
    try:
        decoded: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        decoded = body
    return any(sentence in message for sentence in _sentences(decoded))


def _sentences(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if " " in value:
            yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _sentences(inner)


@contextlib.contextmanager
def masking(secrets: Collection[str]) -> Iterator[None]:
    """Nothing that the body logs or raises shows one of `secrets`."""
    from palestra.config import Redactor

    mask = Redactor(secrets)
    masked = _MaskedRecords(mask)
    handlers = logging.getLogger("palestra").handlers
    for handler in handlers:
        handler.addFilter(masked)
    try:
        yield
    except PalestraError as error:
        mask_error(error, mask)
        raise
    finally:
        for handler in handlers:
            handler.removeFilter(masked)


class _MaskedRecords(logging.Filter):
    """Rewrites what a handler is about to write."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        super().__init__()
        self._mask = mask

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._mask(record.getMessage()), None
        if record.exc_info:
            lines = traceback.format_exception(*record.exc_info)
            record.exc_text = self._mask("".join(lines).rstrip())
        return True


def fail(error: PalestraError) -> NoReturn:
    """Print the error and exit with its code."""
    raise SystemExit(show_error(error))


def guarded(command: Callable[[], int]) -> NoReturn:
    """Run a command; exit with its code, or with that of the error it raised."""
    _set_up_logging()
    try:
        code = command()
    except PalestraError as error:
        code = show_error(error)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = 1
    _leave_threads_behind(code)
    raise SystemExit(code)


def _leave_threads_behind(code: int) -> None:
    """Exit at once when a thread is left that may never end, as an author's verifier can be.

    The interpreter would wait for it. Idle threads of pools end by themselves in the meantime.
    """
    deadline = time.monotonic() + THREADS_END_S
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                leave_now(code)


def leave_now(code: int) -> NoReturn:
    """End the process without waiting for anybody; what was printed is out."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def warn_all(warnings: Iterable[str]) -> None:
    """Print the warnings of a configuration."""
    for warning in warnings:
        notice(f"warning: {warning}")


class _Notices(logging.Handler):
    """Log lines as notices: they find the standard error of the moment, live view or not."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record; a broken stream must not break who logs."""
        try:
            notice(self.format(record))
        except Exception:
            self.handleError(record)


def _set_up_logging() -> None:
    handler = _Notices()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    root = logging.getLogger("palestra")
    if not root.handlers:
        root.addHandler(handler)
        root.setLevel(logging.INFO)

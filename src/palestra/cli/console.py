"""Print to the user, show errors, and set the exit code of a command."""

import contextlib
import errno
import io
import logging
import os
import shlex
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import orjson

from palestra.cli.entry import INTERRUPTED
from palestra.cli.escaping import visible
from palestra.errors import (
    CallError,
    ConfigError,
    PalestraError,
    RunFailed,
    ends_of,
    mask_error,
    with_cause,
)
from palestra.programs import (
    has_flags,
    takes_overrides,
    typed_program,
    with_commands_of,
    with_settings_of,
)
from palestra.system import exit_in_order, exit_quickly

if TYPE_CHECKING:
    from palestra.settings import SettingProblem

THREADS_END_S = 0.5
STDOUT = 1
STDERR = 2
STOPPED = "stopped"
"""The last word of a command that serves until Ctrl-C."""


def is_plain() -> bool:
    """Whether the user wants text without colours: `NO_COLOR`, `--no-color`, or a simple terminal."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in {"dumb", "unknown"}


def say(text: str = "") -> None:
    """Print one line for the user on standard output."""
    sys.stdout.write(visible(text) + "\n")
    sys.stdout.flush()


class _DocumentStream(io.TextIOWrapper):
    """Standard output while `stdout_for_json` keeps it for a document."""


def say_json(value: object, *, on_one_line: bool = False) -> None:
    """Print a JSON document on standard output, also inside `stdout_for_json`.

    `on_one_line`: for a command that prints several documents.
    """
    option = 0 if on_one_line else orjson.OPT_INDENT_2
    document = visible(orjson.dumps(value, option=option).decode())
    stream = sys.__stdout__ if isinstance(sys.__stdout__, _DocumentStream) else sys.stdout
    if stream is not None:
        stream.write(document + "\n")
        stream.flush()


@contextlib.contextmanager
def stdout_for_json() -> Iterator[None]:
    """Keep standard output for the document that `say_json` prints.

    Everything else that the body prints goes to standard error: the lines of the command, and what
    authors' code and child processes write. Nothing changes where a program has replaced `sys.stdout`.
    """
    original = sys.__stdout__
    if original is None or sys.stdout is not original:
        yield
        return
    original.flush()
    with (
        _DocumentStream(os.fdopen(os.dup(STDOUT), "wb"), encoding="utf-8") as document,
        contextlib.redirect_stdout(sys.stderr),
    ):
        os.dup2(STDERR, STDOUT)
        sys.__dict__["__stdout__"] = document  # typeshed calls it final
        try:
            yield
        finally:
            sys.__dict__["__stdout__"] = original
            document.flush()
            os.dup2(document.fileno(), STDOUT)


def notice(text: str) -> None:
    """Print one line on standard error. With a live view, the line appears above it."""
    sys.stderr.write(visible(text) + "\n")
    sys.stderr.flush()


def show_error(error: PalestraError, mask: Callable[[str], str] = str) -> int:
    """Print one clear error, and return its exit code."""
    error = _in_words_typed(error)
    notice(mask(f"error: {with_cause(error.message_in_words(in_words_called), error.cause)}"))
    if isinstance(error, CallError):
        for hop in error.evidence.hops:
            if hop.body and not _post_message(hop.body, error.message):
                notice(mask(f"  {hop.server} {hop.url} answered {hop.status}: {hop.body[:500]}"))
    if hint := hint_of(error):
        notice(mask(f"hint: {hint}"))
    return error.exit_code


def _in_words_typed(error: PalestraError) -> PalestraError:
    """Return an error about settings in the words of the command line: its flags, where they were
    typed.
    """
    if not isinstance(error, ConfigError):
        return error
    from palestra.settings import InvalidSettings

    program = typed_program()
    if not isinstance(error, InvalidSettings):
        if not has_flags(program):
            return error
        from palestra.cli.flags_for_overrides import with_flags_named

        return with_flags_named(error, sys.argv[1:])
    return error.in_words_of(
        sys.argv[1:], by_flags=has_flags(program), takes_flags=not takes_overrides(program)
    )


def hint_of(error: PalestraError) -> str:
    """Return what the user can do about an error, with the commands of the program that the user
    called; empty when nothing is known.
    """
    if error.hint:
        return error.hint_in_words(in_words_called)
    return in_words_called(_known_hint(error))


def in_words_called(text: str) -> str:
    """Return `text` with quoted commands of `palestra` in the words of the program that the user
    called, and overrides as the flags of the command that was typed.
    """
    typed = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return with_settings_of(typed, with_commands_of(typed_program(), text))


def _known_hint(error: PalestraError) -> str:
    """Return a hint from the table of known problems, for an error without a hint of its own."""
    # Only a command that fails pays for reading it.
    from palestra.doctor import hint_for

    return hint_for(error)


def _post_message(body: str, message: str) -> bool:
    """Whether `message` already contains a sentence of `body`."""
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


def command_line(secrets: Collection[str]) -> str:
    """Return the command that the user typed, with `secrets` and the values of settings with
    secret-like names masked.
    """
    from palestra.config import MASK, Redactor, is_secret_name

    def masked(word: str) -> str:
        name, equals, _ = word.partition("=")
        is_secret = equals and any(map(is_secret_name, name.lstrip("+~-").split(".")))
        return f"{name}={MASK}" if is_secret else word

    return Redactor(secrets)(shlex.join([Path(sys.argv[0]).name, *map(masked, sys.argv[1:])]))


@contextlib.contextmanager
def masking(secrets: Collection[str]) -> Iterator[None]:
    """Mask `secrets` in everything that the body logs, and in the errors that it raises."""
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
    """A logging filter that masks secrets in each record before a handler writes it."""

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
    """Run a command; exit with its code, or with the code of the error that it raised."""
    _set_up_logging()
    exit_quickly()
    threads_before = threading.enumerate()
    try:
        code = command()
    except PalestraError as error:
        code = show_error(error)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = 1
    except OSError as error:
        code = _end_on_refusal(error)
    _leave_threads_behind(code, threads_before)
    raise SystemExit(code)


def _end_on_refusal(error: OSError) -> int:
    """Show what the system refused, and return the exit code. Raises OSError: it is a bug."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return _end_on_full_disk(error)
    if error.errno in {errno.ENAMETOOLONG, errno.EACCES} and isinstance(error.filename, str):
        name = ends_of(error.filename, 300)
        return show_error(
            ConfigError(
                f"{name}: {error.strerror}", hint="name another file, or mend its permissions"
            )
        )
    raise error


def _end_on_full_disk(error: OSError) -> int:
    """Show that nothing more can be written, drop what standard output still holds, and return the
    exit code.
    """
    with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123  # a device
        document = sys.__stdout__
        for stream in (STDOUT, document.fileno() if document is not None else STDOUT):
            os.dup2(nowhere.fileno(), stream)
    target = error.filename or "what the command prints"
    return show_error(
        RunFailed(f"cannot write {target}: {error.strerror}", hint="free space there")
    )


def _leave_threads_behind(code: int, threads_before: Sequence[threading.Thread]) -> None:
    """Exit at once when the command leaves a thread that may never end, such as an author's verifier.

    The interpreter would wait for that thread. Idle threads of pools get a moment to end by
    themselves. `threads_before`: those of who called the command, who may go on.
    """
    deadline = time.monotonic() + THREADS_END_S
    for thread in threading.enumerate():
        if thread not in threads_before and not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                leave_now(code)


def leave_now(code: int) -> NoReturn:
    """Flush the output and end the process, without waiting for any thread."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    exit_in_order(code)


def warn_all(warnings: Iterable[str]) -> None:
    """Print the warnings of a configuration."""
    for warning in warnings:
        notice(f"warning: {warning}")


def warn_of_setting(problem: "SettingProblem") -> None:
    """Print a warning about a setting, which is called as the user typed it."""
    notice(f"warning: {problem.text(sys.argv[1:])}")


class _Notices(logging.Handler):
    """A log handler that prints records as notices, on the standard error that is set at that
    moment.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record; an error of the stream does not reach the code that logs."""
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

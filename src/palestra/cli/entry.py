"""The beginning of every command, while its modules are imported: Ctrl-C ends it without a traceback.

Console scripts import this module first, so it imports no other module of Palestra.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any, Final, TypeVar

INTERRUPTED: Final = 130
"""The exit code of a command that Ctrl-C ended."""
_STDERR: Final = 2
Result = TypeVar("Result")


def exits_on_interrupt(command: Callable[[], Result]) -> Callable[[], Result]:
    """Make a console script exit with `INTERRUPTED` on Ctrl-C."""

    def run() -> Result:
        try:
            return command()
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    return wraps(command)(run)


@exits_on_interrupt
def main() -> None:
    """Run the `palestra` console script."""
    imported("palestra.cli.main:main")()


@contextmanager
def ending_imports_on_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process at once while the body imports modules.

    KeyboardInterrupt would be lost where Python runs a callback, and a package could catch it. The
    body must not do anything that needs an orderly end. A handler of the program's own stays.
    """
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def imported(name: str) -> Any:
    """Import the object `module:attribute`; a name without a module is in `palestra.settings`."""
    module, _, attribute = name.rpartition(":")
    with ending_imports_on_interrupt():
        return getattr(import_module(module or "palestra.settings"), attribute)


def _end(*_: object) -> None:
    os.write(_STDERR, b"stopped by SIGINT before the command began\n")
    os._exit(INTERRUPTED)

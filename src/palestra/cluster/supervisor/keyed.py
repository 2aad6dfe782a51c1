"""A server that takes its key on the command line alone, run so that nobody reads the key there.

    --keyed MODULE ARGUMENT…

runs a Python module with `--api-key` and the key of this job added to its arguments inside the
process, where whoever lists processes does not see it; and masks the key in what it prints, since
such servers print their arguments.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import IO

from palestra.cluster.plan import KEY_VARIABLE
from palestra.system import start

MODULE = "--keyed-module"
MASK = b"****"
LAST_WORDS_S = 2.0
"""What is printed is waited for so long once the server has ended: others may hold its output."""


def run_keyed(arguments: Sequence[str]) -> int:
    """Run the module in a process of its own, masking the key in its output; its exit code."""
    key = os.environ[KEY_VARIABLE].encode()
    child = start(
        [sys.executable, sys.argv[0], MODULE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        own_session=False,  # who ends this group ends the server, too
    )

    def tell(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, tell)
    printing = threading.Thread(
        target=copy_masked, args=(child.stdout, sys.stdout.buffer, key), daemon=True
    )
    printing.start()
    code = child.wait()
    printing.join(LAST_WORDS_S)
    return code if code >= 0 else 128 - code


def copy_masked(source: IO[bytes], target: IO[bytes], key: bytes) -> None:
    """Copy as it comes, with the key masked also where it comes in pieces."""
    unwritten = b""
    while True:
        block = os.read(source.fileno(), 1 << 16)
        unwritten = (unwritten + block).replace(key, MASK)
        # What may be the beginning of the key waits for its end.
        waits = next((n for n in range(len(key) - 1, 0, -1) if unwritten.endswith(key[:n])), 0)
        waits = waits if block else 0
        target.write(unwritten[: len(unwritten) - waits])
        target.flush()
        unwritten = unwritten[len(unwritten) - waits :]
        if not block:
            return


def run_module(arguments: Sequence[str]) -> int:
    """Run a module as `python -m` does, with the key among its arguments."""
    module, *module_arguments = arguments
    sys.path[0] = str(os.getcwd())  # noqa: PTH109  # as -m has it
    sys.argv = [module, *module_arguments, "--api-key", os.environ.pop(KEY_VARIABLE)]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0

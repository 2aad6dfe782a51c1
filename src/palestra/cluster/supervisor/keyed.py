"""Run a server that takes its API key only on the command line, without showing the key there.

    --keyed MODULE ARGUMENT…

This runs a Python module and adds `--api-key` with the job's key to its arguments. They are added
inside the process, so the key is not visible in the list of processes. The key is also masked in
the server's output, since such servers print their arguments.
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
"""How long to read output after the server has ended. Other processes may keep the output open."""


def run_keyed(arguments: Sequence[str]) -> int:
    """Run the module in a separate process and mask the key in its output. Return its exit code."""
    key = os.environ[KEY_VARIABLE].encode()
    child = start(
        [sys.executable, sys.argv[0], MODULE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        own_session=False,  # who ends this group ends the server, too
    )

    def pass_on(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    printing = threading.Thread(
        target=copy_masked, args=(child.stdout, sys.stdout.buffer, key), daemon=True
    )
    printing.start()
    code = child.wait()
    printing.join(LAST_WORDS_S)
    return code if code >= 0 else 128 - code


def copy_masked(source: IO[bytes], target: IO[bytes], key: bytes) -> None:
    """Copy output at once as it arrives, with the key masked, even when a read splits the key."""
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
    """Run a module as `python -m` does, with the key added to its arguments."""
    module, *module_arguments = arguments
    sys.path[0] = str(os.getcwd())  # noqa: PTH109  # as -m has it
    sys.argv = [module, *module_arguments, "--api-key", os.environ.pop(KEY_VARIABLE)]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0

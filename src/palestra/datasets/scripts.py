"""Run prepare scripts, each in its own process. Child processes end together with the script.

A script's whole process group is killed when it finishes, times out, or is cancelled. This works
even when this process is killed: the script then notices that the pipe to this process is closed.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from palestra.schema import JsonObject
from palestra.system import end_group, start

_RUN: Final = """
import importlib, json, os, runpy, signal, sys, threading
def end_with_who_asks(line):
    os.read(line, 1)
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=end_with_who_asks, args=(int(sys.argv[4]),), daemon=True).start()
script, arguments = sys.argv[1], json.loads(sys.argv[2])
sys.path.append(os.getcwd())
importlib.import_module("palestra.compat.aliases").make_importable(script)
found = runpy.run_path(script, run_name="prepare_script").get("prepare")
if found is None:
    sys.exit(f"{script} defines no prepare()")
made = found(**arguments)
sys.stdout.flush()
with open(sys.argv[3], "w") as answer:
    json.dump(None if made is None else str(made), answer)
"""
CONFIG_VARIABLE: Final = "NEMO_GYM_CONFIG_DICT"
"""The environment variable from which a script reads its configuration, as YAML."""
_MOST_READ: Final = 1 << 20
"""The maximum number of bytes kept from the end of a script's output."""


@dataclass(frozen=True, slots=True)
class Done:
    """The exit code and output of a finished script."""

    exit_code: int | None
    """The exit code. None: the script timed out."""
    printed: str
    """The end of the script's output."""


class Scripts:
    """Runs scripts and tracks the running ones. Leaving the context with an exception, such as
    Ctrl-C, kills all of them.
    """

    def __init__(self) -> None:
        self._running: set[int] = set()
        self._wanted = True
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del kind, trace
        if error is None:
            return
        with self._lock:
            self._wanted = False
            for group in self._running:
                end_group(group)

    def run(
        self,
        script: Path,
        arguments: JsonObject,
        answer: Path,
        *,
        timeout_s: float,
        config: JsonObject | None = None,
    ) -> Done:
        """Run a script's `prepare(**arguments)` and write the path that it returns to the file
        `answer`.

        `config`: the configuration that the script can read; None: it has none.
        """
        env = (
            None
            if config is None
            else {**os.environ, CONFIG_VARIABLE: json.dumps(config, default=str)}
        )
        script_arguments = [str(script), json.dumps(dict(arguments)), str(answer)]
        # Not a pipe, which whoever the script leaves behind would keep open.
        with tempfile.TemporaryFile(prefix="palestra-script-") as printed:
            # -P: a json.py in the working directory must not hide the standard library's.
            command = [sys.executable, "-P", "-c", _RUN, *script_arguments]
            with self._started(command, printed, env) as process:
                try:
                    code: int | None = process.wait(timeout_s)
                except subprocess.TimeoutExpired:
                    code = None
            return Done(code, _last_of(printed))

    @contextlib.contextmanager
    def _started(
        self, command: list[str], printed: IO[bytes], env: Mapping[str, str] | None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a process. When the body ends, kill its whole process group."""
        theirs, ours = os.pipe()
        try:
            with self._lock:
                process = start(
                    [*command, str(theirs)],
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                    env=env,
                    pass_fds=[theirs],
                )
                self._running.add(process.pid)
                if not self._wanted:
                    end_group(process.pid)
            try:
                yield process
            finally:
                with self._lock:
                    self._running.discard(process.pid)
                    end_group(process.pid)
                process.wait()
        finally:
            os.close(theirs)
            os.close(ours)


def _last_of(printed: IO[bytes]) -> str:
    end = printed.seek(0, os.SEEK_END)
    printed.seek(max(0, end - _MOST_READ))
    return printed.read().decode(errors="replace")

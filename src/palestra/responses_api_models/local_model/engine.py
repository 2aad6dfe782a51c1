"""The child process that serves the model: llama.cpp's own HTTP server, through xllamacpp.

The process reads its order, one line of JSON, from standard input and prints `READY <url>`. It runs
while its standard input stays open, so it also ends when the parent dies.

It is run as a file and imports nothing of Palestra: those imports would cost a second and 50 MB.
"""

import ctypes
import importlib
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

READY = "READY "
NO_ENGINE = 3
"""Exit code: xllamacpp is not installed, or does not run on this machine."""

_PR_SET_PDEATHSIG = 1

_ERRORS, _INFO = 1, 3
"""Two of llama.cpp's verbosity levels."""


@dataclass(frozen=True, slots=True)
class EngineOrder:
    """The settings of one engine. `context_tokens` is per slot; all slots generate at once."""

    model_path: str
    model_name: str
    api_key: str = field(repr=False)
    """The key that every caller must send, because any user of a shared machine can reach a
    loopback port. Empty: no key is required."""
    context_tokens: int
    slots: int
    threads: int
    connections: int
    """The maximum number of open requests; each occupies a thread of the HTTP server."""
    parent_pid: int
    chat_template_path: str = ""
    verbose: bool = False
    host: str = "127.0.0.1"
    port: int = 0

    def as_line(self) -> bytes:
        """Return the order as JSON, for the engine's standard input."""
        return json.dumps(asdict(self)).encode()


def main() -> int:
    """Serve until standard input ends, and return the exit code. SIGTERM ends the process as usual."""
    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    order = EngineOrder(**json.loads(line))
    _die_with_parent(order.parent_pid)
    _wait_politely()
    try:
        # Not an import statement: type checkers run where this extra is not installed.
        xllamacpp: Any = importlib.import_module("xllamacpp")
    except ImportError as error:
        sys.stderr.write(
            f"xllamacpp cannot be imported ({error}); install it: pip install 'palestra[local]'\n"
        )
        return NO_ENGINE
    server = xllamacpp.Server(_params(xllamacpp, order))
    sys.stdout.write(f"{READY}{server.listening_address}\n")
    sys.stdout.flush()
    while sys.stdin.buffer.read(4096):
        pass
    # Not sys.exit: taking the server down in order would first finish what it is generating.
    os._exit(0)


def _params(xllamacpp: Any, order: EngineOrder) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = order.model_path
    params.model_alias = {order.model_name}
    params.hostnames = [order.host]
    params.port = order.port
    params.api_keys = [order.api_key] if order.api_key else []
    params.n_parallel = order.slots
    params.n_ctx = order.context_tokens * order.slots
    params.cpuparams.n_threads = order.threads
    params.cpuparams_batch.n_threads = order.threads
    params.n_threads_http = order.connections + 2
    # States of past prompts, kept in memory: the default of 8 GiB would fill with a long run.
    params.cache_ram_mib = 256
    # A conversation that ends with the model's own words gets a new turn, as elsewhere.
    params.prefill_assistant = False
    params.use_jinja = True
    if order.chat_template_path:
        params.chat_template = Path(order.chat_template_path).read_text(encoding="utf-8")
    params.verbosity = _INFO if order.verbose else _ERRORS
    params.endpoint_slots = False
    params.ui = False
    return params


def _wait_politely() -> None:
    """Make waiting OpenMP threads sleep soon instead of spinning for milliseconds.

    Measured with two threads on two busy processors: 5 times faster; on idle processors no
    difference. The variables are read when the library is loaded.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def _die_with_parent(parent_pid: int) -> None:
    """Make the kernel kill this process when the parent dies: while the model loads, no Python code
    can run.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main())

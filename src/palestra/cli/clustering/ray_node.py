"""Run one node of a job's Ray cluster, and report whether all nodes have joined.

The first node answers over HTTP: 503 while nodes are missing, then 200 with the cluster's address.
Requests need the job's key, which Ray itself requires too.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Final

from palestra.cli.console import notice
from palestra.cluster import PortLocks, address_here, answered
from palestra.errors import ConfigError, RunFailed
from palestra.system import bears_token, start

TOKEN: Final = "RAY_AUTH_TOKEN"  # noqa: S105 - the name of a variable
OBJECTS_BYTES: Final = 256 * 2**20
"""The size of Ray's object store. It holds the requests and responses of calls: texts, not arrays.
"""
START_S: Final = 90.0
"""A node that ends within this time is started again: the first node was not up yet, or Ray's
agents got no CPU time on a busy machine."""
TRIES: Final = 5
LOOK_EVERY_S: Final = 1.0
REMOVE_S: Final = 5.0
ASK_S: Final = 20.0
COUNTING: Final = """
import sys, time, ray
ray.init(address=sys.argv[1], log_to_driver=False)
while True:
    print(sum(bool(node["Alive"]) for node in ray.nodes()), flush=True)
    time.sleep(1)
"""
"""A program that prints once a second how many nodes of the cluster are alive."""


def first_node(ray_port: int, *, cpus: int, nodes: int, status: tuple[str, int]) -> int:
    """Run the first node, and report at `status` (host and port) whether all `nodes` have joined.

    Raises ConfigError: Ray is not installed. Raises RunFailed: Ray does not start.
    """
    address = f"{address_here()}:{ray_port}"
    roll = _Roll(address, nodes)
    server = _Status(status, roll)
    threading.Thread(target=server.serve_forever, daemon=True, name="status").start()
    threading.Thread(target=roll.call, daemon=True, name="roll").start()
    port = ["--head", "--port", str(ray_port), "--include-dashboard", "false"]
    return _run([*port, *_client_port()], cpus)


def further_node(first: str, *, cpus: int) -> int:
    """Run a node that joins the first node at `first` (HOST:PORT). Raises the errors of
    `first_node`.
    """
    return _run(["--address", first], cpus)


def address_of_cluster(host: str, port: int, key: str) -> str:
    """Ask the first node for the cluster's address. Raises RunFailed: it does not answer with an
    address.
    """
    request = urllib.request.Request(
        f"http://{host}:{port}/", headers={"Authorization": f"Bearer {key}"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=ASK_S) as reply:
            return str(json.load(reply)["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFailed(f"the address of the job's Ray cluster cannot be read: {error}") from error


def _client_port() -> list[str]:
    """Choose a free port for the Ray client server: Ray's default is the same for every job on a
    node.
    """
    if find_spec("grpc") is None:
        return []
    return ["--ray-client-server-port", str(PortLocks().choose(None))]


def _run(flags: Sequence[str], cpus: int) -> int:
    """Run `ray start` until it ends by itself, or until a signal ends this process."""
    if find_spec("ray") is None:
        raise ConfigError(
            "Ray is not installed in the Python that the job uses",
            hint="pip install 'palestra[ray]'",
        )
    folder = _folder()
    # -P: a json.py in the working directory must not hide the standard library's.
    command = [sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block", *flags]
    command += ["--node-ip-address", address_here(), "--temp-dir", str(folder)]
    command += ["--num-cpus", str(cpus), "--num-gpus", "0", "--disable-usage-stats"]
    command += ["--object-store-memory", str(OBJECTS_BYTES), "--dashboard-agent-listen-port", "0"]
    try:
        return _kept_up(command)
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove Ray's folder. Its last processes may still write there for a moment."""
    deadline = time.monotonic() + REMOVE_S
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(LOOK_EVERY_S / 10)


def _folder() -> Path:
    """Return the folder for Ray's temporary files: only this job uses it, and its path is short for
    sockets.
    """
    mark = hashlib.sha256(os.environ.get(TOKEN, "").encode()).hexdigest()[:8]
    return Path("/tmp") / f"ray-{os.getuid()}-{mark}"  # noqa: S108 - named after a secret


def _kept_up(command: Sequence[str]) -> int:
    ending = threading.Event()
    for attempt in range(1, TRIES + 1):
        began = time.monotonic()
        with start(command, own_session=False) as process:

            def end(
                _number: int,
                _frame: FrameType | None,
                process: subprocess.Popen[bytes] = process,
            ) -> None:
                ending.set()
                process.terminate()

            signal.signal(signal.SIGTERM, end)
            signal.signal(signal.SIGINT, end)
            code = process.wait()
        if ending.is_set() or time.monotonic() - began > START_S:
            return code if code >= 0 else 128 - code
        notice(
            f"Ray ended with exit code {code} while it was starting (attempt {attempt} of {TRIES})"
        )
        ending.wait(LOOK_EVERY_S)
    raise RunFailed(
        f"Ray did not start in {TRIES} attempts",
        hint="its output is above; `Check failed` in raylet.err names the cause",
    )


class _Roll:
    """Counts the nodes of the cluster that Ray reports as alive."""

    def __init__(self, address: str, node_count: int) -> None:
        self.address = address
        self.wanted = node_count
        self.alive = 0

    def call(self) -> None:
        """Count the nodes again and again, once the first node is up."""
        while True:
            if _listens(self.address):
                self._count()
            self.alive = 0
            time.sleep(LOOK_EVERY_S)

    def _count(self) -> None:
        """Count in a separate process, because Ray's client takes over the signals of its process."""
        command = [sys.executable, "-P", "-c", COUNTING, self.address]
        with start(command, stdout=subprocess.PIPE, own_session=False) as counts:
            for line in counts.stdout or ():
                self.alive = int(line)


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    return answered(host, int(port))


class _Status(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], roll: _Roll) -> None:
        self.roll = roll
        super().__init__(address, _Answer)


class _Answer(BaseHTTPRequestHandler):
    server: _Status

    def do_GET(self) -> None:
        roll = self.server.roll
        credentials = self.headers.get("Authorization", "")
        if not bears_token(credentials.encode(), os.environ.get(TOKEN, "")):
            return self._reply(401, {"error": "this Ray cluster belongs to another job"})
        report = {"address": roll.address, "nodes": roll.alive, "wanted": roll.wanted}
        return self._reply(200 if roll.alive >= roll.wanted else 503, report)

    def _reply(self, status: int, report: object) -> None:
        body = json.dumps(report).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing for a request."""

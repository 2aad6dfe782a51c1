"""A real `palestra view`, asked over HTTP as its page does."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks import machine

MOST_WAIT_S = 600


class ViewerServer:
    """One running viewer. `started`: when its command was given, on the monotonic clock."""

    def __init__(self, process: subprocess.Popen[str], started: float) -> None:
        self._process, self.started = process, started
        assert process.stdout is not None
        line = next(line for line in process.stdout if "#token=" in line)
        address, _, self._token = line.strip().rpartition("#token=")
        self._host = urlsplit(address.split()[-1]).netloc
        self._most_mib = 0.0
        threading.Thread(target=self._watch_memory, daemon=True).start()

    def get(self, path: str) -> Any:
        """The reply to one request."""
        connection = http.client.HTTPConnection(self._host, timeout=MOST_WAIT_S)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
            reply = connection.getresponse()
            body = reply.read()
        finally:
            connection.close()
        if reply.status != http.client.OK:
            raise SystemExit(f"{path}: {reply.status} {body[:300]!r}")
        return json.loads(body)

    def only_run(self) -> str:
        """The path of the only run's requests."""
        return f"/api/r/{self.get('/api/runs')['runs'][0]['id']}"

    def when(self, path: str, is_there: Any) -> float:
        """Seconds from the command to the first reply that `is_there` accepts."""
        while not is_there(self.get(path)):
            if time.monotonic() - self.started > MOST_WAIT_S:
                raise SystemExit(f"{path}: nothing after {MOST_WAIT_S} s")
            time.sleep(0.05)
        return time.monotonic() - self.started

    def cpu_s(self) -> float:
        return machine.cpu_ns(self._process.pid) / 1e9

    def most_memory_mib(self) -> float:
        """The most memory that no file backed since the start, looked at 100 times a second."""
        return self._most_mib

    def _watch_memory(self) -> None:
        status = Path(f"/proc/{self._process.pid}/status")
        with suppress(OSError, StopIteration):
            while True:
                lines = status.read_text().splitlines()
                line = next(line for line in lines if line.startswith("RssAnon:"))
                self._most_mib = max(self._most_mib, int(line.split()[1]) / 1024)
                time.sleep(0.01)


@contextmanager
def viewer(run: Path, cache: Path) -> Iterator[ViewerServer]:
    """`palestra view RUN` until the body ends."""
    command = [str(Path(sys.executable).with_name("palestra")), "view", str(run)]
    started = time.monotonic()
    process = subprocess.Popen(
        [*command, "--no-browser", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PALESTRA_CACHE_DIR": str(cache)},
    )
    try:
        yield ViewerServer(process, started)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)

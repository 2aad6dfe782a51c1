"""The processes of a run that can be killed or stopped, and how to find them."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from faults_world import HERE, free_port

UPSTREAM, MODEL, AGENT, ENVIRONMENT = (
    "upstream",
    "policy_model",
    "steady_agent",
    "fault_environment",
)
BLOCKS = {
    MODEL: "responses_api_models.openai_model",
    AGENT: "responses_api_agents.simple_agent",
    ENVIRONMENT: "resources_servers.fault_environment",
}


@dataclass
class UpstreamProcess:
    """The fake upstream as a process on a port that stays the same."""

    longest_s: float
    tasks: int
    port: int
    process: "subprocess.Popen[bytes]"

    @classmethod
    def start(cls, longest_s: float, tasks: int, port: int = 0) -> "UpstreamProcess":
        port = port or free_port()
        process = subprocess.Popen(
            [sys.executable, HERE / "fake_upstream.py", str(port), str(longest_s), str(tasks)],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return cls(longest_s, tasks, port, process)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def back(self) -> None:
        """Make it answer again, whatever was done to it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
        else:
            self.end()
            self.process = self.start(self.longest_s, self.tasks, self.port).process

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextlib.contextmanager
def upstream(longest_s: float, tasks: int) -> Iterator[UpstreamProcess]:
    made = UpstreamProcess.start(longest_s, tasks)
    try:
        yield made
    finally:
        made.end()


def in_processes() -> tuple[list[str], dict[str, int]]:
    """Overrides that give each server a process and a port of its own, and the ports."""
    ports = {name: free_port() for name in BLOCKS}
    overrides = [
        f"++{name}.{block}.{setting}"
        for name, block in BLOCKS.items()
        for setting in ("placement=process", f"port={ports[name]}")
    ]
    return overrides, ports


def listener_among(pids: list[int], port: int) -> int:
    """Which of these processes listens on `port`."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {
        f"socket:[{row[9]}]"
        for row in rows
        if row[3] == "0A" and int(row[1].rsplit(":", 1)[1], 16) == port
    }
    for pid in pids:
        if inodes & _open_files(pid):
            return pid
    raise AssertionError(f"none of {pids} listens on {port}")


def _open_files(pid: int) -> set[str]:
    held: set[str] = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            held.add(str(entry.readlink()))
    return held

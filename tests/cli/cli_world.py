"""Commands as their users run them: real processes in an empty folder, with a fleet of their own."""

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from forked_commands import ForkedCommands
from palestra.errors import ConfigError
from palestra.responses_api_models.local_model import find_weights
from palestra.system import children_of

SCRIPTS = Path(sys.executable).parent
MULTI_STEP = "resources_servers/example_multi_step/configs/example_multi_step.yaml"
SINGLE_CALL = "resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml"
OPENAI = "responses_api_models/openai_model/configs/openai_model.yaml"
VLLM = "responses_api_models/vllm_model/configs/vllm_model.yaml"
TASKS = "resources_servers/example_multi_step/data/example.jsonl"
AGENT = "example_multi_step_simple_agent"
KEY = "sk-a-key-of-the-tests"


def without_engine() -> str:
    """Why the local model cannot run here; empty when it can."""
    if importlib.util.find_spec("xllamacpp") is None:
        return "xllamacpp is not installed"
    try:
        find_weights(None)
    except ConfigError as error:
        return error.message
    return ""


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The errors it reported."""
        return [line for line in self.err.splitlines() if line.startswith("error: ")]

    def refused(self) -> str:
        """The one clear error of bad input."""
        assert "Traceback" not in self.err + self.out
        assert "RuntimeWarning" not in self.err
        assert self.code == 2, self.err
        assert len(self.errors) == 1, self.err
        return self.err[self.err.index("error: ") :]


@dataclass
class World:
    """An empty folder to run commands in, and a head port that nobody else uses."""

    folder: Path
    run_dir: Path
    head_port: int
    started: list["Running"] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that its commands get beside the usual ones."""
    scripts: Path = SCRIPTS
    """Where its commands are."""
    commands: ForkedCommands | None = None
    """What runs those of `run`; none: they are started."""

    @property
    def head(self) -> str:
        """The override by which every command of this world finds its fleet."""
        return f"++head_server.port={self.head_port}"

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
        ours = {"PALESTRA_RUN_DIR": str(self.run_dir), "COLUMNS": "200"}
        return {**kept, **ours, **self.environment}

    def run(self, command: str, *arguments: str, timeout_s: float = 50, within: str = "") -> Done:
        """Run a console script to its end, in the folder or one `within` it."""
        folder, environment = self.folder / within, self._environment()
        if self.commands is not None and "/" not in command:
            done = self.commands.run(
                command, arguments, cwd=folder, env=environment, timeout_s=timeout_s
            )
        else:
            done = subprocess.run(
                [self.scripts / command, *arguments],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, command: str, *arguments: str) -> "Running":
        """Start a console script; the world ends it at the latest."""
        log = self.run_dir / f"{command}-{len(self.started)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [self.scripts / command, *arguments],
                cwd=self.folder,
                env=self._environment(),
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        running = Running(process, log)
        self.started.append(running)
        return running

    def start_on(self, terminal: int, command: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a console script on a terminal of its own; the caller waits for its end."""
        environment = {**self._environment(), "TERM": "linux"}
        return subprocess.Popen(
            [self.scripts / command, *arguments],
            cwd=self.folder,
            env={name: value for name, value in environment.items() if name != "COLUMNS"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a JSONL file."""
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def files(self) -> list[str]:
        """Every file and folder that is there."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))


@dataclass
class Running:
    """A command that runs, with what it has printed so far."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def text(self) -> str:
        return self.log.read_text()

    def until(self, says: str, *, timeout_s: float = 50) -> None:
        """Wait until it has printed `says`."""
        until(lambda: says in self.text() or self.process.poll() is not None, timeout_s=timeout_s)
        assert says in self.text(), self.text()

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def ended(self, *, timeout_s: float) -> int:
        """Its exit code, which must come in time."""
        return self.process.wait(timeout=timeout_s)

    def children(self) -> list[int]:
        """The processes that it started: its run, where a guard watches that, and those of the run."""
        return descendants(self.process.pid)

    def end(self) -> None:
        """End it, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        try:
            self.process.wait(timeout=8)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def descendants(pid: int) -> list[int]:
    """The processes that this one started, and those that they started."""
    children = children_of(pid)
    return [*children, *(below for child in children for below in descendants(child))]


def until(holds: Callable[[], bool], *, timeout_s: float = 45) -> None:
    """Wait for something outside of this process; there is no event to wait on.

    The time is for a machine on which much else runs: a command may not have started in 20 s.
    """
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def free_port() -> int:
    """A port that nobody listened on a moment ago, outside of the range that fleets use."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def alive(pid: int) -> bool:
    """Whether the process still runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def listens(port: int) -> bool:
    """Whether somebody accepts connections there."""
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


CAPTURED_401 = {
    "error": {
        "message": "Incorrect API key provided: sk-a-key*****ests. You can find your API key at "
        "https://platform.openai.com/account/api-keys.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_api_key",
    }
}
"""A provider's answer to a wrong key, as it was captured; the key was another one."""


def reply(text: str = "done") -> dict[str, Any]:
    """A response with one message."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    return {
        "id": "resp_1",
        "created_at": 0,
        "model": "tiny",
        "object": "response",
        "output": [{"type": "message", "id": "m", "role": "assistant", "content": content}],
        "usage": usage,
    }


@dataclass
class FakeEndpoint:
    """An endpoint that lists the model `tiny` and answers requests as told.

    `before_answer` gets how many requests have come, and may keep this one waiting.
    """

    status: int = 200
    body: dict[str, Any] = field(default_factory=reply)
    models_status: int = 200
    before_answer: Callable[[int], object] = bool
    asked: int = 0
    url: str = ""

    def answer(self, method: str) -> tuple[int, dict[str, Any]]:
        if method == "GET":
            models = {"object": "list", "data": [{"id": "tiny", "object": "model"}]}
            return self.models_status, models if self.models_status == 200 else self.body
        self.asked += 1
        self.before_answer(self.asked)
        return self.status, self.body

    @property
    def policy(self) -> list[str]:
        """The overrides that make it the policy."""
        return [
            f"++policy_base_url={self.url}",
            f"++policy_api_key={KEY}",
            "++policy_model_name=tiny",
        ]


@contextlib.contextmanager
def endpoint(fake: FakeEndpoint) -> Iterator[FakeEndpoint]:
    """Serve `fake` while the body runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            status, body = fake.answer(self.command)
            raw = json.dumps(body).encode()
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

        do_GET = do_POST = _answer  # noqa: N815  # the names that http.server calls

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base's name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""A folder to examine runs in, and an endpoint that can be broken in the ways endpoints are."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from palestra.cli.doctoring import doctor

VLLM = "responses_api_models/vllm_model/configs/vllm_model.yaml"
EQUIVALENCE = "resources_servers/equivalence_llm_judge/configs/equivalence_llm_judge.yaml"
MULTI_STEP = "resources_servers/example_multi_step/configs/example_multi_step.yaml"
TASKS = "resources_servers/equivalence_llm_judge/data/example.jsonl"
TOOL_TASKS = "resources_servers/example_multi_step/data/example.jsonl"
AGENT = "equivalence_llm_judge_simple_agent"
KEY = "sk-a-key-of-the-tests"

Row = dict[str, Any]


@dataclass
class FakeVLLM:
    """An endpoint of Chat Completions that lists `serves`, and answers as told."""

    serves: str = "tiny"
    says: str = "[[A!=B]]"
    key: str = KEY
    max_model_len: int = 4096
    """In tokens, of four characters of the request each."""
    takes_tools: bool = True
    any_name: bool = False
    busy: int = 0
    """The status with which it answers every chat, when it has no room."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def get(self, path: str) -> tuple[int, Any]:
        """What the endpoint says of itself."""
        if path.endswith("/models"):
            card = {"id": self.serves, "object": "model", "max_model_len": self.max_model_len}
            return 200, {"object": "list", "data": [card]}
        return (200, {"version": "0.32.0"}) if path == "/version" else (404, _error("no such path"))

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """An answer to a chat."""
        if path != "/v1/chat/completions":
            return 404, {"detail": "Not Found"}
        self.asked.append(body)
        if self.busy:
            return self.busy, _error("no room")
        if body["model"] != self.serves and not self.any_name:
            return 404, _error(f"The model `{body['model']}` does not exist.", "NotFoundError")
        if body.get("tools") and not self.takes_tools:
            return 400, _error(
                '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'
            )
        tokens = len(json.dumps(body["messages"])) // 4
        if tokens >= self.max_model_len:
            return 400, _error(
                f"This model's maximum context length is {self.max_model_len} tokens. However, "
                f"your request has {tokens} input tokens. Please reduce the length of the messages."
            )
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": self.says},
            "finish_reason": "stop",
        }
        usage = {"prompt_tokens": tokens, "completion_tokens": 4, "total_tokens": tokens + 4}
        return 200, {"id": "c", "model": self.serves, "choices": [choice], "usage": usage}


def _error(message: str, kind: str = "BadRequestError") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": None}}


@contextlib.contextmanager
def serving(fake: FakeVLLM) -> Iterator[FakeVLLM]:
    """Serve `fake` while the body runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.headers.get("authorization") != f"Bearer {fake.key}":
                status, body = 401, _error("Unauthorized")
            elif self.command == "GET":
                status, body = fake.get(self.path)
            else:
                status, body = fake.post(self.path, json.loads(raw))
            said = json.dumps(body).encode()
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

        do_GET = do_POST = _answer  # noqa: N815  # the names that http.server calls

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base's name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True)
class Examined:
    """What `palestra doctor --json` said."""

    code: int
    report: dict[str, Any]

    @property
    def causes(self) -> list[str]:
        """Of its errors."""
        return [f["cause"] for f in self.report["findings"] if f["severity"] == "error"]

    def finding(self, cause: str) -> dict[str, Any]:
        """The one finding of that cause."""
        found = [f for f in self.report["findings"] if f["cause"] == cause]
        assert len(found) == 1, self.report["findings"]
        one: dict[str, Any] = found[0]
        assert one["next_action"]
        return one

    def check(self, name: str) -> dict[str, Any]:
        """What was said of one check."""
        return next(c for c in self.report["checks"] if c["name"] == name)


@dataclass
class Ward:
    """An empty folder in which runs are examined, against `endpoint`."""

    folder: Path
    endpoint: FakeVLLM
    capsys: pytest.CaptureFixture[str]

    def examine(
        self, *overrides: str, configs: tuple[str, ...] = (EQUIVALENCE, VLLM), **flags: Any
    ) -> Examined:
        """`palestra doctor --json` over the example tasks, or what `flags` say."""
        self.capsys.readouterr()
        given = self.asked(**flags)
        code = doctor([*self.arguments(configs), *overrides], extra=given, as_json=True)
        return Examined(code, json.loads(self.capsys.readouterr().out))

    def asked(self, **flags: Any) -> dict[str, Any]:
        """The settings of the run that is examined."""
        asked = {
            "input_jsonl_fpath": TASKS,
            "output_jsonl_fpath": "out/rollouts.jsonl",
            "agent_name": AGENT,
            **flags,
        }
        return {name: value for name, value in asked.items() if value is not None}

    def arguments(self, configs: tuple[str, ...] = (EQUIVALENCE, VLLM)) -> list[str]:
        """Its configuration."""
        return [
            f"+config_paths=[{','.join(configs)}]",
            f"++policy_base_url={self.endpoint.url}",
            f"++policy_api_key={KEY}",
            "++policy_model_name=tiny",
        ]

    def rows(self, name: str, rows: list[Any]) -> str:
        """A file of rows; a text is a line as it stands."""
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines))
        return name

    def write(self, name: str, text: str) -> str:
        """A file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return name

    def line_of(self, name: str, word: str) -> int:
        """The first line that holds `word`, from 1."""
        lines = (self.folder / name).read_text().splitlines()
        return next(number for number, line in enumerate(lines, start=1) if word in line)


def task(question: str = "Which gas?", **more: Any) -> Row:
    """A row of the judge's environment."""
    params = {"input": [{"role": "user", "content": question}], **more.pop("params", {})}
    return {"responses_create_params": params, "expected_answer": "carbon dioxide", **more}


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port

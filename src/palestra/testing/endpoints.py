"""A model endpoint for a test of a model server: a real socket that answers what the test says."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from palestra.config import PACKAGE_ROOT, ServerType, load_config
from palestra.fleet import assembled
from palestra.schema import JsonDict, JsonObject, Response, ResponseCreateParams, said, to_plain

MODEL = "scripted"
"""The one model that a scripted endpoint serves."""


@dataclass(frozen=True, slots=True)
class EndpointRequest:
    """A request as it came."""

    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: JsonObject


@dataclass(frozen=True, slots=True)
class EndpointError:
    """An answer that is an error, in the shape that OpenAI's API gives it."""

    status: int
    message: str

    @property
    def body(self) -> JsonDict:
        """The JSON of the answer."""
        error = {"message": self.message, "type": "invalid_request_error"}
        return {"error": {**error, "param": None, "code": None}}


@dataclass
class ScriptedEndpoint:
    """Answers Chat Completions and Responses in order, and keeps what it was asked."""

    answers: list[str | EndpointError]
    url: str = ""
    """Without a path: `http://127.0.0.1:PORT`."""
    asked: list[EndpointRequest] = field(default_factory=list)

    @property
    def policy(self) -> list[str]:
        """The overrides that make it the policy."""
        settings = {"base_url": f"{self.url}/v1", "api_key": "sk-scripted", "model_name": MODEL}
        return [f"++policy_{name}={value}" for name, value in settings.items()]

    def answer(self, request: EndpointRequest) -> tuple[int, JsonDict]:
        """Status and body of the next answer, as the path's API has it."""
        self.asked.append(request)
        answer = self.answers[len(self.asked) - 1]
        if isinstance(answer, EndpointError):
            return answer.status, answer.body
        if request.path.endswith("/responses"):
            return 200, _response(answer)
        return 200, _completion(answer)


@contextlib.contextmanager
def scripted_endpoint(*answers: str | EndpointError) -> Iterator[ScriptedEndpoint]:
    """An endpoint on loopback that gives these answers (texts or errors), one a request."""
    endpoint = ScriptedEndpoint(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """The models."""
            self._send(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})

        def do_POST(self) -> None:
            """The next answer."""
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send(*endpoint.answer(EndpointRequest(self.path, headers, body)))

        def _send(self, status: int, answer: JsonObject) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base's name
            """Nothing: a test prints what it wants to."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    endpoint.url = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def model_response(folder: str | Path, text: str, *overrides: str) -> Response:
    """What the model server of `folder`, by its shipped config and `overrides`, answers to `text`.

    The server is started and stopped. Raises what it raises.
    """
    where = PACKAGE_ROOT / folder
    config = load_config(
        config_paths=[str(where / "configs" / f"{where.name}.yaml")],
        overrides=overrides,
        cwd=where.parents[1],
        use_env_yaml=False,
    )
    (instance,) = config.instances_of(ServerType.MODEL)

    async def ask() -> Response:
        async with assembled(config, [instance.name]) as assembly:
            params = ResponseCreateParams.model_validate({"input": text})
            peer = assembly.client.peer(instance.name)
            return await peer.call("/v1/responses", params, Response)

    return asyncio.run(ask())


def _response(text: str) -> JsonDict:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    return {
        "id": "resp_1",
        "created_at": 0,
        "model": MODEL,
        "object": "response",
        "status": "completed",
        "output": [to_plain(said(text))],
        "usage": usage,
    }


def _completion(text: str) -> JsonDict:
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }

"""A scripted model endpoint for tests of a model server. It listens on a real socket."""

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from palestra.config import PACKAGE_ROOT, ServerType, load_config
from palestra.fleet import assembled
from palestra.schema import JsonDict, JsonObject, Response, ResponseCreateParams, said, to_plain

MODEL = "scripted"
"""The name of the only model of a scripted endpoint."""


@dataclass(frozen=True, slots=True)
class EndpointRequest:
    """A request as the endpoint received it."""

    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: JsonObject


@dataclass(frozen=True, slots=True)
class EndpointError:
    """An error response, in the format of OpenAI's API."""

    status: int
    message: str

    @property
    def body(self) -> JsonDict:
        """The JSON body of the response."""
        error = {"message": self.message, "type": "invalid_request_error"}
        return {"error": {**error, "param": None, "code": None}}


_PATHS = ("/chat/completions", "/responses")


@dataclass
class ScriptedEndpoint:
    """An endpoint that answers Chat Completions and Responses in order, and stores the requests."""

    answers: list[str | EndpointError]
    url: str = ""
    """The URL without a path: `http://127.0.0.1:PORT`."""
    asked: list[EndpointRequest] = field(default_factory=list)

    @property
    def policy(self) -> list[str]:
        """The overrides that make this endpoint the policy model."""
        settings = {"base_url": f"{self.url}/v1", "api_key": "sk-scripted", "model_name": MODEL}
        return [f"++policy_{name}={value}" for name, value in settings.items()]

    def answer(self, request: EndpointRequest) -> tuple[int, JsonDict]:
        """Return status and body of the next answer, in the format of the API at the request's
        path. Other paths, such as `/tokenize`, do not exist, and take no answer.
        """
        if not request.path.endswith(_PATHS):
            missing = EndpointError(404, f"{request.path} does not exist")
            return missing.status, missing.body
        self.asked.append(request)
        answer = self.answers[len(self.asked) - 1]
        if isinstance(answer, EndpointError):
            return answer.status, answer.body
        if request.path.endswith("/responses"):
            return 200, _response(answer)
        return 200, _completion(answer)


@contextlib.contextmanager
def scripted_endpoint(*answers: str | EndpointError) -> Iterator[ScriptedEndpoint]:
    """Run an endpoint on loopback that gives `answers` (texts or errors), one per request."""
    endpoint = ScriptedEndpoint(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """Send the list of models."""
            self._send(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})

        def do_POST(self) -> None:
            """Send the next answer."""
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
            """Log nothing, so that a test's own output stays readable."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    endpoint.url = f"http://127.0.0.1:{server.server_port}"
    # A daemon: a script that fails before it leaves the context must end with its error.
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield endpoint
    finally:
        # The interpreter has stopped daemons when it closes a context that nobody left.
        if not sys.is_finalizing():
            server.shutdown()
            serving.join()
        server.server_close()


def model_response(folder: str | Path, text: str, *overrides: str) -> Response:
    """Return the answer to `text` of the model server in `folder`, with its shipped config and
    `overrides`.

    The server is started for this call and stopped afterwards. Its errors are raised.
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

"""An endpoint of Chat Completions that answers at once."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CARD = {"id": "tiny", "object": "model", "max_model_len": 32_768}
ANSWER = {
    "id": "c",
    "model": "tiny",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Word."},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 500, "completion_tokens": 2, "total_tokens": 502},
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        known = self.path.endswith(("/models", "/chat/completions"))
        body: Any = {"data": [CARD]} if self.command == "GET" else ANSWER
        raw = json.dumps(body if known else {"error": {"message": "no such path"}}).encode()
        self.send_response(200 if known else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = _answer  # noqa: N815  # the names that http.server calls

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base's name
        """Say nothing."""


@contextlib.contextmanager
def endpoint() -> Iterator[str]:
    """Its base URL, while the body runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

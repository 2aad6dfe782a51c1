"""An endpoint of a model that answers with the ids of every token, as vLLM does."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER: dict[str, Any] = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "prompt_token_ids": [1, 2, 3],
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Answer: B"},
            "token_ids": [4, 5],
            "logprobs": {
                "content": [
                    {"token": token, "logprob": -0.5, "bytes": None, "top_logprobs": []}
                    for token in ("Answer:", " B")
                ]
            },
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        known = self.path.endswith("/chat/completions")
        body = json.dumps(ANSWER if known else {"error": "no such path"}).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextlib.contextmanager
def token_endpoint() -> Iterator[str]:
    """The base URL of one that runs."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            thread.join()

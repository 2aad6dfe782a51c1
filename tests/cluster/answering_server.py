"""A model server for tests: its answers depend on the request alone, its key is the job's nonce.

python answering_server.py --port PORT --key KEY [--model NAME] [--pause S] [--die-after N] [--says FILE] [--asked FILE]
"""

import argparse
import hashlib
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def answer(body: dict[str, Any], says: str = "") -> dict[str, Any]:
    """A response that the same request always gets, down to its id. `says`: its text, if given."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    text = says or "\\boxed{" + "ABCD"[int(digest[0], 16) % 4] + "}"
    content = {"type": "output_text", "text": text, "annotations": []}
    return {
        "id": f"resp_{digest[:16]}",
        "object": "response",
        "created_at": 1.0,
        "model": body.get("model", ""),
        "status": "completed",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "output_tokens": 5,
            "total_tokens": 15,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
        "output": [
            {
                "type": "message",
                "id": f"msg_{digest[:16]}",
                "role": "assistant",
                "status": "completed",
                "content": [content],
            }
        ],
    }


def tell(asked: Path | None) -> None:
    """One more line for the file that counts the requests, where there is one."""
    if asked is not None:
        with asked.open("a") as file:
            file.write(f"{time.time()}\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key", default=os.environ.get("PALESTRA_SERVER_KEY", ""))
    parser.add_argument("--model", default="scripted")
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--die-after", type=int, default=0)
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--says", type=Path, help="a file with the text of every answer")
    parser.add_argument("--asked", type=Path, help="a file that gets a line for each request")
    given = parser.parse_args()
    lock, asked = threading.Lock(), [0]
    says = given.says.read_text() if given.says else ""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self._allowed():
                self._reply(200, {"object": "list", "data": [{"id": given.model}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not self._allowed():
                return
            with lock:
                asked[0] += 1
                tell(given.asked)
            time.sleep(given.pause)
            with lock:
                if given.die_after and asked[0] > given.die_after:
                    print("the server has had enough", flush=True)  # noqa: T201
                    os._exit(given.exit)
            self._reply(200, answer(body, says))

        def _allowed(self) -> bool:
            if self.headers.get("Authorization") == f"Bearer {given.key}":
                return True
            self._reply(401, {"error": {"message": "not our key"}})
            return False

        def _reply(self, status: int, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Quiet."""

    # All rollouts of a shard may come at once.
    ThreadingHTTPServer.request_queue_size = 4096
    server = ThreadingHTTPServer((given.host, given.port), Handler)
    server.daemon_threads = True
    print(f"serving {given.model} on {given.port}", flush=True)  # noqa: T201
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())

"""A small HTTP server for fakes, on which whatever can go wrong on the way goes wrong.

Refusals quote the headers that they were sent, as the worst of proxies do: a token must not get
any further.
"""

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class Fault:
    """What happens to requests whose `METHOD /path` the pattern finds, so many times."""

    pattern: str
    status: int = 0
    """Answer with this."""
    cut_after: int | None = None
    """Answer rightly, and break the connection after so many bytes of the body."""
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    said: str = ""
    after: bool = False
    """Do what was asked for, and break the connection instead of answering."""
    hold: threading.Event | None = None
    """Before the answer, or after `cut_after` bytes of it, wait for this."""
    corrupt: bool = False
    """Send other bytes than there are."""


@dataclass
class FaultyState:
    """What a fake was asked, and what is to go wrong."""

    endpoint: str = ""
    faults: list[Fault] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    sent: list[dict[str, str]] = field(default_factory=list)
    """The headers of each request of `asked`."""
    ignores_ranges: bool = False

    def fault_of(self, request: str) -> Fault | None:
        """The first that is left for this request."""
        for fault in self.faults:
            if fault.times > 0 and re.search(fault.pattern, request):
                fault.times -= 1
                return fault
        return None

    def count(self, pattern: str) -> int:
        """How many requests there were of which `METHOD /path` fits."""
        return sum(1 for request in self.asked if re.search(pattern, request))


@contextlib.contextmanager
def serving(handler: "type[FaultyHandler]", state: FaultyState) -> Iterator[None]:
    """The fake, on loopback, while the body runs."""
    # The class is the server's own: it carries the state.
    server = _Quiet(("127.0.0.1", 0), type("Own", (handler,), {"state": state}))
    server.daemon_threads = True
    state.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Who hangs up is no error of ours."""


class Refusal(Exception):
    """The fake says no."""

    def __init__(self, status: int, error: str, code: str = "") -> None:
        super().__init__(error)
        self.status, self.error, self.code = status, error, code


class FaultyHandler(BaseHTTPRequestHandler):
    """Routes requests to methods, past the faults."""

    protocol_version = "HTTP/1.1"
    state: Any
    routes: list[tuple[str, Callable[..., None]]]

    def log_message(self, *_: object) -> None:
        """Silent."""

    def do_GET(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        self._query = parse_qs(parts.query)
        request = f"{self.command} {unquote(parts.path)}"
        self._body = self._read()
        self.state.asked.append(request)
        self.state.sent.append(dict(self.headers.items()))
        self._fault = self.state.fault_of(request)
        try:
            if self._fault is not None and self._fault.cut_after is None and self._fault.hold:
                self._fault.hold.wait(30)
            if self._fault is not None and self._fault.status:
                self._refuse(self._fault.status, self._fault.said or "trouble", "")
                return
            self._route(request)
        except Refusal as refusal:
            self._refuse(refusal.status, refusal.error, refusal.code)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _read(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def _route(self, request: str) -> None:
        for pattern, answer in self.routes:
            if found := re.fullmatch(pattern, request):
                answer(self, **found.groupdict())
                return
        raise Refusal(404, f"no such address: {request}")

    # Answers

    def bytes_(self, data: bytes, headers: dict[str, str]) -> None:
        fault = self._fault
        if fault is not None and fault.corrupt:
            data = bytes(255 - byte for byte in data)
        status, span = 200, self.headers.get("range", "")
        if span and not self.state.ignores_ranges:
            first = int(span.removeprefix("bytes=").split("-")[0])
            status = 206
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
            data = data[first:]
        self._answer(status, data, headers)

    def json_(self, value: Any, status: int = 200) -> None:
        self._answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _refuse(self, status: int, error: str, code: str) -> None:
        quoted = f"{error}; sent: {dict(self.headers.items())}"
        headers = {"X-Error-Message": error, "Content-Type": "application/json"}
        headers |= {"X-Error-Code": code} if code else {}
        headers |= self._fault.headers if self._fault is not None else {}
        self._answer(status, json.dumps({"error": quoted}).encode(), headers)

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        fault = self._fault
        if fault is not None and fault.after:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault is not None and fault.cut_after is not None:
            self.wfile.write(body[: fault.cut_after])
            self.wfile.flush()
            if fault.hold is not None:
                fault.hold.wait(30)
            self.close_connection = True
            return
        self.wfile.write(body)

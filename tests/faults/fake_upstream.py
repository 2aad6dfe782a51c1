"""A fake model endpoint over raw sockets: Chat Completions, Responses, and every way to fail.

It is no model: `plan` decides what becomes of each request. As a script it serves the staggered
plan, so that a test can kill or stop it as a process: `fake_upstream.py PORT LONGEST_S TASKS`.
"""

import asyncio
import contextlib
import json
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fault_plan import answer_of, task_in

MODEL = "tiny"
HANG_S = 3600.0


@dataclass(frozen=True)
class Asked:
    """One request; `nth` counts those of its rollout from 1."""

    path: str
    body: Mapping[str, Any]
    task: int
    rollout: int
    nth: int

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body.get("messages") or self.body["input"]

    @property
    def after_tool(self) -> bool:
        """Whether the conversation holds a tool's output already."""
        return any(m.get("role") == "tool" for m in self.messages)


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0


@dataclass(frozen=True)
class Cut:
    """An answer that announces more than comes before the connection closes."""

    body: bytes


@dataclass(frozen=True)
class Raw:
    """These bytes, whatever they are, and the end of the connection."""

    data: bytes


@dataclass(frozen=True)
class Trickle:
    """An answer that comes a byte at a time, for an hour."""


@dataclass(frozen=True)
class Hang:
    """No answer."""


@dataclass(frozen=True)
class Reset:
    """The connection is reset before any answer."""


Deed = Reply | Cut | Raw | Trickle | Hang | Reset
Plan = Callable[[Asked], Deed]


def json_reply(value: Any, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply(json.dumps(value).encode(), status, {"content-type": "application/json", **named})


def completion(text: str, calls: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "tool_calls": calls}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def response(text: str) -> dict[str, Any]:
    """A response whose every byte follows from `text`."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "id": "resp_1",
        "created_at": 1,
        "model": MODEL,
        "object": "response",
        "output": [{"type": "message", "id": "m", "role": "assistant", "content": content}],
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    }


def right_answer(asked: Asked) -> dict[str, Any]:
    text = answer_of(asked.task, asked.rollout)
    return response(text) if asked.path.endswith("/responses") else completion(text)


def steady(delay_s: float = 0.0) -> Plan:
    """The right answer to everything, after `delay_s`."""
    return lambda asked: Reply(json.dumps(right_answer(asked)).encode(), delay_s=delay_s)


def staggered(longest_s: float, of: int) -> Plan:
    """The right answer to each of `of` tasks, one after the other within `longest_s`."""

    def plan(asked: Asked) -> Deed:
        delay_s = longest_s * (asked.task + 1) / of
        return Reply(json.dumps(right_answer(asked)).encode(), delay_s=delay_s)

    return plan


class FakeUpstream:
    """Serves `plan` on one port; what is asked of GET .../models is always answered."""

    def __init__(self, plan: Plan, *, dies_after_models: bool = False) -> None:
        self.plan = plan
        self.asked: Counter[tuple[int, int]] = Counter()
        self.keys: set[str] = set()
        self._dies = dies_after_models
        self._server: asyncio.Server | None = None

    async def start(self, port: int = 0) -> int:
        """Begin to listen; the port."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        self._server = await asyncio.start_server(self._connection, sock=sock, backlog=4096)
        bound: int = sock.getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Close the listener and every connection."""
        if self._server is not None:
            self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Cancelled is how it stops; the stream's own callback would call that an error.
        gone = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
        with contextlib.suppress(*gone):
            try:
                while await self._exchange(reader, writer):
                    pass
            finally:
                writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and what becomes of it; whether the connection goes on."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head.split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)
        }
        raw = await reader.readexactly(int(headers.get("content-length") or 0))
        self.keys.add(headers.get("authorization", ""))
        method, path, _ = line.split(" ", 2)
        if method == "GET":
            return await self._models(writer)
        if not path.endswith(("/chat/completions", "/responses")):
            return await self._do(Reply(b'{"detail": "Not Found"}', status=404), writer)
        return await self._do(self.plan(self._read(path, json.loads(raw))), writer)

    def _read(self, path: str, body: dict[str, Any]) -> Asked:
        task, rollout = task_in(json.dumps(body)), int(_seed(body))
        self.asked[task, rollout] += 1
        return Asked(path, body, task, rollout, self.asked[task, rollout])

    async def _models(self, writer: asyncio.StreamWriter) -> bool:
        listed = json_reply({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        if self._dies and self._server is not None:
            self._server.close()
        await self._do(listed, writer)
        return not self._dies

    async def _do(self, deed: Deed, writer: asyncio.StreamWriter) -> bool:
        match deed:
            case Reply():
                await asyncio.sleep(deed.delay_s)
                writer.write(_head(deed.status, len(deed.body), deed.headers) + deed.body)
                await writer.drain()
                return True
            case Cut():
                writer.write(_head(200, len(deed.body) + 1000, {}) + deed.body)
                await writer.drain()
            case Raw():
                writer.write(deed.data)
                await writer.drain()
            case Trickle():
                writer.write(_head(200, 1 << 20, {}))
                while True:
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.2)
            case Hang():
                await asyncio.sleep(HANG_S)
            case Reset():
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False


def _seed(body: Mapping[str, Any]) -> Any:
    return body.get("seed") or 0


def _head(status: int, length: int, headers: Mapping[str, str]) -> bytes:
    listed = {"content-length": str(length), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in listed.items())
    return f"HTTP/1.1 {status} As planned\r\n{lines}\r\n".encode()


@contextlib.contextmanager
def serving(fake: FakeUpstream, port: int = 0) -> Iterator[str]:
    """Serve `fake` from a thread while the body runs; its base URL."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fake upstream", daemon=True)
    thread.start()
    bound = asyncio.run_coroutine_threadsafe(fake.start(port), loop).result(10)
    try:
        yield f"http://127.0.0.1:{bound}/v1"
    finally:
        asyncio.run_coroutine_threadsafe(fake.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def main(port: int, longest_s: float, of: int) -> None:
    """Serve the staggered plan until killed."""
    await FakeUpstream(staggered(longest_s, of)).start(port)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))

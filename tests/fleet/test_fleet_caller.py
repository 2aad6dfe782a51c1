"""A caller that leaves: its work ends, in order, and nobody else's does."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi import BackgroundTasks, FastAPI
from fleet_world import Project
from starlette.requests import Request
from starlette.responses import StreamingResponse

from author_servers import server_of
from palestra.fleet import PROCESS, Fleet
from palestra.fleet.sockets import listen, serving
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer
from palestra.server.caller import Caller
from palestra.transport import HttpClient, HttpRequest


@dataclass
class Story:
    """What has happened to one handler."""

    began: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    how: str = ""

    async def wait_for_nothing(self) -> None:
        """Wait until cancelled, and put something in order then."""
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.how = "cancelled"
            await asyncio.sleep(0)
            raise
        finally:
            self.ended.set()


class Waiting(ResourcesServer):
    """Handlers that wait, in every way that a body can be read."""

    story: Any = None

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()

        @app.post("/json")
        async def read_json(body: dict[str, Any]) -> None:
            await self.story.wait_for_nothing()

        @app.post("/unread")
        @app.get("/get")
        async def unread() -> None:
            await self.story.wait_for_nothing()

        @app.post("/asking")
        async def asking(request: Request) -> bool:
            await request.body()
            return await request.is_disconnected()

        @app.post("/background")
        async def background(body: dict[str, Any], tasks: BackgroundTasks) -> str:
            async def afterwards() -> None:
                for _ in range(20):
                    await asyncio.sleep(0)
                self.story.how = "finished"
                self.story.ended.set()

            tasks.add_task(afterwards)
            return "later"

        @app.post("/stream")
        async def stream(body: dict[str, Any]) -> StreamingResponse:
            async def parts() -> AsyncIterator[str]:
                yield "first,"
                await asyncio.sleep(0)
                yield "last"

            return StreamingResponse(parts())

        return app

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        await self.story.wait_for_nothing()
        return self.reply(body, 1.0)


async def served(ask: Callable[[str, HttpClient, Story], Awaitable[Any]]) -> Any:
    server = server_of(Waiting)
    server.story = Story()
    http = HttpClient()
    sock = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    try:
        async with asyncio.timeout(10), serving(server.asgi_app(), sock):
            return await ask(url, http, server.story)
    finally:
        await http.aclose()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/json", b'{"a": 1}'),
        ("POST", "/json", json.dumps({"long": "x" * 900_000}).encode()),
        ("POST", "/unread", b""),
        ("GET", "/get", None),
    ],
)
def test_the_handler_of_a_caller_that_left_is_cancelled(
    method: str, path: str, body: bytes | None
) -> None:
    async def leave(url: str, http: HttpClient, story: Story) -> str:
        headers = {"content-type": "application/json"}
        asking = asyncio.create_task(http.send(HttpRequest(method, url + path, headers, body)))
        await story.began.wait()
        asking.cancel()
        await story.ended.wait()
        return story.how

    assert asyncio.run(served(leave)) == "cancelled"


def test_a_caller_that_left_leaves_the_server_to_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def leave_and_ask(url: str, http: HttpClient, story: Story) -> int:
        headers = {"content-type": "application/json"}
        asking = asyncio.create_task(http.send(HttpRequest("POST", url + "/json", headers, b"{}")))
        await story.began.wait()
        asking.cancel()
        await story.ended.wait()
        return (await http.send(HttpRequest("GET", url + "/"))).status

    assert asyncio.run(served(leave_and_ask)) == 200
    assert caplog.text == ""


def test_work_after_the_answer_is_not_cut_off() -> None:
    async def ask(url: str, http: HttpClient, story: Story) -> str:
        headers = {"content-type": "application/json", "connection": "close"}
        reply = await http.send(HttpRequest("POST", url + "/background", headers, b"{}"))
        assert reply.body == b'"later"'
        await story.ended.wait()
        return story.how

    assert asyncio.run(served(ask)) == "finished"


@pytest.mark.parametrize(("path", "answer"), [("/stream", b"first,last"), ("/asking", b"false")])
def test_whoever_listens_for_the_caller_themselves_still_can(path: str, answer: bytes) -> None:
    async def ask(url: str, http: HttpClient, story: Story) -> bytes:
        headers = {"content-type": "application/json"}
        return (await http.send(HttpRequest("POST", url + path, headers, b"{}"))).body

    assert asyncio.run(served(ask)) == answer


def test_a_handler_that_does_not_end_is_cancelled_once_more() -> None:
    async def stubborn() -> str:
        left = asyncio.Event()

        async def receive() -> dict[str, str]:
            await left.wait()
            return {"type": "http.disconnect"}

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                caller = Caller(receive, limit, has_body=False, watch_after_s=0, grace_s=0.01)
                left.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    await asyncio.Event().wait()  # as one that hangs in its own clean-up
        caller.close()
        return "ended"

    async def bounded() -> str:
        task = asyncio.create_task(stubborn())
        async with asyncio.timeout(5):
            await asyncio.wait({task})
        return "cancelled" if task.cancelled() else task.result()

    assert asyncio.run(bounded()) == "cancelled"


def test_a_caller_that_leaves_as_its_handler_ends_leaves_no_error_in_the_loop() -> None:
    errors: list[dict[str, Any]] = []

    async def end_together() -> bool:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        leaving: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(None) as limit:
            caller = Caller(lambda: leaving, limit, has_body=False, watch_after_s=0)
            await asyncio.sleep(0.01)
            leaving.set_result({"type": "http.disconnect"})
            # Both the watch and this handler go on in the loop's next turn.
            await asyncio.sleep(0)
        caller.close()
        await asyncio.sleep(0.01)
        return caller.gone

    assert asyncio.run(end_together()) is False
    assert errors == []


HANGING = """
policy_model:
  responses_api_models:
    openai_model:
      openai_base_url: {url}/v1
      openai_model: m
x:
  resources_servers:
    x: {{}}
agent:
  responses_api_agents:
    simple_agent:
      resources_server: {{type: resources_servers, name: x}}
      model_server: {{type: responses_api_models, name: policy_model}}
"""
CALLER = """
import sys, urllib.request
request = urllib.request.Request(sys.argv[1] + "/run", data=sys.argv[2].encode())
urllib.request.urlopen(request)
"""


@pytest.mark.slow
def test_a_killed_caller_ends_the_generation_at_the_end_of_the_chain(project: Project) -> None:
    async def run() -> None:
        asked, left = asyncio.Event(), asyncio.Event()

        async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            while await reader.read(65536):
                pass
            left.set()
            writer.close()

        upstream = await asyncio.start_server(hang, "127.0.0.1", 0)
        port = upstream.sockets[0].getsockname()[1]
        config = project.load(HANGING.format(url=f"http://127.0.0.1:{port}"))
        async with upstream, Fleet(config, default_placement=PROCESS) as fleet:
            row = json.dumps({"responses_create_params": {"input": "?"}, "start": 1})
            [url] = fleet.instances["agent"].urls
            caller = await asyncio.create_subprocess_exec(sys.executable, "-c", CALLER, url, row)
            async with asyncio.timeout(20):
                await asked.wait()
            assert not left.is_set()
            caller.kill()
            async with asyncio.timeout(5):
                await left.wait()
                await caller.wait()

    asyncio.run(run())

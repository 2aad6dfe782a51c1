"""The boundary: tokens, deadlines, and envelopes for whatever leaves a server."""

import asyncio
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from starlette.responses import PlainTextResponse

from author_servers import ask, error_of, server_of, turn
from palestra.config import Redactor
from palestra.errors import RowIdentity
from palestra.fleet.sockets import listen, serving
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer, ResourcesServerConfig, tool
from palestra.transport import (
    SESSION_SCOPE_KEY,
    CallContext,
    HttpClient,
    HttpReply,
    HttpRequest,
    ServerClient,
    call_asgi,
    context_headers,
    current_call,
)


class Move(BaseModel):
    x: int
    y: int


class Own(ResourcesServer):
    """With routes of its own, as authors in the field write them."""

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/move")(self.move)
        app.post("/late")(self.late)
        app.get("/teapot")(self.teapot)
        app.post("/headers_on")(self.headers_on)
        return app

    async def headers_on(self) -> dict[str, str]:
        return context_headers(current_call())

    async def move(self, body: Move) -> dict[str, int]:
        return {"sum": body.x + body.y}

    async def late(self) -> None:
        raise TimeoutError("a wait of my own")

    async def teapot(self) -> None:
        raise HTTPException(418, "short and stout")

    @tool
    async def wait(self) -> str:
        """Wait for something that never comes."""
        activity = current_call().activity
        assert activity is not None
        activity.now("tool", "the judge's answer")
        await asyncio.Event().wait()
        return ""

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


async def over_http(server: ResourcesServer, path: str, body: Any = None, **kwargs: Any) -> Any:
    """The same request over a real socket."""
    http = HttpClient()
    sock = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}{path}"
    try:
        async with serving(server.asgi_app(), sock):
            headers = {"content-type": "application/json", **kwargs}
            return await http.send(HttpRequest("POST", url, headers, orjson.dumps(body)))
    finally:
        await http.aclose()


def both(path: str, body: Any) -> list[HttpReply]:
    server = server_of(Own)
    return [ask(server, path, body), asyncio.run(over_http(server, path, body))]


def test_an_author_s_own_route_works_in_process_and_over_http() -> None:
    for reply in both("/move", {"x": 1, "y": 2}):
        assert (reply.status, reply.body) == (200, b'{"sum":3}')


def test_a_body_that_does_not_fit_an_own_route_is_a_422_envelope_with_every_field() -> None:
    for reply in both("/move", {"x": "one"}):
        error = error_of(reply)
        assert reply.status == 422
        assert error["type"] == "data_error"
        assert {problem["pointer"] for problem in error["problems"]} == {"/x", "/y"}


def test_a_timeout_error_of_the_author_s_is_not_our_deadline() -> None:
    for reply in both("/late", {}):
        assert reply.status == 500
        assert error_of(reply)["type"] == "environment_error"
        assert error_of(reply)["message"] == "env/late raised TimeoutError: a wait of my own"


def test_a_server_in_another_process_hands_on_all_that_its_caller_knows() -> None:
    row = RowIdentity(task=1, rollout=2, run="run")
    context = CallContext(row, written_turns=2, patience_s=30.0, in_environment=True)
    headers = context_headers(context)

    reply = asyncio.run(over_http(server_of(Own), "/headers_on", {}, **headers))

    assert orjson.loads(reply.body) == headers


def asked(method: str, path: str, **kwargs: Any) -> HttpReply:
    return asyncio.run(call_asgi(server_of(Own).asgi_app(), method, path, **kwargs))


def test_an_http_exception_of_the_author_s_is_an_envelope_with_their_words_beside_it() -> None:
    reply = asked("GET", "/teapot")

    assert reply.status == 418
    assert error_of(reply)["type"] == "environment_error"
    assert error_of(reply)["message"] == "env/teapot answered 418: short and stout"
    assert orjson.loads(reply.body)["detail"] == "short and stout"


def test_an_unknown_path_names_the_endpoints_and_the_nearest_one() -> None:
    reply = asked("POST", "/verfy")
    error = error_of(reply)

    assert reply.status == 404
    assert error["message"] == "env has no endpoint POST /verfy; did you mean '/verify'?"
    assert {"POST /verify", "POST /move", "GET /", "GET /teapot"} <= set(
        error["hint"].removeprefix("endpoints: ").split(", ")
    )
    assert error["retriable"] is False


def test_a_wrong_method_names_the_right_one() -> None:
    reply = asked("GET", "/verify")

    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert error_of(reply)["message"] == "env/verify takes POST, not GET"


class Small(Own):
    """Takes small bodies only: in one route, or in all of them."""

    def setup_webserver(self) -> FastAPI:
        app = FastAPI(max_body_size=100)
        app.post("/move")(self.move)
        app.post("/tiny", name="tiny", max_body_size=10)(self.move)
        return app


@pytest.mark.parametrize(("path", "size"), [("/move", 200), ("/tiny", 50)])
def test_a_body_that_is_too_large_is_an_envelope(path: str, size: int) -> None:
    raw = orjson.dumps({"x": 1, "y": 2, "pad": "x" * size})
    for headers in ({"content-length": str(len(raw))}, {}):
        reply = ask(server_of(Small), path, raw, headers=headers)

        assert reply.status == 413
        assert error_of(reply)["message"].startswith(f"env{path} answered 413: ")


def test_the_row_is_in_the_envelope_of_whatever_fails() -> None:
    row = {"x-palestra-rollout": '["run-1", 4, 2, 1, "agent"]'}
    found = [asked("GET", "/teapot", headers=row), asked("POST", "/late", headers=row)]

    assert [error_of(reply)["row"] for reply in found] == [
        {"run": "run-1", "task": 4, "rollout": 2, "attempt": 1, "agent": "agent"}
    ] * 2


class Telling(Own):
    """Its own code puts the key into whatever it raises."""

    async def late(self) -> None:
        raise ValueError("refused with sk-secret-1")

    async def teapot(self) -> None:
        raise HTTPException(418, {"keys": ["sk-secret-1"]})


@pytest.mark.parametrize(("method", "path"), [("POST", "/late"), ("GET", "/teapot")])
def test_an_envelope_shows_no_secret_of_the_configuration(method: str, path: str) -> None:
    client = ServerClient({}, HttpClient(), mask=Redactor(["sk-secret-1"]))
    server = Telling(config=ResourcesServerConfig(name="env"), server_client=client)
    reply = asyncio.run(call_asgi(server.asgi_app(), method, path))

    assert b"****" in reply.body
    assert b"sk-secret-1" not in reply.body


def test_a_handler_of_the_author_s_own_is_left_alone() -> None:
    class Polite(Own):
        def setup_webserver(self) -> FastAPI:
            app = super().setup_webserver()

            @app.exception_handler(HTTPException)
            async def sorry(_request: Any, error: HTTPException) -> Any:
                return PlainTextResponse(f"sorry: {error.detail}", error.status_code)

            return app

    reply = asyncio.run(call_asgi(server_of(Polite).asgi_app(), "GET", "/teapot"))

    assert (reply.status, reply.body) == (418, b"sorry: short and stout")


def test_a_plain_500_of_the_author_s_stays_as_it_is() -> None:
    class Plain(Own):
        def setup_webserver(self) -> FastAPI:
            app = super().setup_webserver()
            app.add_api_route("/plain", lambda: PlainTextResponse("out of order", 500))
            return app

    reply = asyncio.run(call_asgi(server_of(Plain).asgi_app(), "GET", "/plain"))

    assert (reply.status, reply.body) == (500, b"out of order")


def test_a_deadline_is_a_504_that_names_what_was_awaited() -> None:
    reply = ask(server_of(Own), "/wait", {}, headers={"x-palestra-timeout": "0.2"})
    error = error_of(reply)

    assert reply.status == 504
    assert error["type"] == "timeout"
    assert error["message"].startswith(
        "env/wait: the deadline passed while awaiting the judge's answer for 0."
    )
    assert error["message"].endswith("; this call had 0.2 s left of its rollout's time")


def test_a_deadline_names_the_line_at_which_the_author_s_code_waited() -> None:
    error = error_of(ask(server_of(Own), "/wait", {}, headers={"x-palestra-timeout": "0.2"}))

    line = Own.wait.__code__.co_firstlineno + 6
    assert error["traceback"] == f"{__file__}:{line} in wait"
    assert f" at {__file__}:{line} in wait; " in error["message"]


def test_a_deadline_that_has_passed_lets_nothing_start() -> None:
    reply = ask(server_of(Own), "/wait", {}, headers={"x-palestra-timeout": "0.000"})

    assert reply.status == 504


def test_headers_from_elsewhere_do_no_harm() -> None:
    headers = {"x-palestra-timeout": "inf", "x-palestra-rollout": "5", "cookie": "=;==;\x01"}

    assert ask(server_of(Own), "/verify", turn(), headers=headers).status == 200


def protected(token: str) -> ResourcesServer:
    server = server_of(Own)
    server.secure(secret="s", token=token)
    return server


@pytest.mark.parametrize("given", ["", "Bearer wrong", "Bearer tok-abcd", "tok-abc", "Bearer é"])
def test_who_does_not_know_the_token_is_not_served(given: str) -> None:
    headers = {"authorization": given} if given else {}
    reply = ask(protected("tok-abc"), "/move", {"x": 1, "y": 2}, headers=headers)

    assert reply.status == 401
    assert reply.cookies == {}


@pytest.mark.parametrize("token", ["tok-abc", "пароль"])
def test_who_knows_the_token_is_served(token: str) -> None:
    move = {"x": 1, "y": 2}
    asked = over_http(protected(token), "/move", move, authorization=f"Bearer {token}")

    assert asyncio.run(asked).status == 200


def test_a_caller_in_this_process_needs_no_token() -> None:
    app = protected("tok-abc").asgi_app()

    async def statuses() -> list[int]:
        inside = await call_asgi(app, "GET", "/", session_id="s")
        outside = await call_asgi(app, "GET", "/")
        return [inside.status, outside.status]

    assert SESSION_SCOPE_KEY == "palestra.session_id"
    assert asyncio.run(statuses()) == [200, 401]


class Unmade(Exception):
    """Raised through a listener."""


def test_what_the_body_of_a_listener_raises_comes_out_as_it_is_and_the_port_is_free() -> None:
    sock = listen("127.0.0.1", 0)
    port = sock.getsockname()[1]

    async def served() -> None:
        async with serving(server_of(Own).asgi_app(), sock):
            raise Unmade

    with pytest.raises(Unmade):
        asyncio.run(served())
    listen("127.0.0.1", port).close()


def test_a_cancelled_listener_leaves_its_port_free() -> None:
    sock = listen("127.0.0.1", 0)
    port = sock.getsockname()[1]

    async def cancelled() -> None:
        async with asyncio.timeout(0.2), serving(server_of(Own).asgi_app(), sock):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(cancelled())
    listen("127.0.0.1", port).close()

"""A remote server: it is waited for visibly, and it must be a server of its type."""

import asyncio
import json
import logging
from collections.abc import Mapping

import pytest

from palestra.errors import PalestraError, ServerDied
from palestra.fleet.instance import RunningInstance
from palestra.fleet.remote import await_remote
from palestra.transport import ConnectionFailed, HttpReply, HttpRequest

URL = "http://127.0.0.1:24555"


class ScriptedHttp:
    """Answers each `METHOD path` with a status and a body, any other with 404; without answers, it
    refuses the connection.
    """

    def __init__(self, answers: Mapping[str, tuple[int, bytes]]) -> None:
        self._answers = answers

    async def send(self, request: HttpRequest) -> HttpReply:
        if not self._answers:
            raise ConnectionFailed(f"{request.url}: Connection refused", was_sent=False)
        path = request.url.removeprefix(URL)
        return HttpReply(*self._answers.get(f"{request.method} {path}", (404, b"not found")))

    async def aclose(self) -> None:
        """Nothing is open."""


def awaited(
    answers: Mapping[str, tuple[int, bytes]],
    limit_s: float = 5.0,
    failure: PalestraError | None = None,
) -> None:
    kv = RunningInstance(
        name="kv",
        server_type="resources_servers",
        implementation="kv",
        placement="remote",
        urls=(URL,),
        started=0.0,
    )
    http = ScriptedHttp(answers)
    asyncio.run(await_remote(kv, http, limit_s=limit_s, failure=lambda: failure))


ALIVE = {"GET /": (200, b"{}")}
PUBLISHED = {"GET /openapi.json": (200, b'{"paths": {"/verify": {}}}')}


def test_a_server_that_nobody_started_is_an_error_with_its_reason() -> None:
    with pytest.raises(ServerDied) as caught:
        awaited({}, limit_s=0.1)

    assert caught.value.server == "kv"
    assert caught.value.message.endswith("did not answer within 0.1 s: Connection refused")


def test_the_failure_of_another_server_ends_the_wait() -> None:
    failure = ServerDied("math ended with exit code 3", server="math")

    with pytest.raises(ServerDied) as caught:
        awaited({}, failure=failure)

    assert caught.value is failure


def test_it_is_said_what_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "palestra.fleet"), pytest.raises(ServerDied):
        awaited({}, limit_s=1.2)

    [record] = caplog.records
    assert record.getMessage().startswith(f"waiting for kv at {URL}: Connection refused, giving up")


@pytest.mark.parametrize(
    "answers",
    [PUBLISHED, {"GET /verify": (422, b"")}],
    ids=["published", "without a document"],
)
def test_a_server_with_a_verifier_is_taken(answers: Mapping[str, tuple[int, bytes]]) -> None:
    awaited({**ALIVE, **answers})


@pytest.mark.parametrize(
    "answers",
    [{}, {"GET /openapi.json": (200, b'{"paths": {"/v1/models": {}}}')}],
    ids=["any program", "a server of another type"],
)
def test_a_program_of_another_kind_is_refused(answers: Mapping[str, tuple[int, bytes]]) -> None:
    with pytest.raises(ServerDied, match="is not kv: it has no /verify or /step"):
        awaited({**ALIVE, **answers})


@pytest.mark.parametrize(
    ("title", "is_warned"), [("kv", False), ("FastAPI", False), ("units", True)]
)
def test_a_resources_server_that_calls_itself_something_else_is_warned_of(
    title: str, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    document = {"info": {"title": title}, "paths": {"/verify": {}}}
    with caplog.at_level(logging.WARNING, "palestra.fleet"):
        awaited({**ALIVE, "GET /openapi.json": (200, json.dumps(document).encode())})

    assert ["calls itself units" in record.getMessage() for record in caplog.records] == (
        [True] if is_warned else []
    )

"""Whatever an author's code raises is a failure of its rollout, and of nothing else."""

import asyncio
from typing import Any

import orjson
import pytest

from author_servers import ask, error_of, server_of, turn
from palestra.errors import VerifierError, to_body
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def raising(error: BaseException) -> ResourcesServer:
    class Broken(ResourcesServer):
        async def verify(self, body: VerifyRequest) -> VerifyResponse:
            raise error

        def setup_webserver(self) -> Any:
            app = super().setup_webserver()

            @app.post("/own")
            async def own() -> None:
                raise error

            return app

    return server_of(Broken)


ESCAPING = [
    (SystemExit("usage: verify"), "SystemExit: usage: verify"),
    (asyncio.CancelledError("inside"), "CancelledError: inside"),
    (Unprintable(), "Unprintable: (its text cannot be made: RuntimeError)"),
    (ValueError("half \ud83d"), "ValueError: half \\ud83d"),
    (AssertionError(), "AssertionError"),
]


@pytest.mark.parametrize(("error", "says"), ESCAPING, ids=lambda value: type(value).__name__)
def test_what_a_verifier_raises_is_its_own_failure(error: BaseException, says: str) -> None:
    endpoint = raising(error).typed_endpoint("/verify")
    assert endpoint is not None
    with pytest.raises(VerifierError) as caught:
        asyncio.run(endpoint.invoke(turn(), session_id="s"))

    assert caught.value.message == f"env/verify raised {says}"
    assert orjson.dumps(to_body(caught.value))


@pytest.mark.parametrize(("error", "says"), ESCAPING, ids=lambda value: type(value).__name__)
def test_what_an_own_route_raises_is_an_answer(error: BaseException, says: str) -> None:
    reply = ask(raising(error), "/own")

    assert (reply.status, error_of(reply)["message"]) == (500, f"env/own raised {says}")


def test_a_task_that_is_told_to_stop_stops() -> None:
    class Slow(ResourcesServer):
        async def verify(self, body: VerifyRequest) -> VerifyResponse:
            await asyncio.Event().wait()
            raise AssertionError

    async def stopped() -> None:
        endpoint = server_of(Slow).typed_endpoint("/verify")
        assert endpoint is not None
        async with asyncio.timeout(0.01):
            await endpoint.invoke(turn(), session_id="s")

    with pytest.raises(TimeoutError):
        asyncio.run(stopped())

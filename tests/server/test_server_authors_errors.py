"""Whatever an author's code raises is a failure of its rollout, and of nothing else."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import orjson
import pytest

from author_servers import ask, error_of, server_of, turn
from palestra.errors import VerifierError, to_body
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import AuthorsPlace, ResourcesServer, error_text


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
    (KeyboardInterrupt("odd"), "KeyboardInterrupt: odd"),
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


@pytest.fixture(autouse=True)
def handled_signal() -> Iterator[None]:
    """Handle SIGINT, as Palestra's commands and processes do: it raises nothing."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


def test_of_a_long_text_a_message_has_the_beginning_and_the_end() -> None:
    message = error_text(ValueError(f"no number: {'1.' * 5000} at the end"))

    assert message.startswith("ValueError: no number: 1.1.")
    assert message.endswith("1. at the end (10022 characters)")
    assert len(message) < 1100


def test_a_ctrl_c_is_no_failure_of_the_verifier() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    endpoint = raising(KeyboardInterrupt()).typed_endpoint("/verify")
    assert endpoint is not None

    with closing(asyncio.new_event_loop()) as loop, pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(endpoint.invoke(turn(), session_id="s"))


def test_a_second_ctrl_c_of_a_script_is_no_failure_of_the_verifier() -> None:
    class Waiting(ResourcesServer):
        async def verify(self, body: VerifyRequest) -> VerifyResponse:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            raise AssertionError

    signal.signal(signal.SIGINT, signal.default_int_handler)
    endpoint = server_of(Waiting).typed_endpoint("/verify")
    assert endpoint is not None

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(endpoint.invoke(turn(), session_id="s"))


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


@pytest.mark.parametrize(
    ("author", "text"),
    [(AuthorsPlace("verify", "app.py", 3), " in verify, app.py:3"), (AuthorsPlace(), "")],
)
def test_a_line_of_an_author_ends_a_sentence_where_it_is_known(
    author: AuthorsPlace, text: str
) -> None:
    assert author.in_sentence() == text

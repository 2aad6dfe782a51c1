"""The worker's side of a server whose sessions are in workers."""

import asyncio
import socket
import struct
from typing import Any

from palestra.fleet import server_client
from palestra.fleet.isolation.client import Questions
from palestra.fleet.isolation.replica import ReplicaCalls
from palestra.fleet.isolation.results import body_bytes, read_body
from palestra.fleet.isolation.wire import (
    BUG,
    CALL,
    FAILED,
    LONGEST_MESSAGE,
    UNREADABLE,
    order_frame,
    read_message,
)
from palestra.sandbox import receive
from palestra.schema import VerifyRequest, response_of
from palestra.server import ResourcesServer, ResourcesServerConfig
from palestra.transport import CallContext

BODY = {"responses_create_params": {"input": "?"}, "response": response_of("4")}


class NothingToRestore:
    def restore(self) -> None:
        return None


class Unsendable(ResourcesServer):
    def verify(self, body: VerifyRequest) -> dict[str, Any]:
        return {"reward": 1.0, "half a character \ud83d": body.response.final_text}


async def answer_to(path: str, content: bytes) -> list[Any]:
    """The first message that is no bug for the log."""
    server = Unsendable(
        config=ResourcesServerConfig(name="env"), server_client=server_client({}, {})
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(2.0)
        calls = ReplicaCalls(server, Questions(), theirs, NothingToRestore())
        asyncio.get_running_loop().add_reader(theirs, calls.read)
        ours.sendall(order_frame(CALL, 1, path, "s", content, CallContext()))
        message: list[Any] = [BUG]
        while message[0] == BUG:
            body = await asyncio.to_thread(receive, ours)
            message = read_message(body or b"")
        asyncio.get_running_loop().remove_reader(theirs)
        return message


def test_a_call_that_no_answer_can_be_made_of_fails_at_once() -> None:
    for path in ("/verify", "/nowhere"):
        assert asyncio.run(answer_to(path, body_bytes(BODY)))[:2] == [FAILED, 1]


def test_a_body_that_cannot_be_read_is_asked_for_again() -> None:
    unvalidated = VerifyRequest.model_validate(BODY).model_copy(deep=True)
    unvalidated.response.output = 7  # type: ignore[assignment]

    answer = asyncio.run(answer_to("/verify", body_bytes(unvalidated)))

    assert answer[:2] == [UNREADABLE, 1]


def test_a_body_is_the_same_in_the_worker() -> None:
    body = VerifyRequest.model_validate({**BODY, "topic": "sums"})

    assert read_body(body_bytes(body)) == body


def test_a_worker_that_cannot_read_what_comes_ends() -> None:
    async def run() -> None:
        server = Unsendable(
            config=ResourcesServerConfig(name="env"), server_client=server_client({}, {})
        )
        ours, theirs = socket.socketpair()
        with ours, theirs:
            calls = ReplicaCalls(server, Questions(), theirs, NothingToRestore())
            asyncio.get_running_loop().add_reader(theirs, calls.read)
            ours.sendall(struct.pack(">I", LONGEST_MESSAGE + 1))
            async with asyncio.timeout(2.0):
                await calls.gone.wait()

    asyncio.run(run())

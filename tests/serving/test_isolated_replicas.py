"""The worker's side of a server whose sessions are in workers."""

import asyncio
import socket
from typing import Any

from palestra.sandbox.workers.frames import receive
from palestra.schema import VerifyRequest, response_of
from palestra.serving import ResourcesServer, ResourcesServerConfig, server_client
from palestra.serving.isolation.client import Questions
from palestra.serving.isolation.replica import Inside
from palestra.serving.isolation.wire import CALL, FAILED, order_frame, read_message
from palestra.transport import CallContext

BODY = {"responses_create_params": {"input": "?"}, "response": response_of("4")}


class NothingToRestore:
    def restore(self) -> None:
        return None


class Unsendable(ResourcesServer):
    def verify(self, body: VerifyRequest) -> dict[str, Any]:
        return {"reward": 1.0, "half a character \ud83d": body.response.final_text}


async def answer_to(path: str, server: ResourcesServer) -> list[Any]:
    """The first message that is no bug for the log."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(2.0)
        inside = Inside(server, Questions(), theirs, NothingToRestore())
        asyncio.get_running_loop().add_reader(theirs, inside.read)
        ours.sendall(order_frame(CALL, 1, path, "s", BODY, CallContext()))
        message: list[Any] = [""]
        while message[0] != FAILED:
            body = await asyncio.to_thread(receive, ours)
            message = read_message(body or b"")
        asyncio.get_running_loop().remove_reader(theirs)
        return message


def test_a_call_that_no_answer_can_be_made_of_fails_at_once() -> None:
    server = Unsendable(
        config=ResourcesServerConfig(name="env"), server_client=server_client({}, {})
    )

    for path in ("/verify", "/nowhere"):
        assert asyncio.run(answer_to(path, server))[:2] == [FAILED, 1]

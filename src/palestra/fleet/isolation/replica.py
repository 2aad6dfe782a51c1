"""The program of a worker for an environment's class: it holds a replica of the server, and its
sessions.

The server object is built once, before the first fork, so that all workers share its memory.
`start` runs in each worker. Synchronous methods run on the main thread, one at a time. Async
methods run on its event loop.
"""

import asyncio
import base64
import pickle
import socket
from functools import partial
from typing import Protocol, final

import uvloop

from palestra.errors import CallError, DeadlineExceeded, to_body
from palestra.fleet.build import build_server, server_client
from palestra.fleet.isolation.client import Questions, ServerElsewhere
from palestra.fleet.isolation.results import packed, read_body
from palestra.fleet.isolation.surroundings import Surroundings
from palestra.fleet.isolation.wire import (
    BUG,
    CALL,
    CANCEL,
    END,
    FAILED,
    REPLY,
    UNREADABLE,
    VALUE,
    BodyCutter,
    Rubbish,
    message_frame,
    read_order,
)
from palestra.fleet.ray_clusters.place import notice_ray_here
from palestra.sandbox import Endurance, Serve
from palestra.schema import encode_json
from palestra.server import EnvironmentServer, Server, error_text, own_frames
from palestra.transport import CallContext, Target, calling

REFUSED = "refused"


def replica_of(argument: str) -> Serve:
    """Build the server once for all workers, and return the program that each worker runs.

    `argument`: the text that `workers_of` builds.
    """
    # From the process that made us.
    instance, targets_of_fleet, tree = pickle.loads(base64.b64decode(argument))  # noqa: S301
    notice_ray_here(tree)
    questions = Questions()
    targets = {
        name: Target(name, server_type, urls, ServerElsewhere(name, questions))
        for name, (server_type, urls) in targets_of_fleet.items()
    }
    server = build_server(instance, server_client(targets, tree), isolate=False)
    if isinstance(server, EnvironmentServer):
        server.run_in_worker()
    return partial(serve, server, questions)


def serve(server: Server, questions: Questions, sock: socket.socket, endurance: Endurance) -> None:
    """Answer calls on `sock` until the server's process closes the connection."""
    uvloop.run(_serve(server, questions, sock, endurance))


async def _serve(
    server: Server, questions: Questions, sock: socket.socket, endurance: Endurance
) -> None:
    surroundings = Surroundings(sock, endurance)
    calls = ReplicaCalls(server, questions, sock, surroundings)
    asyncio.get_running_loop().add_reader(sock, calls.read)
    sock.setblocking(True)  # or a long answer is lost: the loop's reader made it non-blocking
    try:
        await server.start()
    except Exception as error:
        frames = own_frames(error)
        sock.sendall(message_frame(REFUSED, True, f"{error_text(error)}\n{frames}"))
        return
    surroundings.say_ready(sock)
    await calls.gone.wait()


class Restoring(Protocol):
    """The interface of an object that restores the process's state after a call."""

    def restore(self) -> None: ...


@final
class ReplicaCalls:
    """The calls that one worker serves."""

    def __init__(
        self,
        server: Server,
        questions: Questions,
        sock: socket.socket,
        surroundings: Restoring,
    ) -> None:
        self._server = server
        self._questions = questions
        self._sock = sock
        self._surroundings = surroundings
        self._frames = BodyCutter()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.gone = asyncio.Event()
        questions.connect(sock.sendall)
        server.palestra_report_bugs(self._report)

    def read(self) -> None:
        """Read and process what the server's process has sent."""
        chunk = self._sock.recv(2**18)
        if not chunk:
            self._leave()
            return
        try:
            self._take(chunk)
        except Rubbish:  # nothing that comes later can be read either
            self._leave()

    def _leave(self) -> None:
        self.gone.set()
        asyncio.get_running_loop().remove_reader(self._sock)

    def _take(self, chunk: bytes) -> None:
        for body in self._frames.feed(chunk):
            kind, *fields = read_order(body)
            if kind == CALL:
                self._begin(*fields)
            elif kind == CANCEL and (task := self._tasks.get(fields[0])) is not None:
                task.cancel()
            elif kind == END:
                self._server.palestra_sessions.close(fields[0])
            elif kind == REPLY:
                self._questions.answered(fields[0], fields[1])

    def _begin(
        self, number: int, path: str, session_id: str, content: bytes, context: CallContext
    ) -> None:
        work = self._serve(number, path, session_id, content, context)
        task = self._tasks[number] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _serve(
        self, number: int, path: str, session_id: str, content: bytes, context: CallContext
    ) -> None:
        """Run a call and send its answer, also when the call fails."""
        self._questions.serving.set(number)
        try:
            body = read_body(content)
        except Exception as error:
            self._sock.sendall(message_frame(UNREADABLE, number, error_text(error)))
            return
        try:
            endpoint = self._server.typed_endpoint(path)
            if endpoint is None:
                raise LookupError(f"{path} is not an endpoint of its worker's replica")
            with calling(context):
                result = await endpoint.perform(body, session_id)
                frame = message_frame(VALUE, number, packed(result, body))
        except asyncio.CancelledError:
            frame = _failed(number, DeadlineExceeded(f"{self._server.name}{path} was cancelled"))
        except CallError as error:
            frame = _failed(number, error)
        except BaseException as error:  # whoever called waits: an exception of any class is told
            frame = _failed(number, self._server.translate(path, error))
        finally:
            self._surroundings.restore()
        self._sock.sendall(frame)

    def _report(self, path: str, kind: str, text: str, frames: str) -> None:
        self._surroundings.restore()  # not from a fork of the author's
        self._sock.sendall(message_frame(BUG, path, kind, text, frames))


def _failed(number: int, error: CallError) -> bytes:
    return message_frame(FAILED, number, encode_json(to_body(error)))

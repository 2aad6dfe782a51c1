"""Verify answers for an environment in one file, in worker processes."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import orjson

from palestra.errors import CallError, CallEvidence, VerifierError, from_body
from palestra.fleet.isolation.authors_keeper import AuthorsKeeper, limit_of
from palestra.fleet.isolation.failures import failure_of, out_of_memory
from palestra.fleet.isolation.link import WorkerGone
from palestra.fleet.isolation.wire import (
    FAILED,
    NO_MEMORY,
    RAISED,
    order_frame,
    sent_context,
)
from palestra.fleet.isolation.worker_pool import WorkerPool
from palestra.schema import JsonObject
from palestra.server import EnvironmentServer, Verdict, named_text, refuse_reward
from palestra.transport import CallContext, current_call

PROGRAM: Final = "palestra.fleet.isolation.verify_worker:verifier_of"
VERIFY: Final = "/verify"


@final
class WorkerVerifyCalls:
    """Calls of `verify` of the environment of `server`. Its exceptions are logged by the server."""

    def __init__(self, file: Path, server: EnvironmentServer) -> None:
        self._server = server.name
        self._errors = server.palestra_errors
        argument = {
            "file": str(file),
            "class_name": server.config.class_name,
            "settings": dict(server.config.settings),
            "where": f"{server.name}{VERIFY}",
        }
        self._workers = WorkerPool(
            AuthorsKeeper(file, sources=file, program=PROGRAM, argument=argument)
        )

    async def start(self) -> None:
        """Start one worker, which imports the file."""
        await self._workers.start()

    async def close(self) -> None:
        """End the worker processes."""
        await self._workers.close()

    async def verdict(
        self, row: JsonObject, arguments: Mapping[str, Any], stored_seed: str
    ) -> Verdict:
        """Call `verify` in a worker and return its verdict. Raises `CallError`."""
        context = current_call()
        frame_of = partial(_frame, row, arguments, stored_seed, sent_context(context))
        try:
            answer = await self._workers.call(frame_of, limit_of(context))
        except WorkerGone as gone:
            raise failure_of(self._server, VERIFY, gone.ending) from None
        match answer:
            case [_, _, float(reward), components, str(used_seed)] if _are(components):
                return Verdict(reward, components, used_seed)
            case [kind, _, str(name), str(text), str(frames)] if kind == RAISED:
                raise self._raised(name, text, frames)
            case [kind, _, bytes(body)] if kind == FAILED:
                raise _failed(body)
            case [kind, _] if kind == NO_MEMORY:
                raise out_of_memory(self._server, VERIFY)
            case [_, _, [str(problem)], *_]:
                refuse_reward(f"{self._server}{VERIFY}", problem)
        raise VerifierError(f"{self._server}{VERIFY}: its worker answered what is not an answer")

    def _raised(self, name: str, text: str, frames: str) -> CallError:
        description = named_text(name, text)
        self._errors.note(self._server, VERIFY, name, description, frames)
        message = f"{self._server}{VERIFY} raised {description}"
        return VerifierError(message, evidence=CallEvidence(traceback=frames))


def _are(components: Any) -> bool:
    """Whether a worker's value is None or numbers by name."""
    return components is None or (
        isinstance(components, dict)
        and all(isinstance(n, str) and isinstance(v, float) for n, v in components.items())
    )


def _frame(
    row: JsonObject,
    arguments: Mapping[str, Any],
    stored_seed: str,
    context: CallContext,
    number: int,
) -> bytes:
    return order_frame(number, dict(row), dict(arguments), stored_seed, context)


def _failed(body: bytes) -> CallError:
    return from_body(orjson.loads(body)) or VerifierError(
        "the error that the worker process sent cannot be read"
    )

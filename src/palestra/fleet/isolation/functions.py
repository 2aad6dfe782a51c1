"""Call a one-file environment's function in worker processes."""

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
from palestra.server import OwnErrors
from palestra.transport import CallContext, current_call

PROGRAM: Final = "palestra.fleet.isolation.function_worker:function_of"
VERIFY: Final = "/verify"


@final
class WorkerFunctionCalls:
    """Calls of the one function in `file`, for the server named `server`. `errors`: where the
    function's exceptions are logged.
    """

    def __init__(self, file: Path, server: str, errors: OwnErrors) -> None:
        self._server = server
        self._errors = errors
        argument = {"file": str(file)}
        self._workers = WorkerPool(
            AuthorsKeeper(file, sources=file, program=PROGRAM, argument=argument)
        )

    async def start(self) -> None:
        """Start one worker, which imports the file."""
        await self._workers.start()

    async def close(self) -> None:
        """End the worker processes."""
        await self._workers.close()

    async def reward(self, keywords: Mapping[str, Any]) -> float:
        """Call the function in a worker and return its reward. Raises `CallError`."""
        context = current_call()
        frame_of = partial(_frame, keywords, sent_context(context))
        try:
            answer = await self._workers.call(frame_of, limit_of(context))
        except WorkerGone as gone:
            raise failure_of(self._server, VERIFY, gone.ending) from None
        match answer:
            case [_, _, float(reward)]:
                return reward
            case [kind, _, str(name), str(text), str(frames)] if kind == RAISED:
                raise self._raised(name, text, frames)
            case [kind, _, bytes(body)] if kind == FAILED:
                raise _failed(body)
            case [kind, _] if kind == NO_MEMORY:
                raise out_of_memory(self._server, VERIFY)
            case [_, _, [str(no_reward)]]:
                raise VerifierError(
                    f"{self._server}{VERIFY} returned {no_reward}",
                    hint="verify must return a finite number as `reward`",
                )
        raise VerifierError(f"{self._server}{VERIFY}: its worker answered what is not an answer")

    def _raised(self, name: str, text: str, frames: str) -> CallError:
        description = f"{name}: {text}"
        self._errors.note(self._server, VERIFY, name, description, frames)
        message = f"{self._server}{VERIFY} raised {description}"
        return VerifierError(message, evidence=CallEvidence(traceback=frames))


def _frame(keywords: Mapping[str, Any], context: CallContext, number: int) -> bytes:
    return order_frame(number, dict(keywords), context)


def _failed(body: bytes) -> CallError:
    return from_body(orjson.loads(body)) or VerifierError(
        "its worker answered what is not a failure"
    )

"""One episode on an OpenEnv server, over the server's WebSocket protocol.

Each connection to `/ws` is an environment of its own. The client sends `{"type": "reset" | "step",
"data": …}`, one message at a time. The server replies with `{"type": "observation", "data":
{"observation": {…}, "reward": …, "done": …}}` or with `{"type": "error", "data": {"message": …,
"code": …}}`. OpenEnv's own client is not used, because its package installs a web interface and 60
other packages.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final, final

import orjson
from pydantic import Field, ValidationError

from palestra.errors import EnvironmentFault, InfraError
from palestra.schema import JsonDict, JsonObject, WireModel

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

LARGEST_MESSAGE: Final = 100 * 2**20
"""The largest message in bytes, as in OpenEnv's own client: observations may be screenshots."""

_NOT_AN_ACTION: Final = "VALIDATION_ERROR"
_FULL: Final = "CAPACITY_REACHED"


class Observed(WireModel):
    """The observation, reward and end of an episode after a reset or a step."""

    observation: JsonDict = Field(default_factory=dict)
    reward: float | None = None
    done: bool = False


class _Trouble(WireModel):
    message: str = ""
    code: str = ""
    errors: list[Any] = Field(default_factory=list)


class _Message(WireModel):
    type: str
    data: JsonDict = Field(default_factory=dict)


class ActionRefused(Exception):
    """Raised when the server rejects an action as invalid; the model reads the message."""


@final
class OpenEnvEpisode:
    """An open connection to an environment. Not for concurrent use: one turn at a time."""

    def __init__(self, socket: "ClientConnection", *, where: str, answer_s: float) -> None:
        self._socket = socket
        self._where = where
        self._answer_s = answer_s

    @classmethod
    async def connect(cls, base_url: str, *, answer_s: float) -> "OpenEnvEpisode":
        """Connect to the server. Raises InfraError: no OpenEnv server can be reached."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException

        where = f"{base_url.rstrip('/')}/ws"
        try:
            async with asyncio.timeout(answer_s):
                # A step may take longer than a ping waits for its answer: the deadline is ours.
                socket = await connect(
                    where.replace("http", "ws", 1),
                    max_size=LARGEST_MESSAGE,
                    open_timeout=None,
                    ping_interval=None,
                    proxy=None,  # as for the question whether it is there
                )
        except (WebSocketException, OSError) as error:
            why = str(error) or type(error).__name__
            raise InfraError(
                f"the OpenEnv server at {where} cannot be reached: {why}",
                hint="start that server, and set base_url to its address",
            ) from error
        return cls(socket, where=where, answer_s=answer_s)

    async def reset(self, arguments: JsonObject) -> Observed:
        """Start a new episode. Raises InfraError: the server fails. Raises EnvironmentFault: the
        environment fails.
        """
        try:
            return await self._exchange("reset", arguments)
        except ActionRefused as refusal:
            raise EnvironmentFault(f"{self._where} rejects the reset: {refusal}") from None

    async def step(self, action: JsonObject) -> Observed:
        """Step the environment. Raises ActionRefused: the action is invalid; otherwise like
        `reset`.
        """
        return await self._exchange("step", action)

    async def close(self) -> None:
        """Close the connection, which ends the environment. The server may already be gone."""
        await self._socket.close()

    async def _exchange(self, kind: str, data: JsonObject) -> Observed:
        raw = await self._answer(orjson.dumps({"type": kind, "data": data}).decode())
        try:
            message = _Message.model_validate(orjson.loads(raw))
            if message.type != "error":
                return Observed.model_validate(message.data)
            trouble = _Trouble.model_validate(message.data)
        except (orjson.JSONDecodeError, ValidationError) as error:
            raise EnvironmentFault(
                f"the answer of {self._where} to a {kind} is not an observation: {raw[:500]}"
            ) from error
        if trouble.code == _NOT_AN_ACTION:
            raise ActionRefused(_trouble_text(trouble))
        if trouble.code == _FULL:
            raise InfraError(
                f"{self._where} has no free environment: {trouble.message}",
                hint="lower num_samples_in_parallel, or raise the server's number of environments",
            )
        raise EnvironmentFault(
            f"{self._where} failed at a {kind}: {_trouble_text(trouble)} ({trouble.code})"
        )

    async def _answer(self, request_text: str) -> str:
        from websockets.exceptions import ConnectionClosed, WebSocketException

        try:
            async with asyncio.timeout(self._answer_s):
                await self._socket.send(request_text)
                message = await self._socket.recv()
        except TimeoutError as error:
            raise InfraError(
                f"{self._where} gave no answer within {self._answer_s:g} s",
                hint="raise answer_timeout_s if its environment is slow",
            ) from error
        except ConnectionClosed as error:
            raise InfraError(f"{self._where} closed the connection ({error})") from error
        except (WebSocketException, OSError) as error:
            raise InfraError(f"{self._where}: {error}") from error
        return message if isinstance(message, str) else message.decode("utf-8", "replace")


def _trouble_text(trouble: _Trouble) -> str:
    """Return the error message and the invalid fields."""
    fields = [
        f"{'.'.join(map(str, error.get('loc', ())))}: {error.get('msg', '')}"
        for error in trouble.errors
        if isinstance(error, dict)
    ]
    return "; ".join([trouble.message, *fields])

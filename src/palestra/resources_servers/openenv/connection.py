"""One episode at an OpenEnv server: its WebSocket protocol, spoken without its library.

Each connection to `/ws` is an environment of its own. We send `{"type": "reset" | "step",
"data": …}`, one at a time; the server answers each with `{"type": "observation", "data":
{"observation": {…}, "reward": …, "done": …}}` or with `{"type": "error", "data": {"message": …,
"code": …}}`. The library that has a client for this brings a web interface and 60 packages.
"""

import asyncio
from typing import Any, Final, final

import orjson
from pydantic import Field, ValidationError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from palestra.errors import EnvironmentFault, InfraError
from palestra.schema import JsonDict, JsonObject, WireModel

LARGEST_MESSAGE: Final = 100 * 2**20
"""Bytes; what OpenEnv's own client takes: observations may be screenshots."""

_NOT_AN_ACTION: Final = "VALIDATION_ERROR"
_FULL: Final = "CAPACITY_REACHED"


class Observed(WireModel):
    """What an episode looks like after a reset or a step."""

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
    """The server says that this is no action of its environment; the message is for the model."""


@final
class OpenEnvEpisode:
    """A live connection. Not for concurrent use: an episode has one turn at a time."""

    def __init__(self, socket: ClientConnection, *, where: str, answer_s: float) -> None:
        self._socket = socket
        self._where = where
        self._answer_s = answer_s

    @classmethod
    async def connect(cls, base_url: str, *, answer_s: float) -> "OpenEnvEpisode":
        """Raises InfraError when there is no OpenEnv server."""
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
                hint="start it, and give base_url its address",
            ) from error
        return cls(socket, where=where, answer_s=answer_s)

    async def reset(self, arguments: JsonObject) -> Observed:
        """Begin anew. Raises InfraError, EnvironmentFault when the environment fails."""
        try:
            return await self._exchange("reset", arguments)
        except ActionRefused as refusal:
            raise EnvironmentFault(f"{self._where} refuses the reset: {refusal}") from None

    async def step(self, action: JsonObject) -> Observed:
        """Take an action. Raises ActionRefused besides what `reset` raises."""
        return await self._exchange("step", action)

    async def close(self) -> None:
        """End the environment; its server may be gone already."""
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
                f"{self._where} answered a {kind} with what is no observation: {raw[:500]}"
            ) from error
        if trouble.code == _NOT_AN_ACTION:
            raise ActionRefused(_told(trouble))
        if trouble.code == _FULL:
            raise InfraError(
                f"{self._where} is full: {trouble.message}",
                hint="lower num_samples_in_parallel, or give the server more environments",
            )
        raise EnvironmentFault(
            f"{self._where} failed at a {kind}: {_told(trouble)} ({trouble.code})"
        )

    async def _answer(self, sent: str) -> str:
        try:
            async with asyncio.timeout(self._answer_s):
                await self._socket.send(sent)
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


def _told(trouble: _Trouble) -> str:
    """The message, with the fields that are wrong."""
    fields = [
        f"{'.'.join(map(str, error.get('loc', ())))}: {error.get('msg', '')}"
        for error in trouble.errors
        if isinstance(error, dict)
    ]
    return "; ".join([trouble.message, *fields])

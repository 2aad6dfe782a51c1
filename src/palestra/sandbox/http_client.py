"""The backend that runs programs on a machine with `palestra sandbox serve`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final, TypeVar, final

from pydantic import BaseModel, ValidationError

from palestra.errors import (
    CallError,
    ConfigError,
    DeadlineExceeded,
    InfraError,
    KnownCause,
    excerpt,
)
from palestra.sandbox.backend import ConversationEnded
from palestra.sandbox.keeping.keep import MOST_STARVED
from palestra.sandbox.limits import Limits, SandboxResult
from palestra.sandbox.program import Program
from palestra.sandbox.service_wire import (
    RAW,
    SERVICE,
    WITHIN_HEADER,
    BegunConversation,
    ProgramMessage,
    ServiceStatus,
)
from palestra.transport import HttpClient, HttpReply, HttpRequest, HttpTransport

M = TypeVar("M", bound=BaseModel)

CHECK_WITHIN_S: Final = 30.0
QUEUE_S: Final = 3600.0
"""The seconds that a program may wait for a free slot on the service, in addition to its own
limits."""

ENDS_WITHIN_S: Final = 120.0
"""The seconds that the service may take to stop a program and to report it."""

RENEWALS: Final = 3
"""Renewals per lease. Two of them may get lost."""

_JSON: Final = "application/json"


@final
class HttpBackend:
    """Runs programs on the service's machine."""

    def __init__(
        self, host: str, port: int, token: str = "", *, http: HttpTransport | None = None
    ) -> None:
        address = f"[{host}]" if ":" in host else host
        self._url = f"http://{address}:{port}"
        self._token = token
        self._http: HttpTransport = http or HttpClient()
        self._isolates = False

    @property
    def name(self) -> str:
        """The backend's name in the sandbox settings: `http`."""
        return "http"

    @property
    def isolates(self) -> bool:
        """Whether the service isolates programs, according to its status."""
        return self._isolates

    async def check(self) -> ServiceStatus:
        """Request the service's status. Raises ConfigError when it does not answer, or is not a
        palestra sandbox service.
        """
        try:
            reply = await self.send("GET", "/", None, within_s=CHECK_WITHIN_S)
            status = ServiceStatus.model_validate_json(reply.body)
        except CallError as error:
            raise ConfigError(
                f"the sandbox service at {self._url} cannot be used: {error.message}",
                hint="start one there with: palestra sandbox serve",
                cause=KnownCause.NO_SANDBOX,
            ) from error
        except ValidationError:
            status = ServiceStatus(service="", backend="", isolates=False)
        if status.service != SERVICE:
            raise ConfigError(
                f"what answers at {self._url} is not a palestra sandbox service",
                cause=KnownCause.NO_SANDBOX,
            )
        self._isolates = status.isolates
        return status

    async def run(self, program: Program, stdin: bytes, limits: Limits, /) -> SandboxResult:
        """Run a program to its end. Raises `InfraError` when the service fails."""
        message = ProgramMessage.of(program, limits, stdin)
        limit_s = MOST_STARVED * limits.wall_s + QUEUE_S
        reply = await self._post("/run", message, within_s=limit_s)
        return self.read(SandboxResult, reply)

    @contextlib.asynccontextmanager
    async def converse(
        self, program: Program, limits: Limits, /, *, rests: bool
    ) -> AsyncIterator["HttpConversation"]:
        """Start a program that answers messages. It is stopped when the context ends."""
        message = ProgramMessage.of(program, limits, rests=rests)
        opened = self.read(
            BegunConversation, await self._post("/conversations", message, within_s=QUEUE_S)
        )
        conversation = HttpConversation(self, opened.id, waits_s=QUEUE_S if rests else 0.0)
        renewing = asyncio.ensure_future(conversation.renew(opened.lease_s))
        try:
            yield conversation
        finally:
            renewing.cancel()
            # Should this fail, the service ends it when its lease runs out.
            with contextlib.suppress(InfraError):
                await conversation.end()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _post(self, path: str, message: ProgramMessage, *, within_s: float) -> HttpReply:
        body = message.model_dump_json().encode()
        return await self.send("POST", path, body, within_s=within_s, kind=_JSON)

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        within_s: float,
        kind: str = RAW,
        answer_s: float | None = None,
    ) -> HttpReply:
        """Send one request. `answer_s`: the seconds that the program may take to answer it.

        Raises `ConversationEnded` when the conversation is over, and `InfraError` for any other
        failure.
        """
        headers = {"content-type": kind}
        if answer_s is not None:
            headers[WITHIN_HEADER] = str(answer_s)
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        request = HttpRequest(
            method, self._url + path, headers, body, timeout_s=within_s, direct=True
        )
        try:
            reply = await self._http.send(request)
        except DeadlineExceeded as error:
            raise InfraError(f"the sandbox service: {error.message}") from error
        if reply.status == 410:
            raise ConversationEnded
        if reply.status != 200:
            raise InfraError(
                f"the sandbox service at {self._url} answers {reply.status}: {excerpt(reply.body)}"
            )
        return reply

    def read(self, model: type[M], reply: HttpReply) -> M:
        """Parse a response as `model`. Raises `InfraError` when the response has another format."""
        try:
            return model.model_validate_json(reply.body)
        except ValidationError as error:
            raise InfraError(
                f"the sandbox service at {self._url} answers what is no {model.__name__}: "
                f"{excerpt(reply.body)}"
            ) from error


@final
class HttpConversation:
    """A program on the service's machine that answers one message at a time.

    `waits_s`: the seconds that a message may wait for a free slot on the service.
    """

    def __init__(self, backend: HttpBackend, name: str, *, waits_s: float) -> None:
        self._backend = backend
        self._path = f"/conversations/{name}"
        self._waits_s = waits_s
        self._result: SandboxResult | None = None

    async def ask(self, message: bytes, /, *, within_s: float) -> bytes:
        """Send a message and return the program's answer. Raises `ConversationEnded` when it gives
        none.
        """
        limit_s = within_s + self._waits_s + ENDS_WITHIN_S
        reply = await self._backend.send(
            "POST", self._path, message, within_s=limit_s, answer_s=within_s
        )
        return reply.body

    async def renew(self, lease_s: float) -> None:
        """Renew the conversation's lease regularly, until the conversation is over or this task is
        cancelled.
        """
        pause_s = lease_s / RENEWALS
        with contextlib.suppress(ConversationEnded):
            while True:
                await asyncio.sleep(pause_s)
                with contextlib.suppress(InfraError):
                    await self._backend.send("PUT", self._path, None, within_s=pause_s)

    async def end(self) -> SandboxResult:
        """Stop the program if it still runs, and return how it ended."""
        if self._result is None:
            try:
                reply = await self._backend.send("DELETE", self._path, None, within_s=ENDS_WITHIN_S)
            except ConversationEnded:
                raise InfraError("the sandbox service has forgotten a conversation") from None
            self._result = self._backend.read(SandboxResult, reply)
        return self._result

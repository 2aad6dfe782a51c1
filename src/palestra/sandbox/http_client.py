"""The back end that asks a `palestra sandbox serve`."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final, final

import orjson
from pydantic import ValidationError

from palestra.errors import CallError, ConfigError, DeadlineExceeded, InfraError, excerpt
from palestra.sandbox.backend import ConversationEnded
from palestra.sandbox.limits import Limits, SandboxResult
from palestra.sandbox.program import Program
from palestra.sandbox.service_wire import SERVICE, WITHIN_HEADER, ProgramMessage, ServiceStatus
from palestra.transport import AutoTransport, HttpReply, HttpRequest, HttpTransport

CHECK_WITHIN_S: Final = 30.0
QUEUE_S: Final = 3600.0
"""How long a program may wait for a place in the service, beyond its own limits."""


@final
class HttpBackend:
    """Programs on the machine of the service."""

    def __init__(
        self, host: str, port: int, token: str = "", *, http: HttpTransport | None = None
    ) -> None:
        shown = f"[{host}]" if ":" in host else host
        self._url = f"http://{shown}:{port}"
        self._token = token
        self._http: HttpTransport = http or AutoTransport()
        self._isolates = False

    @property
    def name(self) -> str:
        """`http`."""
        return "http"

    @property
    def isolates(self) -> bool:
        """As the service says of itself."""
        return self._isolates

    async def check(self) -> ServiceStatus:
        """Ask the service what it is. Raises ConfigError when it is not there, or not ours."""
        try:
            reply = await self._send("GET", "/", None, within_s=CHECK_WITHIN_S)
            status = ServiceStatus.model_validate_json(reply.body)
        except CallError as error:
            raise ConfigError(
                f"the sandbox service at {self._url} cannot be used: {error.message}",
                hint="start one there with: palestra sandbox serve",
            ) from error
        except ValidationError:
            status = ServiceStatus(service="", backend="", isolates=False)
        if status.service != SERVICE:
            raise ConfigError(f"what answers at {self._url} is no palestra sandbox service")
        self._isolates = status.isolates
        return status

    async def run(self, program: Program, stdin: bytes, limits: Limits, /) -> SandboxResult:
        """Run a program to its end. Raises `InfraError` when the service fails."""
        message = ProgramMessage.of(program, limits, stdin).model_dump_json().encode()
        reply = await self._send("POST", "/run", message, within_s=limits.wall_s + QUEUE_S)
        return SandboxResult.model_validate_json(reply.body)

    @contextlib.asynccontextmanager
    async def converse(
        self, program: Program, limits: Limits, /
    ) -> AsyncIterator["HttpConversation"]:
        """A program to talk to; it is stopped when the context ends."""
        message = ProgramMessage.of(program, limits).model_dump_json().encode()
        reply = await self._send("POST", "/conversations", message, within_s=QUEUE_S)
        conversation = HttpConversation(self, f"/conversations/{orjson.loads(reply.body)['id']}")
        try:
            yield conversation
        finally:
            # Should this fail, the service ends it when it has been idle for long.
            with contextlib.suppress(InfraError):
                await conversation.end()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        within_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> HttpReply:
        """Raises `ConversationEnded` for a conversation that is over, else `InfraError`."""
        given = {"content-type": "application/octet-stream", **(headers or {})}
        if self._token:
            given["authorization"] = f"Bearer {self._token}"
        request = HttpRequest(method, self._url + path, given, body, timeout_s=within_s)
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


@final
class HttpConversation:
    """A program on the machine of the service that answers message by message."""

    def __init__(self, backend: HttpBackend, path: str) -> None:
        self._backend = backend
        self._path = path
        self._result: SandboxResult | None = None

    async def ask(self, message: bytes, /, *, within_s: float) -> bytes:
        """The program's answer. Raises `ConversationEnded` when there is none."""
        reply = await self._backend._send(  # noqa: SLF001  # one module, one connection
            "POST",
            self._path,
            message,
            within_s=within_s + QUEUE_S,
            headers={WITHIN_HEADER: str(within_s)},
        )
        return reply.body

    async def end(self) -> SandboxResult:
        """Stop the program if it still runs; how it ended."""
        if self._result is None:
            try:
                reply = await self._backend._send(  # noqa: SLF001
                    "DELETE", self._path, None, within_s=QUEUE_S
                )
            except ConversationEnded:
                raise InfraError("the sandbox service has forgotten a conversation") from None
            self._result = SandboxResult.model_validate_json(reply.body)
        return self._result

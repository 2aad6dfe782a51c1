"""The requests of a client to its rollout service: sent again while the service does not answer."""

import asyncio
import random
import time
from typing import Any, Final, TypeVar, final
from urllib.parse import urlencode

import msgspec

from palestra.errors import CallError, DeadlineExceeded, InfraError, PalestraError, RunFailed
from palestra.schema import JSON_TYPE
from palestra.training.outcomes import json_of
from palestra.training.service.failures import error_from_json
from palestra.training.service.operations import RolloutOperations
from palestra.transport import ConnectionFailed, HttpRequest, HttpTransport

Answer = TypeVar("Answer")

ANSWER_S: Final = 90.0
"""The timeout in seconds of one request: longer than a stream waits for its first line."""
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
_GONE: Final = frozenset({404, 410})
_GATEWAYS: Final = frozenset({502, 503, 504})


class BatchGone(RunFailed):
    """Error: the service does not have the batch, because it was started anew or the lease is over."""


@final
class ServiceCalls:
    """Sends requests to one service. Each may be sent twice, as every operation allows that."""

    def __init__(self, http: HttpTransport, url: str, token: str, *, patience_s: float) -> None:
        self.url = url.rstrip("/")
        self._http = http
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._patience_s = patience_s
        self.operations = RolloutOperations(self._send_patiently)
        self.once = RolloutOperations(self._send)
        """The same operations, sent once."""

    async def _send_patiently(
        self,
        method: str,
        path: str,
        answer: type[Answer],
        /,
        *,
        query: dict[str, Any] | None = None,
        body: object = None,
    ) -> Answer:
        give_up = time.monotonic() + self._patience_s
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await self._send(method, path, answer, query=query, body=body)
            except (ConnectionFailed, DeadlineExceeded) as error:
                if time.monotonic() + pause_s > give_up:
                    raise _gone(error, self._patience_s) from error
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _send(
        self,
        method: str,
        path: str,
        answer: type[Answer],
        /,
        *,
        query: dict[str, Any] | None = None,
        body: object = None,
    ) -> Answer:
        words = {} if query is None else {name: _word(value) for name, value in query.items()}
        request = HttpRequest(
            method,
            f"{self.url}{path}" + (f"?{urlencode(words)}" if words else ""),
            headers=self._headers | ({} if body is None else {"content-type": JSON_TYPE}),
            body=None if body is None else json_of(body),
            timeout_s=ANSWER_S,
            repeatable=True,
        )
        reply = await self._http.send(request)
        if reply.status >= 400:
            raise self._error(reply.status, reply.body)
        if answer is bytes:
            return reply.body  # type: ignore[return-value]  # which is an Answer here
        try:
            return msgspec.json.decode(reply.body, type=answer)
        except msgspec.MsgspecError as error:
            raise self.unreadable(reply.status, reply.body) from error

    def unreadable(self, status: int, body: bytes) -> InfraError:
        """Return the error for an answer that is none of a rollout service: a proxy's page, say."""
        return InfraError(
            f"{self.url} answered with HTTP {status}: {body[:200]!r}",
            hint="give the address that `palestra serve-rollouts` printed, without a path",
        )

    def _error(self, status: int, body: bytes) -> PalestraError:
        error = error_from_json(body)
        if error is None and status in _GATEWAYS:
            return ConnectionFailed(f"{self.url}: HTTP {status}", was_sent=True)
        if error is None:
            return self.unreadable(status, body)
        if status in _GONE:
            return BatchGone(error.message, hint=error.hint)
        return error


def _gone(error: CallError, patience_s: float) -> CallError:
    return InfraError(f"{error.message} (for {patience_s:g} s)", hint=error.hint)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

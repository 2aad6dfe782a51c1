"""`FailoverRoute`: tries one request at several endpoints in turn, until one accepts it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import final

from msgspec.structs import replace

from palestra.errors import ModelError
from palestra.responses_api_models.chat.endpoints import Endpoints, ProviderEndpoint
from palestra.transport import BUSY_STATUSES, ConnectionFailed, HttpReply, retry_after_s

MOST_LOST = 3
"""After this number of broken connections during one request, the request itself is considered the
cause."""


def _request_at_fault(lost: int, url: str, error: ConnectionFailed) -> ModelError:
    """Return the error of a request over which `lost` connections broke at several endpoints, the
    last one at `url`. It is not sent again, neither by its call nor by another attempt.
    """
    failure = ModelError(
        f"{lost} connections broke over this request, the last one at {url}: {error.message}",
        hint="this request may crash the endpoints: read their logs, and check the request's tools",
    )
    failure.retriable = False
    return failure


def url_of(base_url: str, path: str) -> str:
    """Return the URL of `path` below the base URL. A path that begins with `../` is at the server's
    root.
    """
    if path.startswith("../"):
        return base_url.removesuffix("/v1") + path[2:]
    return base_url + path


@final
class FailoverRoute:
    """One request and the endpoints that it tries for its session.

    `send`: sends the request to a URL, with the seconds left, like `HttpTransport.send`. `moved`:
    called each time the request is sent again to another endpoint.
    """

    __slots__ = (
        "_endpoints",
        "_lost",
        "_moved",
        "_path",
        "_send",
        "_session",
        "_soured",
        "url",
    )

    def __init__(
        self,
        endpoints: Endpoints,
        path: str,
        *,
        session: str,
        send: Callable[[str, float | None], Awaitable[HttpReply]],
        moved: Callable[[], None],
    ) -> None:
        self._endpoints = endpoints
        self._path = path
        self._session = session
        self._send = send
        self._moved = moved
        self._lost = 0
        self._soured: set[ProviderEndpoint] = set()
        """Those that answered 500: the next try goes elsewhere, if it can."""
        self.url = url_of(endpoints.home(session).url, path)
        """Where it went last."""

    async def send(self, remaining_s: float | None) -> HttpReply:
        """Try one endpoint after the other, until one accepts the request or none is left.

        As with a single endpoint, the last endpoint's error is raised or its answer returned. But
        the `Retry-After` of a busy answer becomes the shortest wait of all endpoints.
        """
        deadline = None if remaining_s is None else asyncio.get_running_loop().time() + remaining_s
        tried: set[ProviderEndpoint] = set()
        endpoint = self._enter(tried)
        while True:
            tried.add(endpoint)
            reply: HttpReply | None = None
            failure: ConnectionFailed | None = None
            try:
                reply = await self._exchange(endpoint, deadline)
            except ConnectionFailed as error:
                failure = error
                self._note_loss(endpoint, error)
            finally:
                self._endpoints.leave(self._session, endpoint)
            if reply is not None and not self._is_busy(endpoint, reply):
                return reply
            further = self._endpoints.enter(self._session, tried)
            if further is not None:
                self._moved()
                endpoint = further
            elif reply is not None:
                return self._with_shortest_wait(reply)
            elif failure is not None:
                raise failure

    def _with_shortest_wait(self, reply: HttpReply) -> HttpReply:
        # Where none was asked for, the usual one has its jitter.
        if retry_after_s(reply) is None:
            return reply
        wait = f"{self._endpoints.soonest_s():.3f}"
        return replace(reply, headers={**reply.headers, "retry-after": wait})

    def _enter(self, tried: set[ProviderEndpoint]) -> ProviderEndpoint:
        endpoint = self._soured and self._endpoints.enter(self._session, self._soured)
        endpoint = endpoint or self._endpoints.enter(self._session, tried)
        # There is one, as `home` found one.
        return endpoint or self._endpoints.home(self._session)

    async def _exchange(self, endpoint: ProviderEndpoint, deadline: float | None) -> HttpReply:
        self.url = url_of(endpoint.url, self._path)
        left_s = None if deadline is None else deadline - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(None) as wait:
                endpoint.waits.add(wait)
                try:
                    return await self._send(self.url, left_s)
                finally:
                    endpoint.waits.discard(wait)
        except TimeoutError as error:
            raise ConnectionFailed(
                f"{self.url} does not answer, and its host does not say that it is alive",
                was_sent=True,
            ) from error

    def _note_loss(self, endpoint: ProviderEndpoint, error: ConnectionFailed) -> None:
        self._endpoints.lost(endpoint, error.message)
        self._lost += error.was_sent
        if self._lost >= MOST_LOST:
            raise _request_at_fault(self._lost, endpoint.url, error) from error

    def _is_busy(self, endpoint: ProviderEndpoint, reply: HttpReply) -> bool:
        """Record the status for the endpoint. Returns whether it is busy, so that another one
        should be tried.
        """
        if reply.status in BUSY_STATUSES:
            self._endpoints.busy(endpoint, retry_after_s(reply), reply.status)
            return True
        if reply.status == 500:
            self._soured.add(endpoint)
            self._endpoints.broken(endpoint)
        else:
            self._endpoints.answered(endpoint)
        return False

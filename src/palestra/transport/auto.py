"""`AutoTransport`: plain HTTP by our own client, everything else by aiohttp."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, final

from palestra.transport.h1 import PlainTransport
from palestra.transport.http import CONNECTOR_LIMIT, HttpReply, HttpRequest

if TYPE_CHECKING:
    from palestra.transport.secure import AiohttpTransport


@final
class AutoTransport:
    """`limit` and `limit_per_host` bound the exchanges under way; 0 does not.

    aiohttp is imported at the first URL that needs it: that takes 0.2 s, and a run against
    endpoints without TLS never pays them.
    """

    def __init__(self, *, limit: int = CONNECTOR_LIMIT, limit_per_host: int = 0) -> None:
        self._limit = limit
        self._limit_per_host = limit_per_host
        self._plain = PlainTransport(limit=limit, limit_per_host=limit_per_host)
        self._secure: AiohttpTransport | None = None

    def send(self, request: HttpRequest, /) -> Coroutine[Any, Any, HttpReply]:
        """As the transport says that its URL belongs to."""
        if request.url.startswith("http://"):
            return self._plain.send(request)
        return self._for_tls().send(request)

    async def aclose(self) -> None:
        """Close both."""
        await self._plain.aclose()
        if self._secure is not None:
            await self._secure.aclose()

    def _for_tls(self) -> "AiohttpTransport":
        if self._secure is None:
            from palestra.transport.secure import AiohttpTransport

            self._secure = AiohttpTransport(limit=self._limit, limit_per_host=self._limit_per_host)
        return self._secure

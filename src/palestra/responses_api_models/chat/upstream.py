"""`Upstream`: sends JSON requests to the endpoints of one provider over the shared HTTP transport."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import NamedTuple, final

import orjson

from palestra.errors import (
    CallError,
    DeadlineExceeded,
    Hop,
    ModelError,
    add_hop,
    excerpt,
    mask_error,
)
from palestra.responses_api_models.chat.answers import ChatAnswerReader
from palestra.responses_api_models.chat.endpoints import Endpoints, ProviderEndpoint
from palestra.responses_api_models.chat.failover import (
    MOST_LOST,
    FailoverRoute,
    url_of,
)
from palestra.responses_api_models.chat.provider_errors import (
    ContextOverflow,
    provider_sentence,
)
from palestra.schema import JsonObject, encode_json
from palestra.transport import (
    AnsweredRollouts,
    ConnectionFailed,
    HttpReply,
    HttpRequest,
    HttpTransport,
    Patience,
    Refusals,
    RetryCount,
    RetryPolicy,
    ServerClient,
    current_call,
    with_retries,
)

PROBE_TIMEOUT_S = 10.0
"""The timeout in seconds of a request about the endpoint itself."""

REQUEST_TIMEOUT_S = 3600.0
"""The maximum seconds of one request, also without a rollout deadline. A host that crashed closes
no connection, so the request would otherwise never end."""

SILENT_S = 30.0
"""Seconds without any answer after which an endpoint with waiting requests gets a liveness check. A
host that crashed closes no connection."""

STRIKES = 3
"""The number of unanswered liveness checks after which an endpoint's requests move to other
endpoints."""

_SHORTEST_KEY_MASKED = 8
"""The minimum length of a key that is masked. A shorter key (`EMPTY`, `dummy`) is no secret, and
may be part of ordinary words."""


_CLIENT_ERROR = 400
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500

_LONGEST_REASON = 200
"""The maximum number of characters of a provider's message in a log line."""


class Answered(NamedTuple):
    """The result of a request, and the URL that it came from."""

    url: str
    body: bytes | ContextOverflow


async def _noted(
    patience: Patience | None,
    send: Callable[[float | None], Awaitable[HttpReply]],
    remaining_s: float | None,
) -> HttpReply:
    """Send one request, and report its outcome to `patience`, the run's limit on refusals, if
    given.
    """
    if patience is None:
        return await send(remaining_s)
    patience.sent()
    try:
        reply = await send(remaining_s)
    except (ConnectionFailed, ModelError):
        patience.refused()
        raise
    except BaseException:
        patience.returned()
        raise
    if reply.status < _CLIENT_ERROR:
        patience.answered()
    elif reply.status == _TOO_MANY_REQUESTS or reply.status >= _SERVER_ERROR:
        patience.refused()
    else:
        patience.returned()
    return reply


class _CutTooOften(Exception):
    """So many connections broke over one request that its call does not send it again."""

    def __init__(self, error: ConnectionFailed, lost: int) -> None:
        super().__init__(error.message)
        self.error = error
        self.lost = lost


@contextmanager
def _of_a_cut_call() -> Iterator[None]:
    """Raise the error of the last connection, with the number of those that broke.

    The failure stays one of the infrastructure: a proxy before the endpoint may cut its answers.
    """
    try:
        yield
    except _CutTooOften as ended:
        failure = ended.error
        failure.message = f"{failure.message} ({ended.lost} connections broke over this request)"
        failure.args = (failure.message,)
        raise failure from failure.__cause__


@final
class Upstream:
    """A sender of requests that retries until they are answered; `answers` interprets the answers.

    `server`: the model server's instance name, used in error messages. The key is sent in a header
    only. In answers that quote it, the key is masked, and so are all secrets known to `client`.
    `client` also logs failed requests.
    """

    def __init__(
        self,
        http: HttpTransport,
        *,
        server: str,
        model: str,
        api_key: str = "",
        key_header: str = "authorization",
        headers: Mapping[str, str] | None = None,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        policy: RetryPolicy | None = None,
        count: RetryCount | None = None,
        client: ServerClient | None = None,
    ) -> None:
        self._http = http
        self._server = server
        self.answers = ChatAnswerReader(
            server=server,
            model=model,
            mask=self.mask,
            answered_rollouts=AnsweredRollouts() if client is None else client.answered,
        )
        self._secret = api_key if len(api_key) >= _SHORTEST_KEY_MASKED else ""
        self._client = client
        self._debugging = client is not None and client.debug
        self._headers = {"content-type": "application/json"}
        if api_key:
            is_bearer = key_header == "authorization"
            self._headers[key_header] = f"Bearer {api_key}" if is_bearer else api_key
        self._headers.update({name.lower(): value for name, value in (headers or {}).items()})
        self._request_timeout_s = request_timeout_s
        self._policy = policy or RetryPolicy()
        self._count = count or RetryCount()
        self._refusals = Refusals() if client is None else client.refusals

    async def post(self, url: str, body: JsonObject) -> bytes | ContextOverflow:
        """POST `body`, with retries, until an answer comes or the rollout's deadline passes.

        Raises `CallError`: the endpoint refuses (see `classify`), or no answer came.
        """
        encoded = encode_json(body)
        return await self._post(encoded, partial(self._send_once, url, encoded), lambda: url)

    async def post_to(
        self, endpoints: Endpoints, path: str, body: JsonObject, *, session: str
    ) -> Answered:
        """POST `body` to the session's endpoint, or to another one when that endpoint is avoided.

        Raises the same errors as `post`.
        """
        encoded = encode_json(body)
        if len(endpoints.all) == 1:
            # Nothing to choose, and so nothing to note: as nearly always.
            url = url_of(endpoints.all[0].url, path)
            once = partial(self._send_once, url, encoded)
            return Answered(url, await self._post(encoded, once, lambda: url))

        async def send(url: str, remaining_s: float | None) -> HttpReply:
            return await self._send_once(url, encoded, remaining_s)

        way = FailoverRoute(endpoints, path, session=session, send=send, moved=self._count_moved)
        answer = await self._post(encoded, way.send, lambda: way.url)
        return Answered(way.url, answer)

    async def _post(
        self,
        encoded: bytes,
        send: Callable[[float | None], Awaitable[HttpReply]],
        url_now: Callable[[], str],
    ) -> bytes | ContextOverflow:
        activity = current_call().activity
        if activity is not None:
            activity.now("model server", f"the endpoint of {self._server} ({url_now()})")
        last: HttpReply | None = None
        lost = 0
        patience = self._refusals.patience_of(current_call())

        async def remembered(remaining_s: float | None) -> HttpReply:
            nonlocal last, lost
            try:
                last = await _noted(patience, send, remaining_s)
            except ConnectionFailed as error:
                # What it said before is not why. (It is, when only the time ran out.)
                last = None
                lost += error.was_sent
                if lost >= MOST_LOST and await self._is_alive(url_now()):
                    raise _CutTooOften(error, lost) from error
                raise
            if last.status == _TOO_MANY_REQUESTS:
                self.answers.raise_hopeless(url_now(), last)
            return last

        try:
            with patience or nullcontext(), _of_a_cut_call():
                reply = await with_retries(
                    remembered,
                    what=f"{self._server} ({url_now()})",
                    stateless=True,
                    policy=self._policy,
                    count=self._count,
                    words=self._words,
                    patience=patience,
                )
                if patience is not None and reply.status >= _SERVER_ERROR:
                    words = self._words(reply.body)
                    patience.check(
                        f"{self._server} ({url_now()}) answered {reply.status} ({words})"
                    )
        except CallError as error:
            url = url_now()
            self._log("POST", url, encoded, error.message)
            mask_error(error, self.mask)
            add_hop(error, self.answers.hop(self.mask(url), last))
            raise
        url = url_now()
        if reply.status >= 300 or self._debugging:
            self._log("POST", url, encoded, excerpt(reply.body), reply.status)
        if reply.status < 300:
            return reply.body
        return self.answers.refused(url, reply)

    async def _is_alive(self, url: str) -> bool:
        """Whether anything answers at `url`, with any status."""
        left_s = current_call().remaining_s()
        timeout_s = PROBE_TIMEOUT_S if left_s is None else min(left_s, PROBE_TIMEOUT_S)
        try:
            await self._http.send(HttpRequest("GET", url, self._headers, timeout_s=timeout_s))
        except CallError:
            return False
        return True

    def _words(self, body: bytes) -> str:
        """Return the provider's message as one short line; a proxy's message may be a whole page."""
        return self.mask(" ".join(provider_sentence(body).split()))[:_LONGEST_REASON]

    async def _send_once(self, url: str, encoded: bytes, remaining_s: float | None) -> HttpReply:
        longest = self._request_timeout_s
        timeout_s = longest if remaining_s is None or remaining_s > longest else remaining_s
        request = HttpRequest(
            "POST", url, self._headers, encoded, timeout_s=timeout_s, repeatable=True
        )
        try:
            return await self._http.send(request)
        except DeadlineExceeded as error:
            if timeout_s < longest:
                raise
            raise DeadlineExceeded(
                error.message,
                hint="raise request_timeout_s of the model server, or find out "
                "why the endpoint is slow",
            ) from error

    def _count_moved(self) -> None:
        self._count.retries += 1

    async def watch(self, endpoints: Endpoints, *, every_s: float = SILENT_S / 3) -> None:
        """Run until cancelled: end the requests at endpoints that died without closing their
        connections.
        """
        while True:
            await asyncio.sleep(every_s)
            silent = [
                endpoint
                for endpoint in endpoints.all
                if endpoints.silent(endpoint, since_s=SILENT_S)
            ]
            await asyncio.gather(
                *(self.ask_whether_alive(endpoints, endpoint) for endpoint in silent)
            )

    async def ask_whether_alive(self, endpoints: Endpoints, endpoint: ProviderEndpoint) -> None:
        """Send one liveness check to an endpoint. After `STRIKES` checks without an answer, avoid
        the endpoint.
        """
        request = HttpRequest(
            "GET", f"{endpoint.url}/models", self._headers, timeout_s=PROBE_TIMEOUT_S
        )
        try:
            await self._http.send(request)
        except CallError as error:
            endpoint.strikes += 1
            if endpoint.strikes < STRIKES:
                return
            endpoints.lost(endpoint, self.mask(error.message))
            # Each once: a timeout that already expires raises an error when it is rescheduled.
            while endpoint.waits:
                endpoint.waits.pop().reschedule(0.0)
        else:
            # It may still be busy or on trial: only that it lives is known.
            endpoint.strikes = 0

    async def ask(
        self, method: str, url: str, body: bytes | None = None, *, timeout_s: float
    ) -> HttpReply:
        """Send one request about the endpoint itself, without retries. Any status is returned.

        Raises `CallError`: no answer came.
        """
        request = HttpRequest(
            method, url, self._headers, body, timeout_s=timeout_s, repeatable=True
        )
        try:
            return await self._http.send(request)
        except CallError as error:
            self._log(method, url, body or b"", error.message)
            mask_error(error, self.mask)
            add_hop(error, Hop(self._server, self.mask(url)))
            raise

    async def models(self, base_url: str, *, query: str = "") -> list[str]:
        """Return the model names that `GET <base_url>/models` lists. Sends one request, without
        retries. `query`: the query string, with its question mark.

        Raises `CallError`: the endpoint is unreachable, refuses, or sends no such list.
        """
        url = f"{base_url}/models{query}"
        left_s = current_call().remaining_s()
        timeout_s = PROBE_TIMEOUT_S if left_s is None else min(left_s, PROBE_TIMEOUT_S)
        reply = await self.ask("GET", url, timeout_s=timeout_s)
        if reply.status >= 300:
            self._log("GET", url, b"", excerpt(reply.body), reply.status)
            self.answers.refused(url, reply)
        try:
            return [str(entry["id"]) for entry in orjson.loads(reply.body)["data"]]
        except (ValueError, LookupError, TypeError) as error:
            raise self.answers.unreadable(url, reply.body, "list of models", error) from error

    def mask(self, text: str) -> str:
        """Return `text` with the key and the configuration's secrets masked."""
        masked = text.replace(self._secret, "****") if self._secret else text
        return masked if self._client is None else self._client.mask(masked)

    def _log(
        self, method: str, url: str, body: bytes, answer: str, status: int | None = None
    ) -> None:
        if self._client is not None:
            self._client.log_exchange(
                method, url, body, self.mask(answer), headers=self._headers, status=status
            )

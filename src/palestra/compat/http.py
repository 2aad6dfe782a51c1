"""Send requests to any URL, as authors' code does, and read the responses.

Functions that read a response accept Palestra's, aiohttp's, and the replacements used in tests.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from http.cookies import Morsel
from typing import Any
from weakref import WeakKeyDictionary

import orjson
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from palestra.errors import CallError, MissingExtra, excerpt
from palestra.schema import encode_json
from palestra.transport import HttpReply, RetryCount, RetryPolicy, current_call, with_retries

try:
    import aiohttp
except ModuleNotFoundError as error:
    reason = "servers written against nemo_gym need aiohttp"
    raise MissingExtra(reason, extra="nemo-gym") from error

CONNECT_TRIES = 3
AFTER_DEADLINE_S = 5.0
"""How long a request goes on after its rollout's deadline, unless it is cancelled, in seconds."""
LONGEST_WAIT_S = 600.0
"""Longest time that a request outside of any rollout may take, in seconds."""

_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = WeakKeyDictionary()
# One per event loop, as authors call `request` from wherever they are: a session belongs to one.


class ServerRefused(aiohttp.ClientResponseError):
    """A server responded with an error. `failure` is the `CallError` read from the body, if any.

    `response_content` is the body.
    """

    def __init__(
        self, url: str, status: int, content: bytes, failure: CallError | None = None
    ) -> None:
        headers = CIMultiDictProxy(CIMultiDict[str]())
        request_info = aiohttp.RequestInfo(_url(url), "POST", headers, _url(url))
        text = content.decode("utf-8", "replace")
        super().__init__(request_info, (), status=status, message=text[:500], headers=headers)
        self.response_content = content
        self.failure = failure


class EndpointRefused(ServerRefused):
    """A model endpoint responded with an error. `url`: what was asked; `model`: the model that was."""

    def __init__(self, url: str, status: int, content: bytes, model: str) -> None:
        super().__init__(url, status, content)
        self.url = url
        self.model = model


def _url(text: str) -> URL:
    try:
        return URL(text)
    except ValueError:
        return URL()


def global_client() -> aiohttp.ClientSession:
    """Return the aiohttp session of the running event loop. The session neither stores nor adds
    cookies.
    """
    loop = asyncio.get_running_loop()
    session = _sessions.get(loop)
    if session is None or session.closed:
        session = set_global_client(limit=0, limit_per_host=0)
    return session


def set_global_client(*, limit: int, limit_per_host: int) -> aiohttp.ClientSession:
    """Make the running event loop's session and return it. The limits are numbers of connections; 0
    is no limit.
    """
    session = _sessions[asyncio.get_running_loop()] = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=limit, limit_per_host=limit_per_host),
        cookie_jar=aiohttp.DummyCookieJar(),
        json_serialize=lambda value: encode_json(value).decode(),
    )
    return session


async def close_global_client() -> None:
    """Close the running event loop's session; the next `global_client` call makes a new one."""
    session = _sessions.pop(asyncio.get_running_loop(), None)
    if session is not None:
        await session.close()


async def request(method: str, url: str, **kwargs: Any) -> aiohttp.ClientResponse:
    """Send one request and return the response with its body read. A failed connection is retried.

    The rollout's deadline limits the time. Arguments are those of aiohttp.
    """
    kwargs.pop("_internal", None)
    kwargs.setdefault("timeout", aiohttp.ClientTimeout(total=_time_left()))
    if "cookies" in kwargs:
        kwargs["cookies"] = cookie_values(kwargs["cookies"])
    for attempt in range(1, CONNECT_TRIES + 1):
        try:
            response = await global_client().request(method, url, **kwargs)
            await response.read()
        except (aiohttp.ClientConnectorError, ConnectionResetError):
            if attempt == CONNECT_TRIES:
                raise
            await asyncio.sleep(0.2 * 2**attempt)
        else:
            return response
    raise AssertionError("unreachable")


async def patient_request(
    send: Callable[[], Awaitable[Any]], *, what: str, busy: frozenset[int], count: RetryCount
) -> Any:
    """Return the response of `send`, a request that may be repeated, such as a model call.

    It is repeated while its status is in `busy`, twice after a status 500, and when the connection
    is lost. The rollout's deadline limits the time. `what`: the endpoint, for messages.
    """
    response: Any = None

    async def reply_of(_remaining_s: float | None) -> HttpReply:
        nonlocal response
        response = await _undisturbed(send)
        status, headers = getattr(response, "status", 200), getattr(response, "headers", None)
        # A test's replacement may have neither.
        return HttpReply(
            status if isinstance(status, int) else 200,
            b"",
            {str(name).lower(): value for name, value in headers.items()}
            if isinstance(headers, Mapping)
            else {},
        )

    policy = RetryPolicy(busy=busy)
    await with_retries(reply_of, what=what, stateless=True, policy=policy, count=count)
    return response


async def _undisturbed(send: Callable[[], Awaitable[Any]]) -> Any:
    """Call `send` again when the endpoint closes a connection that was kept open."""
    for _ in range(1, CONNECT_TRIES):
        try:
            return await send()
        except aiohttp.ServerDisconnectedError:
            continue
    return await send()


def _time_left() -> float:
    """Return how long a request may take, in seconds. The end of a rollout's time is for the server to
    say, which knows what it means.
    """
    left_s = current_call().remaining_s()
    return LONGEST_WAIT_S if left_s is None else left_s + AFTER_DEADLINE_S


async def raise_for_status(response: Any) -> None:
    """Raise when `response` has an error status. The exception has the body as `response_content`."""
    ok = getattr(response, "ok", None)
    if ok is None:
        status = getattr(response, "status", 200)
        ok = not isinstance(status, int) or status < 400
    if ok:
        return
    content = await _body(response)
    try:
        await _awaited(response.raise_for_status())
    except aiohttp.ClientResponseError as error:
        error.response_content = content  # type: ignore[attr-defined]  # authors read it
        raise
    status = getattr(response, "status", 500)
    raise ServerRefused(
        str(getattr(response, "url", "")), status if isinstance(status, int) else 500, content
    )


async def response_json(response: Any) -> Any:
    """Return the JSON of a response. Raises for an error status, like `raise_for_status`."""
    await raise_for_status(response)
    return await get_response_json(response)


async def endpoint_json(response: Any, url: str, *, model: str) -> Any:
    """Return the JSON of a model endpoint's response. `url`: what was asked; `model`: of which model.

    Raises EndpointRefused: the status is an error. Raises JSONDecodeError: the body is not JSON.
    """
    try:
        return await response_json(response)
    except aiohttp.ClientResponseError as error:
        content: bytes = getattr(error, "response_content", b"")
        # Without its cause, so that the line that is told is the author's.
        raise EndpointRefused(url, error.status, content, model) from None
    except orjson.JSONDecodeError as error:
        reason = f"{url} answered what is not JSON: {excerpt(error.doc)}"
        raise orjson.JSONDecodeError(reason, error.doc, error.pos) from error


async def get_response_json(response: Any) -> Any:
    """Return the JSON of a response of any type: Palestra's, aiohttp's, or a test's replacement."""
    for reader_name in ("read", "text"):
        body = await _called(response, reader_name)
        if isinstance(body, bytes | bytearray | str):
            return orjson.loads(body)
    return await _called(response, "json")


async def _body(response: Any) -> bytes:
    content = getattr(response, "content", None)
    # The response first: of a body that was read before, its stream has nothing left.
    for holder in (response, content):
        body = await _called(holder, "read")
        if isinstance(body, bytes | bytearray):
            return bytes(body)
        if isinstance(body, str):
            return body.encode()
    return content if isinstance(content, bytes) else b""


async def _called(holder: Any, name: str) -> Any:
    method = getattr(holder, name, None)
    return await _awaited(method()) if callable(method) else method


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def cookie_values(cookies: Any) -> dict[str, str] | None:
    """Return cookies as texts. Values of `cookies` may be texts or a response's `Morsel` objects."""
    if not isinstance(cookies, Mapping):
        return None
    return {
        str(name): value.value if isinstance(value, Morsel) else str(value)
        for name, value in cookies.items()
    }

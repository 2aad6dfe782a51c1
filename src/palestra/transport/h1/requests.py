"""Converts an `HttpRequest` to the bytes of its head.

`yarl` parses URLs, as in aiohttp: spaces, umlauts and dots mean the same. Parts that are equal in
many requests (a URL, a set of headers) are parsed once and cached, up to a limit.
"""

import re
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, final

from yarl import URL

from palestra.transport.h1.dialing import Address
from palestra.transport.h1.proxies import Proxies, basic
from palestra.transport.http import HttpRequest, RequestRefused, WrongUrl, cookie_header

REMEMBERED = 1024
"""The largest number of URLs, and of sets of headers, cached per transport. A fleet has a few dozen
URLs."""

BODILESS_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that send no `content-length` when there is no body; others send `content-length: 0`."""

_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})
_DEFAULTS: Final = (("accept", "*/*"), ("user-agent", "palestra"))
_BINARY: Final = ("content-type", "application/octet-stream")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Route:
    """The parsed form of one method and one URL."""

    address: Address
    request_line: bytes
    """The request line; with a plain HTTP proxy also the proxy's authorization header."""
    host_line: bytes
    authorization: bytes
    """The authorization header line; empty when the URL has no credentials."""
    bodiless: bool
    """Whether answers to this method never have a body, whatever their headers say."""
    announces_nothing: bool


@dataclass(frozen=True, slots=True)
class Fields:
    """The parsed form of a set of headers, with the default headers added."""

    lines: bytes
    has_host: bool
    has_authorization: bool


@final
class RequestHeads:
    """Writes request heads, and caches the parsed URLs and headers.

    The headers for a model endpoint are the same in every request.
    """

    def __init__(self, proxies: Proxies) -> None:
        self.route = lru_cache(REMEMBERED)(partial(parse_route, proxies))
        self._fields = lru_cache(REMEMBERED)(parse_fields)

    def head(self, route: Route, request: HttpRequest) -> bytes:
        """Return all bytes before the body. Raises `RequestRefused`: the request would be invalid
        HTTP.
        """
        body = request.body
        fields = self._fields(tuple(request.headers.items()), bool(body))
        if fields.has_authorization and route.authorization:
            raise RequestRefused(
                f"{request.method} to {route.address[0]}: the URL has credentials, and so has the "
                "authorization header",
                hint="leave one of them out",
            )
        host = b"" if fields.has_host else route.host_line
        cookie_line = _line("cookie", cookie_header(request.cookies)) if request.cookies else b""
        if body or not route.announces_nothing:
            cookie_line += b"content-length: %d\r\n" % len(body or b"")
        return b"%b%b%b%b%b\r\n" % (
            route.request_line,
            host,
            fields.lines,
            route.authorization,
            cookie_line,
        )


def parse_route(proxies: Proxies, method: str, url: str, direct: bool = False) -> Route:
    """Parse a method and a URL. `direct`: use no proxy. Raises `WrongUrl`: `url` is no HTTP URL."""
    if _TOKEN.fullmatch(method) is None:
        raise RequestRefused(f"{method!r} is not an HTTP method")
    if _CONTROL.search(url):
        # yarl would drop them without a word.
        raise WrongUrl(f"{url!r} is not a URL of HTTP: it has control characters")
    try:
        parsed = URL(url)
        host, port = parsed.raw_host, parsed.port
    except ValueError as error:
        raise WrongUrl(f"{url!r} is not a URL of HTTP: {error}") from None
    scheme = parsed.scheme
    if scheme not in {"http", "https"} or not host or port is None:
        raise WrongUrl(f"{url!r} is not a URL of HTTP")
    tls = scheme == "https"
    proxy = None if direct else proxies.proxy_for(scheme, host, port)
    authorization = b""
    if parsed.raw_user or parsed.raw_password:
        authorization = _line("authorization", basic(parsed.user or "", parsed.password or ""))
    method = method.upper()
    authority = parsed.host_port_subcomponent or ""
    target, proxy_line = parsed.raw_path_qs, b""
    if proxy is not None and not tls:
        target, proxy_line = f"http://{authority}{target}", proxy.authorization
    return Route(
        address=Address(host, port, tls, proxy),
        request_line=f"{method} {target} HTTP/1.1\r\n".encode() + proxy_line,
        host_line=_line("host", authority),
        authorization=authorization,
        bodiless=method == "HEAD",
        announces_nothing=method in BODILESS_METHODS,
    )


def parse_fields(headers: tuple[tuple[str, str], ...], has_body: bool) -> Fields:
    """Parse headers. Raises `RequestRefused`: a header is invalid, or only the transport may set
    it.
    """
    names = {name.lower() for name, _ in headers}
    if framing := names & _FRAMING:
        raise RequestRefused(f"the {framing.pop()} header is set by Palestra and cannot be passed")
    added = [*_DEFAULTS, _BINARY] if has_body else _DEFAULTS
    lines = [_line(name, value) for name, value in headers]
    lines += [_line(name, value) for name, value in added if name not in names]
    return Fields(b"".join(lines), "host" in names, "authorization" in names)


def _line(name: str, value: str) -> bytes:
    if _TOKEN.fullmatch(name) is None:
        raise RequestRefused(f"{name!r} is not a valid header name")
    if "\n" in value or "\r" in value or "\0" in value:
        raise RequestRefused(
            f"the {name} header has a line break: what follows it would be read as another header"
        )
    try:
        # Bytes that were no text when they came in (a cookie) go out as they were.
        return f"{name}: {value}\r\n".encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise RequestRefused(f"the {name} header is not text: {error}") from None

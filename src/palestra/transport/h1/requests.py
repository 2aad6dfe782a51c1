"""From an `HttpRequest` to the bytes of its head.

URLs mean here what they mean to aiohttp: `yarl` reads them. What does not change from request
to request (a URL, a set of header names) is read once and remembered, a bounded number of each.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, final

from yarl import URL

from palestra.transport.http import HttpRequest, RequestRefused, cookie_header

REMEMBERED = 1024
"""URLs and sets of header names kept per transport; a fleet has a few dozen of each."""

BODILESS_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Without a body these announce none; others say `content-length: 0`."""

_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})
_DEFAULTS: Final = (("accept", "*/*"), ("user-agent", "palestra"))
_BINARY: Final = ("content-type", "application/octet-stream")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Route:
    """What one method and one URL come to."""

    address: tuple[str, int]
    request_line: str
    host_line: str
    authorization: str
    """A header line, when the URL has credentials."""
    bodiless: bool
    """Whether no answer to it has a body, whatever its headers say."""
    announces_nothing: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """What a set of header names comes to: lines with a place for each value."""

    template: str
    lines: int
    has_host: bool
    has_authorization: bool


@final
class RequestHeads:
    """Writes request heads; remembers what their URLs and header names came to."""

    __slots__ = ("_shape", "route")

    def __init__(self) -> None:
        self.route = lru_cache(REMEMBERED)(parse_route)
        self._shape = lru_cache(REMEMBERED)(parse_shape)

    def head(self, route: Route, request: HttpRequest) -> bytes:
        """Everything up to the body. Raises `RequestRefused` when it would not be HTTP."""
        headers, body = request.headers, request.body
        shape = self._shape(tuple(headers), bool(body))
        fields = shape.template % tuple(headers.values())
        lines = shape.lines
        if request.cookies:
            fields = f"{fields}cookie: {cookie_header(request.cookies)}\r\n"
            lines += 1
        # Each line of ours has one of each; one more is somebody's smuggled line.
        if fields.count("\n") != lines or fields.count("\r") != lines or "\0" in fields:
            raise RequestRefused(_smuggled(request))
        if shape.has_authorization and route.authorization:
            raise RequestRefused(
                f"{request.method} to {route.address[0]}: the URL has credentials, and so has the "
                "authorization header",
                hint="leave one of them out",
            )
        host = "" if shape.has_host else route.host_line
        if body or not route.announces_nothing:
            length = f"content-length: {len(body or b'')}\r\n\r\n"
        else:
            length = "\r\n"
        try:
            return f"{route.request_line}{host}{fields}{route.authorization}{length}".encode(
                "utf-8", "surrogateescape"
            )
        except UnicodeEncodeError as error:
            raise RequestRefused(f"{request.url}: a header is no text: {error}") from None


def parse_route(method: str, url: str) -> Route:
    """Raises `RequestRefused` when `url` is none of plain HTTP."""
    if _TOKEN.fullmatch(method) is None:
        raise RequestRefused(f"{method!r} is no method of HTTP")
    if _CONTROL.search(url):
        # yarl would drop them without a word.
        raise RequestRefused(f"{url!r} is not a URL of HTTP: it has control characters")
    try:
        parsed = URL(url)
        host, port = parsed.raw_host, parsed.port
    except ValueError as error:
        raise RequestRefused(f"{url!r} is not a URL of HTTP: {error}") from None
    if parsed.scheme != "http" or not host or port is None:
        raise RequestRefused(f"{url!r} is not a URL of HTTP without TLS")
    authorization = ""
    if parsed.raw_user or parsed.raw_password:
        credentials = f"{parsed.user or ''}:{parsed.password or ''}".encode()
        authorization = f"authorization: Basic {base64.b64encode(credentials).decode()}\r\n"
    method = method.upper()
    return Route(
        address=(host, port),
        request_line=f"{method} {parsed.raw_path_qs} HTTP/1.1\r\n",
        host_line=f"host: {parsed.host_port_subcomponent}\r\n",
        authorization=authorization,
        bodiless=method == "HEAD",
        announces_nothing=method in BODILESS_METHODS,
    )


def parse_shape(names: tuple[str, ...], has_body: bool) -> Shape:
    """Raises `RequestRefused` for a name that no header can have, or that is not the caller's."""
    lower = [name.lower() for name in names]
    for name in lower:
        if _TOKEN.fullmatch(name) is None:
            raise RequestRefused(f"{name!r} is no name of a header")
        if name in _FRAMING:
            raise RequestRefused(f"the {name} header is the transport's to send")
    added = [*_DEFAULTS, _BINARY] if has_body else _DEFAULTS
    lines = [f"{name.replace('%', '%%')}: %s\r\n" for name in names]
    lines += [f"{name}: {value}\r\n" for name, value in added if name not in lower]
    return Shape("".join(lines), len(lines), "host" in lower, "authorization" in lower)


def _smuggled(request: HttpRequest) -> str:
    def broken(fields: Mapping[str, str] | None) -> list[str]:
        return [n for n, v in (fields or {}).items() if set(f"{n}{v}") & set("\r\n\0")]

    found = [f"header {n!r}" for n in broken(request.headers)]
    found += [f"cookie {n!r}" for n in broken(request.cookies)]
    return f"{request.url}: a line break in {', '.join(found)}: it would be read as another header"

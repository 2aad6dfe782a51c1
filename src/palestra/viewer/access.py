"""Decides which requests the viewer answers, and the headers of every answer.

Rows are hostile, and so may be other users of this machine and other sites in the user's browser.
So a request needs the token of this start, a host name that belongs to us, and no foreign origin.
"""

import ipaddress
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

TOKEN_BYTES: Final = 16
"""128 bits."""
API: Final = "/api/"
READING: Final = frozenset({"GET", "HEAD"})
_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
SAFE_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": _CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""The headers of every answer, errors too."""


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """Why a request is not answered."""

    status: int
    message: str


def new_token() -> str:
    """Return a token of 128 random bits, new at each start."""
    return secrets.token_urlsafe(TOKEN_BYTES)


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one server. `hosts`: further host names that requests may use (`--allow-host`)."""

    token: str
    hosts: frozenset[str] = frozenset()

    def refusal(
        self, method: str, path: str, headers: Sequence[tuple[str, str]]
    ) -> AccessRefusal | None:
        """Return why a request is refused; None when it is answered.

        `headers`: names in lower case, and values. A page itself, which holds no data, needs no
        token: its script reads the token from the address and sends it.
        """
        if method not in READING:
            return AccessRefusal(405, f"{method} is not answered: the viewer only reads")
        host = _only_value(headers, "host")
        if host is None or not self._is_ours(host):
            return AccessRefusal(403, "the request names another host; --allow-host NAME allows it")
        origins = _values(headers, "origin")
        if any(origin not in {f"http://{host}", f"https://{host}"} for origin in origins):
            return AccessRefusal(403, "the request comes from another origin")
        if self._is_of_another_site(path, headers):
            return AccessRefusal(403, "the request comes from another site")
        if path.startswith(API) and not self._has_token(headers):
            return AccessRefusal(
                403, "the request lacks the token: open the address that was printed"
            )
        return None

    def _is_ours(self, host: str) -> bool:
        name = host_name(host)
        return name == "localhost" or name in self.hosts or _is_loopback(name)

    def _is_of_another_site(self, path: str, headers: Sequence[tuple[str, str]]) -> bool:
        sites = set(_values(headers, "sec-fetch-site"))
        if sites <= {"same-origin", "none"}:
            return False
        # The file that redirects the browser here is another site, and so is a link in a message.
        # Either opens the page, without data.
        is_opening = _only_value(headers, "sec-fetch-mode") == "navigate" and (
            _only_value(headers, "sec-fetch-dest") == "document"
        )
        return path.startswith((API, "/static/")) or not is_opening

    def _has_token(self, headers: Sequence[tuple[str, str]]) -> bool:
        value = _only_value(headers, "authorization") or ""
        scheme, _, token = value.partition(" ")
        is_equal = secrets.compare_digest(token.encode(), self.token.encode())
        return is_equal and scheme.lower() == "bearer"


def host_name(host: str) -> str:
    """Return the name or address of a `Host` header, in lower case, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower() if host.count(":") == 1 else host.lower()


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _values(headers: Iterable[tuple[str, str]], name: str) -> list[str]:
    return [value for header, value in headers if header == name]


def _only_value(headers: Iterable[tuple[str, str]], name: str) -> str | None:
    """Return the value of a header; None when it is absent or there several times."""
    values = _values(headers, name)
    return values[0] if len(values) == 1 else None

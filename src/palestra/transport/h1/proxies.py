"""Chooses the proxy for a URL, from the environment variables that other clients read too.

`HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, in upper or lower case. No proxy is used for addresses
that are not public and for names without a dot: they are this machine or nodes of a cluster, which
an outside proxy can rarely reach.
"""

import base64
import ipaddress
from collections.abc import Mapping
from typing import NamedTuple, final

from yarl import URL

from palestra.errors import KnownCause, WrongSetting


class Proxy(NamedTuple):
    """A proxy that is itself reached over plain HTTP."""

    host: str
    port: int
    authorization: bytes = b""
    """The header line with the proxy's credentials; empty when its URL has none."""


@final
class Proxies:
    """The proxies in the environment variables `variables`, read once."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        # A CGI program's HTTP_PROXY is the `Proxy` header of whoever asks it.
        names = {"no", "https", *(() if "REQUEST_METHOD" in variables else ("http",))}
        values = {
            name: variables.get(f"{name}_proxy") or variables.get(f"{name}_proxy".upper())
            for name in names
        }
        exceptions = (values.pop("no") or "").split(",")
        self._exceptions = [entry.strip().lower() for entry in exceptions if entry.strip()]
        self._urls = {scheme: url for scheme, url in values.items() if url}

    def proxy_for(self, scheme: str, host: str, port: int) -> Proxy | None:
        """Return the proxy for a host; None for a direct connection. Raises `WrongSetting`: the
        proxy's URL is invalid.
        """
        url = self._urls.get(scheme)
        if not url or self._is_excepted(host.lower().rstrip("."), port):
            return None
        try:
            parsed = URL(url if "://" in url else f"http://{url}")
            if parsed.scheme == "http" and parsed.raw_host and parsed.port:
                line = b""
                if parsed.raw_user or parsed.raw_password:
                    value = basic(parsed.user or "", parsed.password or "")
                    line = f"proxy-authorization: {value}\r\n".encode()
                return Proxy(parsed.raw_host, parsed.port, line)
        except ValueError:
            pass
        # Not the URL itself: it may hold a password.
        raise WrongSetting(
            f"the environment's proxy for {scheme}://{host} is not an http:// URL",
            hint=f"{scheme.upper()}_PROXY must look like http://host:port; NO_PROXY names exceptions",
            cause=KnownCause.BAD_VALUE,
        )

    def _is_excepted(self, host: str, port: int) -> bool:
        address = _address(host)
        if address is None and ("." not in host or host.endswith(".localhost")):
            return True
        if address is not None and not address.is_global:
            return True
        return any(_covers(entry, host, port, address) for entry in self._exceptions)


def basic(user: str, password: str) -> str:
    """Return the header value for basic authentication."""
    credentials = f"{user}:{password}"
    try:
        raw = credentials.encode("latin-1")
    except UnicodeEncodeError:
        # No standard says which encoding; latin-1 is what servers have long been sent.
        raw = credentials.encode("utf-8", "surrogateescape")
    return f"Basic {base64.b64encode(raw).decode()}"


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _covers(entry: str, host: str, port: int, address: _Address | None) -> bool:
    """Whether one entry of NO_PROXY matches the host: `*`, a domain, an address, a network."""
    if entry == "*":
        return True
    if address is not None:
        try:
            return address in ipaddress.ip_network(entry.strip("[]"), strict=False)
        except ValueError:
            pass
    name, colon, number = entry.rpartition(":")
    if colon and number.isdecimal():
        if int(number) != port:
            return False
        entry = name.strip("[]")
    domain = entry.removeprefix("*").removeprefix(".")
    return host == domain or host.endswith(f".{domain}")

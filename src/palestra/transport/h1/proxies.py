"""Which proxy a URL goes through, by the environment's variables that other clients read too.

`HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, in capitals or not. Addresses that are not
public and names without a dot never go through one: they are this machine, or a cluster's nodes,
which a proxy to the outside seldom reaches.
"""

import base64
import ipaddress
from collections.abc import Mapping
from typing import NamedTuple, final

from yarl import URL

from palestra.errors import KnownCause, WrongSetting


class Proxy(NamedTuple):
    """A proxy that speaks plain HTTP itself."""

    host: str
    port: int
    authorization: bytes = b""
    """The header line with its credentials, when its URL has some."""


@final
class Proxies:
    """The proxies that `variables` name; read once."""

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
        """None when it is connected to directly. Raises `WrongSetting` for a proxy that is none."""
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
            f"the environment's proxy for {scheme}://{host} is no http:// URL",
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
    """The value of a header that gives credentials."""
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
    """Whether one entry of NO_PROXY is about the host: `*`, a domain, an address, a network."""
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

"""Checks of requests to a service: the token, and that a request names this machine."""

import hmac
import ipaddress
from urllib.parse import urlsplit


def bears_token(authorization: bytes, token: str) -> bool:
    """Whether the value of an Authorization header is this token. It takes the same time for every
    wrong value.
    """
    return hmac.compare_digest(authorization, f"Bearer {token}".encode())


def names_this_machine(host: str) -> bool:
    """Whether a Host header names this machine, so that it cannot come from another machine's web
    page.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False

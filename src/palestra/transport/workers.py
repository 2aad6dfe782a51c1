"""Finds the worker process of a server that has a session.

A session is in the memory of the worker that opened it. Next to its signed cookie, the worker sets
a second cookie with its own number. Later calls of the conversation use this number to find it.
"""

import random
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from palestra.errors import InfraError

_PREFIX = "palestra-worker___"
"""The prefix of the worker cookie. Class names have no hyphen, so no session cookie starts like
this."""


def worker_cookie(instance: str) -> str:
    """Return the name of the cookie with the number of the worker that has the session."""
    return _PREFIX + quote(instance, safe="")


def worker_url(instance: str, urls: Sequence[str], cookies: Mapping[str, str] | None) -> str:
    """Return the URL of the worker that has the session in `cookies`, else of any worker; ""
    without URLs.

    Raises InfraError: the session's worker does not exist (any more).
    """
    if len(urls) < 2 or not cookies:
        return random.choice(urls) if urls else ""
    number = cookies.get(worker_cookie(instance))
    if number is None:
        return random.choice(urls)
    if not number.isdecimal() or int(number) >= len(urls):
        raise InfraError(
            f"the session belongs to worker {number} of {instance}, which has {len(urls)} workers",
            hint="cookies of other servers (another fleet) are not valid here: seed a new session",
        )
    return urls[int(number)]

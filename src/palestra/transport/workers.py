"""Which worker process of a server holds a session.

A session lives in the memory of the worker that opened it. Beside its signed cookie that worker
sets a second one with its own number, by which whoever continues the conversation finds it.
"""

import random
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from palestra.errors import InfraError

_PREFIX = "palestra-worker___"
"""No class has a hyphen in its name, so that no session's cookie looks like this."""


def worker_cookie(instance: str) -> str:
    """The name of the cookie that says which worker of `instance` holds the session."""
    return _PREFIX + quote(instance, safe="")


def worker_url(instance: str, urls: Sequence[str], cookies: Mapping[str, str] | None) -> str:
    """The worker that holds the session in `cookies`, else any; empty when there are no URLs.

    Raises InfraError when the session's worker does not exist (any more).
    """
    if len(urls) < 2 or not cookies:
        return random.choice(urls) if urls else ""
    number = cookies.get(worker_cookie(instance))
    if number is None:
        return random.choice(urls)
    if not number.isdecimal() or int(number) >= len(urls):
        raise InfraError(
            f"the session lives in worker {number} of {instance}, which has {len(urls)} workers",
            hint="cookies of another fleet cannot be continued: seed a new session",
        )
    return urls[int(number)]

"""Servers that run elsewhere (`placement: remote`): wait for them, and check what they are."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import orjson

from palestra.config import ServerType
from palestra.errors import DeadlineExceeded, InfraError, PalestraError, ServerDied
from palestra.fleet.importing import LONGER
from palestra.fleet.instance import RunningInstance
from palestra.transport import HttpReply, HttpRequest, HttpTransport

logger = logging.getLogger("palestra.fleet")

ANSWER_WITHIN_S: Final = 2.0
IDENTITY_WITHIN_S: Final = 10.0
FIRST_NOTICE_S: Final = 1.0
NOTICE_EVERY_S: Final = 10.0
_PAUSE_S: Final = 0.05
_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    ServerType.MODEL: ("/v1/responses", "/v1/chat/completions", "/v1/messages"),
    ServerType.AGENT: ("/run", "/v1/responses"),
    ServerType.RESOURCES: ("/verify", "/step"),
}
"""The paths of which a server of each type has at least one."""
_ABSENT: Final = frozenset({404, 501})
"""Statuses of a GET of a path that a server does not have; of one that takes a POST it is 405."""
_UNNAMED: Final = "FastAPI"
"""What FastAPI calls an application whose author gave no name."""


async def await_remote(
    running: RunningInstance,
    http: HttpTransport,
    *,
    limit_s: float,
    token: str = "",
    failure: Callable[[], PalestraError | None] = lambda: None,
) -> None:
    """Wait until the remote server `running` answers, and log what it is waited for.

    `failure`: returns the error of another server of the fleet that has failed, which is raised.
    Raises ServerDied: it does not answer within `limit_s` seconds, or another program has its port.
    """
    url = running.urls[0]
    ends = time.monotonic() + limit_s
    notice_at = time.monotonic() + FIRST_NOTICE_S
    while reason := await why_silent(url, http):
        if (error := failure()) is not None:
            raise error
        now = time.monotonic()
        if now >= ends:
            raise ServerDied(
                f"{running.name} at {url} did not answer within {limit_s:g} s: {reason}",
                hint=f"start that server, or correct the instance's host and port; {LONGER} waits "
                "longer for it",
                server=running.name,
            )
        if now >= notice_at:
            gives_up = time.strftime("%H:%M:%S", time.localtime(time.time() + ends - now))
            logger.warning(
                "waiting for %s at %s: %s, giving up at %s", running.name, url, reason, gives_up
            )
            notice_at = now + NOTICE_EVERY_S
        await asyncio.sleep(_PAUSE_S)
    await _check_identity(running, http, token)


async def why_silent(url: str, http: HttpTransport) -> str:
    """Return why a server does not answer at `url`; empty when it does."""
    try:
        request = HttpRequest("GET", url + "/", timeout_s=ANSWER_WITHIN_S, direct=True)
        reply = await http.send(request)
    except (InfraError, DeadlineExceeded) as error:
        return error.message.removeprefix(f"{url}/: ")
    return f"it answered {reply.status}" if reply.status >= 500 else ""


async def _check_identity(running: RunningInstance, http: HttpTransport, token: str) -> None:
    """Log when the resources server that answers has another name than `running`.

    Raises ServerDied: it has no path of a server of this type.
    """
    paths = _PATHS.get(running.server_type, ())
    url = running.urls[0]
    try:
        name, published = _described(await _get(http, f"{url}/openapi.json", token))
        if not published.isdisjoint(paths):
            if running.server_type == ServerType.RESOURCES and name not in {
                running.name,
                _UNNAMED,
            }:
                # Nothing else tells it apart: its rewards look like those of the right one.
                logger.warning(
                    "%s at %s calls itself %s: if that is not the server that was meant, correct "
                    "the host and port of %s",
                    running.name,
                    url,
                    name,
                    running.name,
                )
            return
        # An author may publish no document, or leave a path out of it.
        replies = [await _get(http, url + path, token) for path in paths]
    except (InfraError, DeadlineExceeded):
        return  # it answered a moment ago: its first call says what is wrong
    if all(reply.status in _ABSENT for reply in replies):
        raise ServerDied(
            f"the program at {url} is not {running.name}: it has no {' or '.join(paths)}",
            hint=f"correct the host and port of {running.name}, or start that server there",
            server=running.name,
        )


def _described(reply: HttpReply) -> tuple[str, AbstractSet[str]]:
    """Return the name and the paths in a reply with an OpenAPI document.

    Without a document: `_UNNAMED` and no paths.
    """
    try:
        document = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return _UNNAMED, frozenset()
    if not isinstance(document, dict):
        return _UNNAMED, frozenset()
    info, paths = document.get("info"), document.get("paths")
    title = info.get("title") if isinstance(info, dict) else None
    return (
        title if isinstance(title, str) else _UNNAMED,
        paths.keys() if isinstance(paths, dict) else frozenset(),
    )


async def _get(http: HttpTransport, url: str, token: str) -> HttpReply:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return await http.send(
        HttpRequest("GET", url, headers, timeout_s=IDENTITY_WITHIN_S, direct=True)
    )

"""Asking every server of a running fleet whether it answers."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from palestra.config import ServerType
from palestra.errors import CallError, from_body
from palestra.fleet.attach import AttachedFleet
from palestra.fleet.instance import State
from palestra.server import CHECK_PATH
from palestra.transport import HttpRequest, HttpTransport

PROBE_TIMEOUT_S = 5.0
ENDPOINT_TIMEOUT_S = 15.0
"""A model server may have to ask its endpoint first."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What one server looks like from outside. `uptime_s` is in seconds."""

    name: str
    server_type: str
    url: str
    pid: int | None
    uptime_s: float
    state: State
    reason: str = ""
    endpoint: str = ""
    """Of a model server: what its endpoint is and can do, or why that cannot be told."""

    @property
    def healthy(self) -> bool:
        """Whether it answered."""
        return self.state is State.HEALTHY


async def probe(fleet: AttachedFleet, http: HttpTransport) -> list[ServerStatus]:
    """The status of every instance, asked now, in the fleet's order."""
    return list(await asyncio.gather(*(_probe_one(item, http) for item in fleet.instances)))


def summary_line(statuses: list[ServerStatus]) -> str:
    """The line that scripts look for."""
    healthy = sum(status.healthy for status in statuses)
    return f"{len(statuses)} servers found ({healthy} healthy, {len(statuses) - healthy} unhealthy)"


async def _probe_one(item: Mapping[str, Any], http: HttpTransport) -> ServerStatus:
    state, reason = State(item["status"]), str(item.get("reason") or "")
    if state is State.HEALTHY and item["url"]:
        try:
            request = HttpRequest("GET", f"{item['url']}/", timeout_s=PROBE_TIMEOUT_S, direct=True)
            reply = await http.send(request)
        except CallError as error:
            state, reason = State.UNHEALTHY, error.message
        else:
            if reply.status >= 500:
                state, reason = State.UNHEALTHY, f"GET / answered {reply.status}"
    return ServerStatus(
        name=str(item["name"]),
        server_type=str(item["server_type"]),
        url=str(item["url"]),
        pid=item.get("pid"),
        uptime_s=float(item.get("uptime_seconds") or 0),
        state=state,
        reason=reason,
        endpoint=await _endpoint(item, http) if state is State.HEALTHY else "",
    )


async def _endpoint(item: Mapping[str, Any], http: HttpTransport) -> str:
    if item["server_type"] != ServerType.MODEL or not item["url"]:
        return ""
    try:
        request = HttpRequest(
            "GET", f"{item['url']}{CHECK_PATH}", timeout_s=ENDPOINT_TIMEOUT_S, direct=True
        )
        reply = await http.send(request)
    except CallError as error:
        return error.message
    try:
        body = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return ""
    if reply.status == 200:
        return str(body.get("endpoint") or "") if isinstance(body, dict) else ""
    failure = from_body(body)
    return failure.message if failure is not None else ""

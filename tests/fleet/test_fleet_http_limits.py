"""A run is never throttled to fewer connections than it has rollouts, unless its user says so."""

import asyncio
import contextlib
from typing import Any

import pytest

from palestra.fleet import http_transport
from palestra.transport import HttpRequest


def most_at_once(settings: dict[str, Any], requests: int) -> int:
    """How many of these requests are open together at an endpoint that waits for all of them."""

    async def scenario() -> int:
        at_once = most = 0
        waited_for = asyncio.Event()

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal at_once, most
            await reader.readuntil(b"\r\n\r\n")
            at_once += 1
            most = max(most, at_once)
            if at_once == requests:
                waited_for.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(waited_for.wait(), 0.2 if settings else 20)
            at_once -= 1
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(hold, "127.0.0.1", 0, backlog=2048)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        http = http_transport(settings)
        asked = [http.send(HttpRequest("POST", url, timeout_s=30)) for _ in range(requests)]
        await asyncio.gather(*asked)
        await http.aclose()
        server.close()
        return most

    return asyncio.run(scenario())


def test_more_than_1024_requests_go_to_one_host_at_once() -> None:
    assert most_at_once({}, 1100) == 1100


@pytest.mark.parametrize(
    "setting",
    ["global_aiohttp_connector_limit_per_host", "global_aiohttp_connector_limit"],
)
def test_the_users_limit_holds(setting: str) -> None:
    assert most_at_once({setting: 3}, 9) == 3

"""Plain HTTP is ours, TLS is aiohttp's, and nobody imports aiohttp before a URL needs it."""

import asyncio
import subprocess
import sys

import pytest
from http_peers import request
from transport_worlds import misbehaving, refusing_url

from palestra.transport import AiohttpTransport, AutoTransport, ConnectionFailed, PlainTransport

LOOK = """
import asyncio, sys
import palestra.transport as transport
from palestra.errors import CallError

async def ask(url):
    http = transport.AutoTransport()
    try:
        await http.send(transport.HttpRequest("GET", url, timeout_s=5))
    except CallError:
        print("aiohttp" in sys.modules)
    finally:
        await http.aclose()

asyncio.run(ask(sys.argv[1]))
"""


@pytest.mark.parametrize(("scheme", "imported"), [("http", "False"), ("https", "True")])
def test_aiohttp_is_imported_for_tls_alone(scheme: str, imported: str) -> None:
    url = refusing_url().replace("http", scheme)

    done = subprocess.run(
        [sys.executable, "-c", LOOK, url], capture_output=True, text=True, timeout=50, check=True
    )

    assert done.stdout.strip() == imported


def test_an_endpoint_that_speaks_no_tls_is_a_failed_connection() -> None:
    async def at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async def scenario() -> None:
        http = AutoTransport()
        async with misbehaving(at_once) as url:
            try:
                await http.send(request(url.replace("http", "https"), timeout_s=5))
            finally:
                await http.aclose()

    with pytest.raises(ConnectionFailed):
        asyncio.run(scenario())


@pytest.mark.parametrize(
    ("limits", "per_host"), [({}, 0), ({"limit_per_host": 7}, 7), ({"limit": 5}, 0)]
)
def test_limits_are_those_of_both(limits: dict[str, int], per_host: int) -> None:
    http = AutoTransport(**limits)

    assert isinstance(http._plain, PlainTransport)
    assert isinstance(http._for_tls(), AiohttpTransport)
    assert http._plain._limit_per_host == http._for_tls()._limit_per_host == per_host
    assert http._plain._limit == http._for_tls()._limit == limits.get("limit", 102_400)

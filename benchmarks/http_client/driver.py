"""One client in a process of its own: `python -m ...driver NAME UPSTREAM_URL`.

Says `ready`, then for each number it reads makes that many exchanges, 32 in flight, and answers
with the CPU nanoseconds that they took and the bytes that came.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import uvloop

from benchmarks.http_client.bare import BareClient
from benchmarks.http_client.exchange import BODY, HEADERS, TIMEOUT_S
from benchmarks.machine import cpu_ns
from palestra.transport import (
    HttpClient,
    HttpRequest,
    HttpTransport,
)

IN_FLIGHT = 32

Post = Callable[[], Awaitable[int]]


@asynccontextmanager
async def bare(url: str) -> AsyncIterator[Post]:
    """The floor."""
    yield BareClient(url).post


@asynccontextmanager
async def _through(http: HttpTransport, url: str) -> AsyncIterator[Post]:
    async def post() -> int:
        request = HttpRequest("POST", url, HEADERS, BODY, timeout_s=TIMEOUT_S, repeatable=True)
        reply = await http.send(request)
        return len(reply.body)

    yield post
    await http.aclose()


def plain(url: str) -> object:
    """What the system uses."""
    return _through(HttpClient(), url)


@asynccontextmanager
async def session(url: str) -> AsyncIterator[Post]:
    """Aiohttp as one would use it, without our seam and without a deadline."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as client:

        async def post() -> int:
            async with client.post(url, data=BODY, headers=HEADERS) as reply:
                return len(await reply.read())

        yield post


CLIENTS = {"bare": bare, "plain": plain, "session": session}


async def chunk(post: Post, count: int) -> int:
    """Bytes received."""
    left = iter(range(count))
    received = 0

    async def worker() -> None:
        nonlocal received
        for _ in left:
            size = await post()
            received += size

    async with asyncio.TaskGroup() as group:
        for _ in range(min(count, IN_FLIGHT)):
            group.create_task(worker())
    return received


async def drive(name: str, url: str) -> None:
    """Answer chunk after chunk until standard input ends."""
    async with CLIENTS[name](url + "/chat/completions") as post:
        print("ready", flush=True)
        # Reading blocks the loop on purpose: between its chunks a client does nothing.
        while line := sys.stdin.readline():
            before = cpu_ns(os.getpid())
            received = await chunk(post, int(line))
            print(cpu_ns(os.getpid()) - before, received, flush=True)


if __name__ == "__main__":
    loops = {"uvloop": uvloop.run, "asyncio": asyncio.run}
    loops[sys.argv[3]](drive(sys.argv[1], sys.argv[2]))

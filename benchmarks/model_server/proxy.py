"""The floor: an aiohttp proxy that reads a body, sends it on, and gives back what it got.

`python -m benchmarks.model_server.proxy UPSTREAM_URL` says its URL and ends with standard input.
"""

import asyncio
import sys

import aiohttp
import uvloop
from aiohttp import web


async def main(upstream: str) -> None:
    """Serve until standard input ends."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:

        async def forward(request: web.Request) -> web.Response:
            body = await request.read()
            headers = {"content-type": "application/json"}
            url = f"{upstream}/chat/completions"
            async with session.post(url, data=body, headers=headers) as reply:
                answer = await reply.read()
                return web.Response(
                    body=answer, status=reply.status, content_type="application/json"
                )

        app = web.Application()
        app.router.add_post("/v1/chat/completions", forward)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
        await site.start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await runner.cleanup()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))

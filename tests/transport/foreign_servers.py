"""Servers that are not ours, in processes of their own: `python foreign_servers.py KIND [CHAIN KEY]`.

uvicorn, hypercorn and nginx (as the proxy that it mostly is, in front of uvicorn) serve one ASGI
application; aiohttp serves the same from handlers of its own. Each says its port when it listens,
and closes connections that nobody uses for a second.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

KINDS = ("uvicorn", "hypercorn", "aiohttp", "nginx")
IDLE_S = 1
LARGEST_REQUEST = 4_000_000
"""Bytes that nginx takes; it refuses more before it has read them."""

REQUIRED = "PALESTRA_REQUIRE_SANDBOX"
"""Set on CI, where system programs that tests need are installed."""

PARTS = [b"a" * 10, b"b" * 70_000, b"c"]


def program(name: str) -> str:
    """The path of a system's program. Skips where it is not installed, unless it must be."""
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if path is None and not os.environ.get(REQUIRED):
        pytest.skip(f"no {name}")
    assert path is not None, f"{name} is not installed"
    return path


class Gone:
    """How many askers have left before their answer."""

    count = 0


async def app(scope: Any, receive: Any, send: Any) -> None:
    """What the paths mean; aiohttp's handlers say the same."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)

    async def begin(status: int, *headers: tuple[bytes, bytes]) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})

    async def give(part: bytes, *, last: bool = True) -> None:
        await send({"type": "http.response.body", "body": part, "more_body": not last})

    path = scope["path"]
    if path == "/parts":
        await begin(200)
        for part in PARTS:
            await give(part, last=False)
        await give(b"")
    elif path == "/cut":
        await begin(200, (b"content-length", b"1000"))
        await give(b"half", last=False)
        raise ConnectionAbortedError("as asked")
    elif path == "/never":
        while (await receive())["type"] != "http.disconnect":
            pass
        Gone.count += 1
    else:
        status, answer, headers = plain_answer(path, scope["method"], body)
        length = [] if status == 204 else [(b"content-length", b"%d" % len(answer))]
        pairs = [(name.encode(), value.encode()) for name, value in headers]
        await begin(status, *length, *pairs)
        await give(b"" if scope["method"] == "HEAD" else answer)


def plain_answer(path: str, method: str, body: bytes) -> tuple[int, bytes, list[tuple[str, str]]]:
    """Status, body and headers of what needs no more than that."""
    match path:
        case "/gone":
            return 200, str(Gone.count).encode(), []
        case "/none":
            return 204, b"", []
        case "/broken":
            return 500, b"it is broken", [("retry-after", "3")]
        case "/cookies":
            return 200, b"", [("set-cookie", "a=1; Path=/"), ("set-cookie", "b=x==; HttpOnly")]
    return 200, f"{method} {path} ".encode() + body, []


def serve_uvicorn(sock: socket.socket, files: list[str]) -> None:
    import uvicorn

    chain, key = files or (None, None)
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_level="critical",
        timeout_keep_alive=IDLE_S,
        ssl_certfile=chain,
        ssl_keyfile=key,
    )
    uvicorn.Server(config).run([sock])


def serve_hypercorn(sock: socket.socket, files: list[str]) -> None:
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"fd://{sock.detach()}"]
    config.keep_alive_timeout = IDLE_S
    config.certfile, config.keyfile = files or (None, None)
    config.loglevel = "critical"
    asyncio.run(serve(app, config))


def serve_aiohttp(sock: socket.socket, files: list[str]) -> None:
    from aiohttp import web

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        stream = web.StreamResponse()
        match request.path:
            case "/parts":
                await stream.prepare(request)
                for part in PARTS:
                    await stream.write(part)
                return stream
            case "/cut":
                stream.content_length = 1000
                await stream.prepare(request)
                await stream.write(b"half")
                assert request.transport is not None
                request.transport.abort()
                return stream
            case "/never":
                try:
                    await asyncio.sleep(60)
                finally:
                    Gone.count += 1
        status, answer, headers = plain_answer(request.path, request.method, body)
        response = web.Response(status=status, body=answer)
        response.headers.extend(headers)
        return response

    async def run() -> None:
        application = web.Application(client_max_size=100_000_000)
        application.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(
            application, keepalive_timeout=IDLE_S, handler_cancellation=True, access_log=None
        )
        await runner.setup()
        tls = None
        if files:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(*files)
        await web.SockSite(runner, sock, ssl_context=tls).start()
        await asyncio.Event().wait()

    asyncio.run(run())


NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log; {user}
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_timeout {idle}; client_max_body_size {largest};
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  upstream behind {{ server 127.0.0.1:{behind}; keepalive 8; keepalive_timeout 500ms; }}
  server {{
    listen 127.0.0.1:{port} {tls};
    location / {{ proxy_pass http://behind; proxy_http_version 1.1;
                  proxy_set_header Connection ""; }}
  }}
}}
"""


@contextmanager
def nginx(folder: Path, files: tuple[Path, ...]) -> Iterator[int]:
    """Nginx in front of uvicorn; yields its port."""
    path = program("nginx")
    with running("uvicorn", folder) as behind:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        tls = ""
        if files:
            tls = "ssl; ssl_certificate {}; ssl_certificate_key {}".format(*files)
        settings = NGINX.format(
            folder=folder,
            user="user root;" if os.getuid() == 0 else "",
            idle=IDLE_S,
            largest=LARGEST_REQUEST,
            behind=behind,
            port=port,
            tls=tls,
        )
        (folder / "nginx.conf").write_text(settings)
        process = subprocess.Popen([path, "-p", folder, "-c", folder / "nginx.conf"])
        try:
            until = time.monotonic() + 20
            while not _listens(port):
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.02)
            yield port
        finally:
            process.terminate()
            process.wait(20)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@contextmanager
def running(kind: str, folder: Path, files: tuple[Path, ...] = ()) -> Iterator[int]:
    """A server of this kind, with TLS where there are `files`; yields its port."""
    if kind == "nginx":
        with ExitStack() as stack:
            yield stack.enter_context(nginx(folder, files))
        return
    process = subprocess.Popen(
        [sys.executable, __file__, kind, *map(str, files)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(20)
        process.stdout.close()


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    globals()[f"serve_{sys.argv[1]}"](listening, sys.argv[2:])

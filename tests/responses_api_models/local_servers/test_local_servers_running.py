"""What is started is waited for, watched, and ended with whoever wanted it."""

import asyncio
import http.server
import json
import os
import select
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from palestra.errors import RunFailed, ServerDied
from palestra.responses_api_models.local_servers import (
    VLLMInstallation,
    serve_llama_cpp,
    serve_vllm,
)
from palestra.responses_api_models.local_servers.installed import free_port
from palestra.responses_api_models.local_servers.running import KEEPER
from palestra.settings import LlamaCppServer, VLLMServer
from palestra.transport import HttpClient, HttpRequest

pytestmark = pytest.mark.slow

SERVES = """
import http.server, json, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": []}')
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def installation(tmp_path: Path, program: str) -> VLLMInstallation:
    """A `python` that runs `program` whatever module it is asked to run."""
    script = tmp_path / "server.py"
    script.write_text(program)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    python.chmod(0o755)
    return VLLMInstallation(python, "0.0", cpu=True, takes_ids=True)


async def serve(
    vllm: VLLMInstallation,
    *,
    tell: Callable[[str], None] = lambda _: None,
    port: int = 0,
    api_key: str = "",
    **settings: Any,
) -> str:
    """Start it, and give what it answers."""
    transport = HttpClient()
    server = VLLMServer(model="m", tool_parser="none", port=port, api_key=api_key)
    try:
        async with serve_vllm(server, transport, report=tell, vllm=vllm, **settings) as serving:
            url = f"{serving.base_url}/models"
            reply = await transport.send(HttpRequest("GET", url, timeout_s=5))
            return f"{reply.status} {serving.model} {serving.pid}"
    finally:
        await transport.aclose()


def test_a_server_is_there_when_it_answers_and_gone_afterwards(tmp_path: Path) -> None:
    status, model, pid = asyncio.run(serve(installation(tmp_path, SERVES))).split()

    assert (status, model) == ("200", "m")
    with pytest.raises(ProcessLookupError):
        os.killpg(int(pid), 0)


def test_a_server_that_ends_too_early_says_its_last_lines(tmp_path: Path) -> None:
    broken = installation(tmp_path, "import sys; sys.exit('no such model')")

    with pytest.raises(ServerDied, match=r"exit code 1 before it was ready[\s\S]*no such model"):
        asyncio.run(serve(broken))


def test_a_server_that_is_not_ready_in_time_is_ended(tmp_path: Path) -> None:
    hangs = installation(tmp_path, "print('loading', flush=True); import time; time.sleep(600)")

    with pytest.raises(RunFailed, match=r"did not answer within 1 s[\s\S]*loading"):
        asyncio.run(serve(hangs, ready_timeout_s=1.0))


def test_a_stranger_that_answers_at_the_port_is_not_taken_for_the_server(tmp_path: Path) -> None:
    class Lists(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

    port = free_port("127.0.0.1", 0)
    with ExitStack() as stack:

        def come_first(_: str) -> None:
            stranger = stack.enter_context(http.server.HTTPServer(("127.0.0.1", port), Lists))
            threading.Thread(target=stranger.serve_forever, daemon=True).start()
            stack.callback(stranger.shutdown)

        hangs = installation(tmp_path, "import time; time.sleep(600)")
        with pytest.raises(RunFailed, match=f"process {os.getpid()} .*not to the vllm"):
            asyncio.run(serve(hangs, tell=come_first, port=port, ready_timeout_s=30))


def test_a_key_reaches_the_server_and_is_shown_nowhere(tmp_path: Path) -> None:
    says = "import os, sys; print('key', os.environ['VLLM_API_KEY'], sys.argv); sys.exit(1)"

    with pytest.raises(ServerDied, match=r"key \*\*\*\*") as caught:
        asyncio.run(serve(installation(tmp_path, says), api_key="sk-a-secret"))
    assert "sk-a-secret" not in caught.value.message


def test_a_server_ends_with_a_parent_that_was_killed() -> None:
    server = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    order = json.dumps({"command": [sys.executable, "-c", server], "environment": {}}) + "\n"
    parent = textwrap.dedent(f"""
        import subprocess, sys, time
        keeper = subprocess.Popen([sys.executable, {str(KEEPER)!r}], stdin=subprocess.PIPE,
                                  start_new_session=True)
        keeper.stdin.write({order.encode()!r})
        keeper.stdin.flush()
        time.sleep(600)
    """)
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        served = os.pidfd_open(int(process.stdout.readline()))
        poll = select.poll()
        poll.register(served, select.POLLIN)

        process.kill()

        ended = poll.poll(30_000)
    os.close(served)
    assert ended


def test_llama_cpp_serves_the_embedded_model() -> None:
    pytest.importorskip("xllamacpp")

    async def ask() -> bytes:
        transport = HttpClient()
        server = LlamaCppServer(slots=1, api_key="sk-1")
        try:
            async with serve_llama_cpp(
                server, report=lambda _: None, ready_timeout_s=50
            ) as serving:
                key = {"authorization": "Bearer sk-1"}
                url = f"{serving.base_url}/models"
                return (await transport.send(HttpRequest("GET", url, key, timeout_s=20))).body
        finally:
            await transport.aclose()

    assert b"SmolLM2" in asyncio.run(ask())

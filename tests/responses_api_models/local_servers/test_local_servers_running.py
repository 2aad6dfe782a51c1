"""What is started is waited for, watched, and ended with whoever wanted it."""

import asyncio
import json
import os
import select
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from palestra.errors import RunFailed, ServerDied
from palestra.responses_api_models.local_servers import (
    LlamaCppServer,
    VLLMInstallation,
    VLLMServer,
    serve_llama_cpp,
    serve_vllm,
)
from palestra.responses_api_models.local_servers.running import KEEPER
from palestra.transport import AiohttpTransport, HttpRequest

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


async def serve(vllm: VLLMInstallation, **settings: Any) -> str:
    """Start it, and give what it answers."""
    http = AiohttpTransport()
    server = VLLMServer("m", tool_parser="none")
    try:
        async with serve_vllm(server, http, tell=lambda _: None, vllm=vllm, **settings) as serving:
            url = f"{serving.base_url}/models"
            reply = await http.send(HttpRequest("GET", url, timeout_s=5))
            return f"{reply.status} {serving.model} {serving.pid}"
    finally:
        await http.aclose()


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

        process.kill()

        ended, _, _ = select.select([served], [], [], 30)
    os.close(served)
    assert ended


def test_llama_cpp_serves_the_embedded_model() -> None:
    pytest.importorskip("xllamacpp")

    async def ask() -> bytes:
        http = AiohttpTransport()
        server = LlamaCppServer(slots=1, api_key="sk-1")
        try:
            async with serve_llama_cpp(server, tell=lambda _: None, ready_timeout_s=50) as serving:
                key = {"authorization": "Bearer sk-1"}
                url = f"{serving.base_url}/models"
                return (await http.send(HttpRequest("GET", url, key, timeout_s=20))).body
        finally:
            await http.aclose()

    assert b"SmolLM2" in asyncio.run(ask())

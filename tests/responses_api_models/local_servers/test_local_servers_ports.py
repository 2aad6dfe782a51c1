"""The port of a started server is free before, and its own afterwards."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from palestra.errors import ConfigError, RunFailed
from palestra.fleet.sockets import listen, listen_at
from palestra.responses_api_models.local_servers import (
    VLLMInstallation,
    serve_llama_cpp,
    serve_vllm,
)
from palestra.responses_api_models.local_servers.installed import free_port, require_own
from palestra.settings import LlamaCppServer, VLLMServer
from palestra.transport import HttpClient

HOST = "127.0.0.1"
VLLM = VLLMInstallation(Path("no-python"), "0.0", cpu=True, takes_ids=True)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port at which this process listens."""
    with contextlib.closing(listen(HOST, 0)) as held:
        yield held.getsockname()[1]


def test_vllm_is_not_started_at_a_port_that_is_taken(taken: int) -> None:
    async def run() -> None:
        server = VLLMServer(model="m", tool_parser="none", port=taken)
        async with serve_vllm(server, HttpClient(), report=lambda _: None, vllm=VLLM):
            pytest.fail("it was taken for ready")

    with pytest.raises(ConfigError, match=f":{taken}: .*; process {os.getpid()} "):
        asyncio.run(run())


def test_llama_cpp_is_not_started_at_a_port_that_is_taken(taken: int, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    model = tmp_path / "m.gguf"
    model.touch()

    async def run() -> None:
        server = LlamaCppServer(model=str(model), port=taken)
        async with serve_llama_cpp(server, report=lambda _: None, ready_timeout_s=9):
            pytest.fail("it was taken for ready")

    with pytest.raises(ConfigError, match=f":{taken}: .*; process"):
        asyncio.run(run())


def test_a_port_that_nobody_has_is_taken_as_it_is() -> None:
    with contextlib.closing(listen(HOST, 0)) as held:
        port = held.getsockname()[1]

    assert free_port(HOST, port) == port
    assert free_port(HOST, 0) > 0


def test_the_hint_about_a_port_in_use_is_the_flag_of_the_command(taken: int) -> None:
    with pytest.raises(ConfigError) as caught:
        listen_at(HOST, taken)

    assert "`--port 0`" in caught.value.hint
    assert "head_server" not in caught.value.hint


def test_a_host_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0"):
        free_port("192.0.2.1", 0)


def test_who_answers_must_be_of_the_group_that_was_started(taken: int) -> None:
    require_own(taken, os.getpgid(0), name="vllm")

    with pytest.raises(RunFailed, match=f"process {os.getpid()} .*not to the vllm"):
        require_own(taken, 2**22, name="vllm")


def test_who_cannot_be_told_is_no_stranger() -> None:
    with socket.socket() as unused:
        unused.bind((HOST, 0))

        require_own(unused.getsockname()[1], 2**22, name="vllm")

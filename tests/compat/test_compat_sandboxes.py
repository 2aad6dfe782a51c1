"""Sandboxes of the field: isolated as ours are, with a folder that lasts from call to call."""

import asyncio
import os
from collections.abc import Coroutine
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from palestra.compat.nemo_gym.sandbox import (
    AsyncSandbox,
    Sandbox,
    SandboxError,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
)
from palestra.errors import ConfigError
from palestra.sandbox import Sandbox as OurSandbox
from palestra.sandbox import SandboxSettings

pytestmark = pytest.mark.timeout(90)


@cache
def why_not() -> str:
    """Why this machine cannot isolate; empty when it can."""

    async def tried() -> None:
        async with OurSandbox(SandboxSettings(backend="bubblewrap")):
            pass

    try:
        asyncio.run(tried())
    except ConfigError as error:
        return error.message
    return ""


def needs_isolation() -> None:
    """Skip where nothing isolates, unless it must, as on CI."""
    if why_not() and not os.environ.get("PALESTRA_REQUIRE_SANDBOX"):
        pytest.skip(why_not())


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(bounded())


@pytest.fixture(params=["process", "bubblewrap"])
def provider(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap":
        needs_isolation()
    return str(request.param)


def test_commands_share_files_and_tell_how_they_ended(provider: str, tmp_path: Path) -> None:
    async def work() -> None:
        spec = SandboxSpec(env={"A": "b"}, workdir="/work", resources=SandboxResources(cpu=1))
        async with AsyncSandbox({"provider": provider}, spec) as sandbox:
            assert await sandbox.status() is SandboxStatus.RUNNING
            ended = await sandbox.exec("echo $A > made; echo told >&2; cat made; exit 3")
            assert (ended.stdout, ended.stderr, ended.return_code) == ("b\n", "told\n", 3)
            ended = await sandbox.exec(["cat", "made"])
            assert (ended.stdout, ended.ok) == ("b\n", True)
            await sandbox.upload(b"print(6 * 7)", "/work/code.py")
            ended = await sandbox.exec("python3 code.py", env={"A": "c"})
            assert ended.stdout == "42\n"
            target = tmp_path / "out"
            assert await sandbox.download("made", target) == target.read_bytes() == b"b\n"
        assert await sandbox.status() is SandboxStatus.CLOSED
        with pytest.raises(SandboxError, match="not started"):
            await sandbox.exec("true")

    run(work())


def test_large_files_go_in_and_come_out(provider: str, tmp_path: Path) -> None:
    content = os.urandom(20 << 20)
    source = tmp_path / "large"
    source.write_bytes(content)

    async def work() -> None:
        async with AsyncSandbox({"provider": provider}) as sandbox:
            await sandbox.upload_file(str(source), "deep/er/large")
            assert await sandbox.download_file("deep/er/large") == content
            with pytest.raises(SandboxError, match="no/such"):
                await sandbox.download("no/such")

    run(work())


@pytest.mark.slow
def test_a_command_is_stopped_at_its_limit_and_the_sandbox_goes_on(provider: str) -> None:
    async def work() -> None:
        async with AsyncSandbox({"provider": provider}) as sandbox:
            ended = await sandbox.exec("echo begun; sleep 600", timeout_s=1)
            assert (ended.timed_out, ended.exit_code, ended.stdout) == (True, 124, "begun\n")
            assert (await sandbox.exec("echo on")).stdout == "on\n"

    run(work())


def test_more_memory_than_the_spec_has_ends_the_sandbox_and_says_so(provider: str) -> None:
    async def work() -> None:
        spec = SandboxSpec(resources=SandboxResources(memory_mib=128))
        async with AsyncSandbox({"provider": provider}, spec) as sandbox:
            ended = await sandbox.exec(
                ["python3", "-c", "x = bytearray(1 << 29); import time; time.sleep(60)"]
            )
            assert not ended.ok
            assert "memory" in ended.stderr.lower()

    run(work())


def test_what_runs_sees_nothing_of_this_machine(tmp_path: Path) -> None:
    needs_isolation()
    secret = tmp_path / "secret"
    secret.write_text("mine")

    async def work() -> None:
        async with AsyncSandbox() as sandbox:  # isolating is the default
            assert not (await sandbox.exec(f"cat {secret}")).ok
            assert not (await sandbox.exec(f"echo theirs > {secret}")).ok
            assert not (await sandbox.exec(f"kill -0 {os.getpid()}")).ok

    run(work())
    assert secret.read_text() == "mine"


def test_a_provider_that_is_not_here_is_an_error_that_names_ours() -> None:
    with pytest.raises(SandboxError, match=r"docker.*bubblewrap"):
        run(AsyncSandbox({"provider": "docker"}).start())


def test_without_awaiting_it_is_the_same(provider: str) -> None:
    with Sandbox({"provider": provider}) as sandbox:
        assert sandbox.exec("echo hi").stdout == "hi\n"

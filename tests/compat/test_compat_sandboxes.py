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
    SandboxCreateError,
    SandboxError,
    SandboxHandle,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
)
from palestra.compat.nemo_gym.sandbox.providers.local import LocalProvider
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
        spec = SandboxSpec(
            env={"A": "b"},
            workdir="/work",
            resources=SandboxResources(cpu=1),
            files={"/work/code.py": "print(6 * 7)"},
        )
        async with AsyncSandbox({provider: None}, spec) as sandbox:
            assert await sandbox.status() is SandboxStatus.RUNNING
            ended = await sandbox.exec("echo $A > made; echo told >&2; cat made; exit 3")
            assert (ended.stdout, ended.stderr, ended.return_code) == ("b\n", "told\n", 3)
            ended = await sandbox.exec(["cat", "made"])
            assert (ended.stdout, ended.return_code) == ("b\n", 0)
            ended = await sandbox.exec("python3 code.py", env={"A": "c"})
            assert ended.stdout == "42\n"
            await sandbox.download("made", tmp_path / "out")
            assert (tmp_path / "out").read_bytes() == b"b\n"
        assert await sandbox.status() is SandboxStatus.STOPPED

    run(work())


def test_large_files_go_in_and_come_out(provider: str, tmp_path: Path) -> None:
    content = os.urandom(20 << 20)
    source, target = tmp_path / "large", tmp_path / "deep/target"
    source.write_bytes(content)

    async def work() -> None:
        async with AsyncSandbox({provider: {}}, SandboxSpec()) as sandbox:
            await sandbox.upload(str(source), "deep/er/large")
            await sandbox.download("deep/er/large", target)
            with pytest.raises(SandboxError, match="no/such"):
                await sandbox.download("no/such", target)

    run(work())
    assert target.read_bytes() == content


@pytest.mark.slow
def test_a_command_is_stopped_at_its_limit_and_the_sandbox_goes_on(provider: str) -> None:
    async def work() -> None:
        async with AsyncSandbox({provider: {}}, SandboxSpec()) as sandbox:
            ended = await sandbox.exec("echo begun; sleep 600", timeout_s=1)
            assert (ended.return_code, ended.error_type) == (125, "timeout")
            assert ended.stdout == "begun\n"
            assert (await sandbox.exec("echo on")).stdout == "on\n"

    run(work())


def test_more_memory_than_the_spec_has_ends_the_sandbox_and_says_so(provider: str) -> None:
    async def work() -> None:
        spec = SandboxSpec(resources=SandboxResources(memory_mib=128))
        async with AsyncSandbox({provider: {}}, spec) as sandbox:
            ended = await sandbox.exec(
                ["python3", "-c", "x = bytearray(1 << 29); import time; time.sleep(60)"]
            )
            assert ended.return_code != 0
            assert ended.error_type is None  # the command's own fault
            assert "memory" in (ended.stderr or "").lower()

    run(work())


def test_a_sandbox_that_has_ended_is_a_failure_of_the_sandbox() -> None:
    async def work() -> None:
        async with AsyncSandbox({"process": {}}, SandboxSpec()) as sandbox:
            await sandbox.exec("kill -KILL $PPID")
            ended = await sandbox.exec("true")
            assert (ended.return_code, ended.error_type) == (125, "sandbox")
            assert await sandbox.status() is SandboxStatus.ERROR

    run(work())


def test_a_program_that_does_not_exist_has_the_exit_code_of_a_shell() -> None:
    async def work() -> None:
        async with AsyncSandbox({"process": {}}, SandboxSpec()) as sandbox:
            ended = await sandbox.exec(["no-such-program"])
            assert (ended.return_code, ended.error_type) == (127, None)

    run(work())


def test_output_that_is_cut_is_said_to_be(provider: str) -> None:
    async def work() -> None:
        async with AsyncSandbox({provider: {}}, SandboxSpec()) as sandbox:
            ended = await sandbox.exec("head -c 5000000 /dev/zero")
            assert len(ended.stdout or "") == 4 << 20
            assert "5000000" in (ended.stderr or "")

    run(work())


def test_what_runs_sees_nothing_of_this_machine(tmp_path: Path) -> None:
    needs_isolation()
    secret = tmp_path / "secret"
    secret.write_text("mine")

    async def work() -> None:
        async with AsyncSandbox({"local": {}}, SandboxSpec()) as sandbox:  # isolates
            for command in (f"cat {secret}", f"echo theirs > {secret}", f"kill -0 {os.getpid()}"):
                assert (await sandbox.exec(command)).return_code != 0

    run(work())
    assert secret.read_text() == "mine"


@pytest.mark.parametrize("name", ["auto", "local", "palestra", "bubblewrap", "process", "http"])
def test_settings_that_a_back_end_lacks_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="bogus"):
        AsyncSandbox({name: {"bogus": 1}})
    with pytest.raises(ValueError, match="backend"):
        AsyncSandbox({name: {"backend": "process"}})


@pytest.mark.parametrize("field", ["entrypoint", "provider_options"])
def test_a_back_end_refuses_what_it_cannot_do(field: str) -> None:
    spec = SandboxSpec(**{field: {"a": "b"}})
    with pytest.raises(SandboxCreateError, match=field):
        run(AsyncSandbox({"process": {}}, spec).start())


def test_a_sandbox_without_network_has_no_endpoint() -> None:
    async def work() -> None:
        async with AsyncSandbox({"process": {}}, SandboxSpec()) as sandbox:
            assert (await sandbox.endpoint(80)).endpoint == "http://127.0.0.1:80"

    run(work())
    with pytest.raises(SandboxError, match="network"):
        run(LocalProvider().endpoint(SandboxHandle("", "local", None), 80))


def test_a_service_that_is_gone_is_a_create_error() -> None:
    settings = {"host": "127.0.0.1", "port": 1, "token": "t"}
    with pytest.raises(SandboxCreateError):
        run(AsyncSandbox({"http": settings}, SandboxSpec()).start())


def test_without_awaiting_it_is_the_same(provider: str) -> None:
    with Sandbox({provider: {}}, SandboxSpec()) as sandbox:
        assert sandbox.exec("echo hi").stdout == "hi\n"

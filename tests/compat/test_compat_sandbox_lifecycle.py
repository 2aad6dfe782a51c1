"""`nemo_gym.sandbox.AsyncSandbox` and `Sandbox` over a provider of a project."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from palestra.compat.nemo_gym.sandbox import (
    AsyncSandbox,
    Sandbox,
    SandboxCreateError,
    SandboxEndpoint,
    SandboxExecResult,
    SandboxHandle,
    SandboxSpec,
    SandboxStatus,
    register_provider,
)
from palestra.compat.nemo_gym.sandbox.providers import registry


class Notebook:
    """A provider that writes down what it is asked."""

    name = "notebook"

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses
        self.calls: list[tuple[Any, ...]] = []
        self.files: dict[str, bytes] = {}

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        self.calls.append(("create", spec.image))
        if self.refuses == "create":
            raise SandboxCreateError("no image")
        return SandboxHandle("box-1", self.name, raw={})

    async def exec(self, handle: SandboxHandle, command: str, **how: Any) -> SandboxExecResult:
        self.calls.append(("exec", handle.sandbox_id, command, how))
        return SandboxExecResult("out", None, 3)

    async def upload_file(self, handle: SandboxHandle, source: Path, target: str) -> None:
        if self.refuses == "upload":
            raise OSError("full")
        self.files[target] = await asyncio.to_thread(source.read_bytes)

    async def download_file(self, handle: SandboxHandle, source: str, target: Path) -> None:
        await asyncio.to_thread(target.write_bytes, self.files[source])

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        return SandboxStatus.RUNNING

    async def close(self, handle: SandboxHandle) -> None:
        self.calls.append(("close", handle.sandbox_id))

    async def aclose(self) -> None:
        self.calls.append(("aclose",))


class Connected(Notebook):
    """A provider with all that is optional."""

    name = "connected"

    async def endpoint(self, handle: SandboxHandle, port: int) -> SandboxEndpoint:
        return SandboxEndpoint(f"http://{handle.sandbox_id}:{port}")

    async def pty(self, handle: SandboxHandle, *, columns: int) -> tuple[str, int]:
        return handle.sandbox_id, columns

    async def connect(self, sandbox_id: str, spec: SandboxSpec) -> SandboxHandle:
        return SandboxHandle(sandbox_id, self.name, raw=spec.env)


@pytest.fixture(autouse=True)
def registered_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


def test_a_registered_provider_is_used() -> None:
    register_provider("notebook", Notebook)

    async def work() -> None:
        sandbox = AsyncSandbox({"notebook": None}, SandboxSpec(image="i"))
        assert isinstance(sandbox.provider, Notebook)
        async with sandbox:
            assert (await sandbox.exec("true")).return_code == 3

    asyncio.run(work())


def test_a_provider_object_gets_every_request_in_the_order_of_the_field() -> None:
    provider = Notebook()

    async def work() -> None:
        sandbox = AsyncSandbox(provider, SandboxSpec(image="i", workdir="/w"))
        assert await sandbox.start() is sandbox
        await sandbox.exec("a")
        await sandbox.exec("b", cwd="/x", env={"A": "b"}, timeout_s=9, user="root")
        await sandbox.stop()
        await sandbox.stop()

    asyncio.run(work())
    default = {"cwd": "/w", "env": None, "timeout_s": 180, "user": None}
    other = {"cwd": "/x", "env": {"A": "b"}, "timeout_s": 9, "user": "root"}
    assert provider.calls == [
        ("create", "i"),
        ("exec", "box-1", "a", default),
        ("exec", "box-1", "b", other),
        ("close", "box-1"),
        ("aclose",),
    ]


def test_the_files_of_the_spec_are_written_after_creation(tmp_path: Path) -> None:
    provider = Notebook()
    (tmp_path / "here").write_bytes(b"path")
    spec = SandboxSpec(files={"/a": "text", "/b": b"bytes", "/c": tmp_path / "here"})

    async def work() -> None:
        async with AsyncSandbox(provider, spec) as sandbox:
            await sandbox.upload(tmp_path / "here", "/d")
            await sandbox.download("/a", tmp_path / "out")

    asyncio.run(work())
    assert provider.files == {"/a": b"text", "/b": b"bytes", "/c": b"path", "/d": b"path"}
    assert (tmp_path / "out").read_text() == "text"


def test_a_sandbox_whose_files_cannot_be_written_is_removed() -> None:
    provider = Notebook(refuses="upload")

    async def work() -> None:
        with pytest.raises(OSError, match="full"):
            await AsyncSandbox(provider, SandboxSpec(files={"/a": "b"})).start()

    asyncio.run(work())
    assert provider.calls == [("create", None), ("close", "box-1")]


def test_a_failed_start_closes_the_provider_of_a_context() -> None:
    provider = Notebook(refuses="create")

    async def work() -> None:
        with pytest.raises(SandboxCreateError):
            async with AsyncSandbox(provider, SandboxSpec()):
                pass

    asyncio.run(work())
    assert provider.calls == [("create", None), ("aclose",)]


def test_a_failed_start_may_be_repeated() -> None:
    provider = Notebook(refuses="create")

    async def work() -> SandboxStatus:
        sandbox = AsyncSandbox(provider, SandboxSpec())
        with pytest.raises(SandboxCreateError):
            await sandbox.start()
        provider.refuses = ""
        await sandbox.start()
        return await sandbox.status()

    assert asyncio.run(work()) is SandboxStatus.RUNNING


def test_start_twice_or_after_stop_and_exec_before_start_are_runtime_errors() -> None:
    async def work() -> None:
        sandbox = AsyncSandbox(Notebook(), SandboxSpec())
        with pytest.raises(RuntimeError, match="not started"):
            await sandbox.exec("true")
        await sandbox.start()
        with pytest.raises(RuntimeError, match="started already"):
            await sandbox.start()
        await sandbox.stop()
        with pytest.raises(RuntimeError, match="stopped"):
            await sandbox.start()
        with pytest.raises(RuntimeError, match="stopped"):
            await sandbox.exec("true")
        assert await sandbox.status() is SandboxStatus.STOPPED

    asyncio.run(work())


def test_a_sandbox_without_a_spec_is_a_value_error_and_start_may_have_one() -> None:
    async def work() -> None:
        sandbox = AsyncSandbox(Notebook())
        with pytest.raises(ValueError, match="spec"):
            await sandbox.start()
        await sandbox.start(SandboxSpec(workdir="/w"))
        assert sandbox.spec == SandboxSpec(workdir="/w")

    asyncio.run(work())


@pytest.mark.parametrize("provider", ["docker", None, 3])
def test_something_else_is_no_provider(provider: Any) -> None:
    with pytest.raises(TypeError, match="provider"):
        AsyncSandbox(provider, SandboxSpec())


def test_what_a_provider_lacks_is_said_with_its_name() -> None:
    async def work() -> None:
        async with AsyncSandbox(Notebook(), SandboxSpec()) as sandbox:
            with pytest.raises(NotImplementedError, match=r"notebook.*endpoint"):
                await sandbox.endpoint(80)
            with pytest.raises(NotImplementedError, match="pty"):
                await sandbox.pty()
            with pytest.raises(NotImplementedError, match=r"notebook.*connect"):
                await AsyncSandbox.connect(sandbox.serialize(), provider=Notebook())

    asyncio.run(work())


def test_endpoint_and_pty_are_the_provider_s() -> None:
    async def work() -> None:
        async with AsyncSandbox(Connected(), SandboxSpec()) as sandbox:
            assert await sandbox.endpoint(80) == SandboxEndpoint("http://box-1:80")
            assert await sandbox.pty(columns=80) == ("box-1", 80)

    asyncio.run(work())


def test_a_serialized_sandbox_is_connected_with_its_folder_and_variables() -> None:
    provider = Connected()

    async def work() -> None:
        spec = SandboxSpec(workdir="/w", env={"A": "b"})
        sandbox = await AsyncSandbox(provider, spec).start()
        again = await AsyncSandbox.connect(sandbox.serialize(), provider=provider)
        await again.exec("a")
        assert again.handle.raw == {"A": "b"}
        with pytest.raises(RuntimeError, match="started already"):
            await again.start()
        with pytest.raises(ValueError, match=r"'connected', not 'notebook'"):
            await AsyncSandbox.connect(sandbox.serialize(), provider=Notebook())

    asyncio.run(work())
    assert provider.calls[-1][3]["cwd"] == "/w"


def test_sandbox_blocks_even_while_an_event_loop_runs(tmp_path: Path) -> None:
    async def work() -> None:
        provider = Connected()
        with Sandbox(provider, SandboxSpec(files={"/a": "b"})) as sandbox:
            assert sandbox.exec("true").return_code == 3
            assert sandbox.status() is SandboxStatus.RUNNING
            assert sandbox.endpoint(80).endpoint == "http://box-1:80"
            assert sandbox.pty(columns=80) == ("box-1", 80)
            sandbox.download("/a", tmp_path / "out")
            sandbox.upload(tmp_path / "out", "/c")
            again = Sandbox.connect(sandbox.serialize(), provider=Connected())
            assert again.sandbox_id == sandbox.sandbox_id
            again.stop()
        assert provider.files == {"/a": b"b", "/c": b"b"}
        assert provider.calls[-2:] == [("close", "box-1"), ("aclose",)]
        assert sandbox.status() is SandboxStatus.STOPPED
        with pytest.raises(RuntimeError, match="stopped"):
            sandbox.start()

    asyncio.run(work())


def test_sandbox_that_cannot_start_closes_its_provider() -> None:
    provider = Notebook(refuses="create")
    with pytest.raises(SandboxCreateError), Sandbox(provider, SandboxSpec()):
        pass
    assert provider.calls == [("create", None), ("aclose",)]

"""`nemo_gym.sandbox.providers.apptainer`: the arguments of the apptainer program, with a fake of it."""

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from fake_container_program import FakeContainerProgram, install_fake

from palestra.compat import aliases
from palestra.compat.nemo_gym.sandbox import (
    AsyncSandbox,
    SandboxCreateError,
    SandboxError,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
)
from palestra.compat.nemo_gym.sandbox.providers.apptainer import ApptainerProvider, provider

SPEC = SandboxSpec(image="python:3.12")


@pytest.fixture
def apptainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeContainerProgram:
    return install_fake("apptainer", tmp_path / "fake", monkeypatch)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(50):
            return await work

    return asyncio.run(bounded())


def test_apptainer_provider_raises_where_the_program_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="`apptainer` was not found"):
        ApptainerProvider()
    with pytest.raises(RuntimeError, match="not a program"):
        ApptainerProvider(bin_path=str(tmp_path / "apptainer"))


def test_apptainer_provider_module_can_be_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    aliases.install()
    from nemo_gym.sandbox.providers.apptainer import (  # type: ignore[import-not-found]
        provider as imported,
    )

    assert imported is provider
    monkeypatch.setattr(imported, "_require_apptainer", lambda bin_path=None: "/opt/apptainer")
    made = ApptainerProvider(
        exec={"default_binds": ["/a:/b:ro"], "extra_exec_args": ["--cleanenv"]},
        create={"extra_start_args": ["--fakeroot"]},
    )
    assert made._exec_config.default_binds == ["/a:/b:ro"]
    assert made._exec_config.extra_exec_args == ["--cleanenv"]
    assert made._create_config.extra_start_args == ["--fakeroot"]


def test_require_apptainer_returns_the_program(apptainer: FakeContainerProgram) -> None:
    path = str(apptainer.folder / "bin/apptainer")
    assert provider._require_apptainer() == path
    assert provider._require_apptainer(path) == path


@pytest.mark.parametrize("part", ["exec", "create", "probe"])
def test_apptainer_provider_refuses_unknown_settings(
    apptainer: FakeContainerProgram, part: str
) -> None:
    with pytest.raises(ValueError, match=rf"`{part}`: bogus"):
        ApptainerProvider(**{part: {"bogus": 1}})


def test_an_instance_starts_with_binds_and_limits(apptainer: FakeContainerProgram) -> None:
    made = ApptainerProvider(
        exec={"default_binds": ["/a:/b"]},
        create={"extra_start_args": ["--fakeroot"], "apply_resource_limits": True},
    )
    resources = SandboxResources(cpu=2, memory_mib=64, gpu=1)
    handle = run(made.create(SandboxSpec(image="python:3.12", resources=resources)))
    (call,) = apptainer.calls_of("instance", "start")
    assert call[2:] == [
        *("--writable-tmpfs", "--bind", "/a:/b", "--nv", "--cpus", "2", "--memory", "64M"),
        *("--fakeroot", "docker://python:3.12", handle.sandbox_id),
    ]


def test_limits_that_apptainer_does_not_apply_are_logged(
    apptainer: FakeContainerProgram, caplog: pytest.LogCaptureFixture
) -> None:
    spec = SandboxSpec(image="i", resources=SandboxResources(cpu=2))
    with caplog.at_level(logging.WARNING):
        run(ApptainerProvider().create(spec))
    assert "apply_resource_limits" in caplog.text


@pytest.mark.parametrize("image", ["/images/a.sif", "./a.sif", "oras://host/a"])
def test_files_and_uris_of_images_stay_as_they_are(
    apptainer: FakeContainerProgram, image: str
) -> None:
    run(ApptainerProvider().create(SandboxSpec(image=image)))
    assert apptainer.calls_of("instance", "start")[0][-2] == image


def test_a_refused_instance_is_a_create_error(apptainer: FakeContainerProgram) -> None:
    apptainer.refuse_to_start()
    with pytest.raises(SandboxCreateError, match="no such image"):
        run(ApptainerProvider().create(SPEC))
    with pytest.raises(SandboxCreateError, match="image"):
        run(ApptainerProvider().create(SandboxSpec()))
    with pytest.raises(SandboxCreateError, match="provider_options"):
        run(ApptainerProvider().create(SandboxSpec(image="i", provider_options={"a": 1})))


def test_commands_and_files_of_an_instance(apptainer: FakeContainerProgram, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"\0bytes")
    spec = SandboxSpec(image="i", workdir=str(tmp_path), env={"A": "b, c"}, entrypoint=["true"])

    async def work() -> None:
        async with AsyncSandbox(
            {"apptainer": {"exec": {"extra_exec_args": ["--cleanenv"]}}}, spec
        ) as sandbox:
            result = await sandbox.exec("echo $A; pwd; exit 3", user="root")
            assert (result.stdout, result.return_code) == (f"b, c\n{tmp_path}\n", 3)
            timed_out = await sandbox.exec("echo begun; sleep 40", timeout_s=0.5)
            assert (timed_out.return_code, timed_out.error_type) == (125, "timeout")
            assert timed_out.stdout == "begun\n"
            await sandbox.upload(tmp_path / "source", "deep/file")
            await sandbox.download("deep/file", tmp_path / "out/file")
            with pytest.raises(SandboxError, match="no/such"):
                await sandbox.download("no/such", tmp_path / "x")
            assert (await sandbox.endpoint(80)).endpoint == "http://127.0.0.1:80"
            again = await AsyncSandbox.connect(sandbox.serialize(), provider={"apptainer": {}})
            assert (await again.exec("echo $A")).stdout == "b, c\n"
            apptainer.lose_containers()
            lost = await sandbox.exec("true")
            assert (lost.return_code, lost.error_type) == (125, "sandbox")
            assert await sandbox.status() is SandboxStatus.STOPPED

    run(work())
    assert (tmp_path / "out/file").read_bytes() == b"\0bytes"
    assert "--cleanenv" in apptainer.calls_of("exec")[0]


def test_an_instance_is_stopped_after_its_ttl(apptainer: FakeContainerProgram) -> None:
    async def work() -> None:
        made = ApptainerProvider()
        handle = await made.create(SandboxSpec(image="i", ttl_s=1))
        await asyncio.to_thread(handle.raw.timer.wait, 30)
        assert await made.status(handle) is SandboxStatus.STOPPED
        await made.close(handle)

    run(work())


def test_close_stops_the_instance_and_its_timer(apptainer: FakeContainerProgram) -> None:
    async def work() -> None:
        made = ApptainerProvider()
        handle = await made.create(SandboxSpec(image="i", ttl_s=1000))
        timer = handle.raw.timer
        await made.close(handle)
        assert timer.poll() is not None
        assert await made.status(handle) is SandboxStatus.STOPPED

    run(work())

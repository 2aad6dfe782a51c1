"""`nemo_gym.sandbox.providers.docker`: the arguments of the docker program, with a fake of it, and
real containers where a container program works.
"""

import asyncio
import io
import shutil
import subprocess
import tarfile
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_container_program import FakeContainerProgram, install_fake

from palestra.compat.nemo_gym.sandbox import (
    AsyncSandbox,
    SandboxCreateError,
    SandboxCreateVerificationError,
    SandboxError,
    SandboxHandle,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
)
from palestra.compat.nemo_gym.sandbox.providers.docker import DockerCreateConfig, DockerProvider

SPEC = SandboxSpec(image="python:3.12")


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeContainerProgram:
    return install_fake("docker", tmp_path / "fake", monkeypatch)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(50):
            return await work

    return asyncio.run(bounded())


def start_arguments(
    docker: FakeContainerProgram, spec: SandboxSpec, **settings: Any
) -> tuple[str, list[str]]:
    """The container's name, and the arguments of `docker run` after it."""
    run(DockerProvider(**settings).create(spec))
    (call,) = docker.calls_of("run", "--detach", "--rm", "--name")
    assert call[5:7] == ["--stop-timeout", "0"]
    return call[4], call[7:]


def test_docker_provider_keeps_a_detached_container_alive(docker: FakeContainerProgram) -> None:
    name, words = start_arguments(docker, SPEC)
    keepalive = DockerCreateConfig().keepalive_cmd
    assert name.startswith("palestra-")
    assert words == ["--init", "--entrypoint", "/bin/sh", "python:3.12", "-c", keepalive]


def test_docker_provider_ends_the_container_after_ttl_s(docker: FakeContainerProgram) -> None:
    _, words = start_arguments(docker, SandboxSpec(image="i", ttl_s=59.5))
    assert words[-3:] == ["i", "-c", "sleep 60"]


def test_docker_create_config_has_the_defaults_of_the_field() -> None:
    config = DockerCreateConfig()
    assert (config.start_timeout_s, config.use_init, config.network) == (600, True, None)
    assert (config.read_only, config.cap_drop, config.security_opt) == (False, [], [])
    assert (config.pids_limit, config.extra_run_args) == (None, [])
    assert (config.apply_resource_limits, config.publish_host) == (True, "127.0.0.1")


def test_docker_create_config_may_be_a_mapping(docker: FakeContainerProgram) -> None:
    settings = {
        "use_init": False,
        "network": "none",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "pids_limit": 64,
        "extra_run_args": ["--shm-size", "1g"],
        "keepalive_shell": "/bin/bash",
        "keepalive_cmd": "sleep infinity",
    }
    assert DockerProvider(create=settings)._create_config == DockerCreateConfig(**settings)
    _, words = start_arguments(docker, SPEC, create=settings)
    assert words == [
        *("--network", "none", "--read-only", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges", "--pids-limit", "64", "--shm-size", "1g"),
        *("--entrypoint", "/bin/bash", "python:3.12", "-c", "sleep infinity"),
    ]


def test_docker_provider_passes_the_spec_on(docker: FakeContainerProgram) -> None:
    spec = SandboxSpec(
        image="i",
        workdir="/tmp",
        env={"A": "b c"},
        metadata={"team": "x"},
        resources=SandboxResources(cpu=1.5, memory_mib=512, gpu=1),
        ports=(8080,),
        entrypoint="serve --now",
        provider_options={"use_init": False},
    )
    _, words = start_arguments(docker, spec)
    options, service = words[: words.index("--entrypoint")], words[-4:]
    assert options == [
        *("--cpus", "1.5", "--memory", "512m", "--gpus", "1"),
        *("--env", "A=b c", "--label", "team=x", "--publish", "127.0.0.1::8080"),
    ]
    assert service == ["/tmp", "/bin/sh", "-c", "serve --now"]


def test_docker_provider_may_leave_resources_unlimited(docker: FakeContainerProgram) -> None:
    spec = SandboxSpec(image="i", resources=SandboxResources(cpu=1, memory_mib=64))
    _, words = start_arguments(docker, spec, create={"apply_resource_limits": False})
    assert not {"--cpus", "--memory"} & set(words)


@pytest.mark.parametrize("part", ["exec", "create", "probe"])
def test_docker_provider_refuses_unknown_settings(docker: FakeContainerProgram, part: str) -> None:
    with pytest.raises(ValueError, match=rf"`{part}`: bogus"):
        DockerProvider(**{part: {"bogus": 1}})
    with pytest.raises(TypeError):
        DockerProvider(**{part: 3})


def test_docker_provider_refuses_unknown_provider_options(docker: FakeContainerProgram) -> None:
    with pytest.raises(SandboxCreateError, match="bogus"):
        run(DockerProvider().create(SandboxSpec(image="i", provider_options={"bogus": 1})))


def test_docker_provider_raises_where_there_is_no_docker_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="`docker` was not found on PATH"):
        DockerProvider()


def test_docker_provider_needs_an_image(docker: FakeContainerProgram) -> None:
    with pytest.raises(SandboxCreateError, match="image"):
        run(DockerProvider().create(SandboxSpec()))


def test_a_container_that_docker_refuses_is_a_create_error(docker: FakeContainerProgram) -> None:
    docker.refuse_to_start()
    with pytest.raises(SandboxCreateError, match="no such image"):
        run(DockerProvider().create(SPEC))
    assert docker.calls_of("rm", "--force")


def test_a_container_that_is_never_ready_is_removed(docker: FakeContainerProgram) -> None:
    provider = DockerProvider(probe={"command": "false", "interval_s": 0.01})
    with pytest.raises(SandboxCreateVerificationError, match="false"):
        run(provider.create(SandboxSpec(image="i", ready_timeout_s=0.3)))
    assert docker.calls_of("rm", "--force")


def test_docker_exec_passes_folder_variables_and_user(
    docker: FakeContainerProgram, tmp_path: Path
) -> None:
    async def work() -> None:
        async with AsyncSandbox(
            {"docker": {"exec": {"extra_exec_args": ["--privileged"]}}}, SPEC
        ) as sandbox:
            how: dict[str, Any] = {"cwd": str(tmp_path), "env": {"A": "b"}, "user": 1000}
            result = await sandbox.exec("echo $A; pwd; echo no >&2; exit 3", **how)
            assert (result.stdout, result.stderr) == (f"b\n{tmp_path}\n", "no\n")
            assert (result.return_code, result.error_type) == (3, None)
            assert (await sandbox.exec(["printf", "%s", "$A"])).stdout == "$A"

    run(work())
    call = docker.calls_of("exec")[1]
    assert call[:7] == ["exec", "--workdir", str(tmp_path), "--user", "1000", "--env", "A=b"]
    assert call[9] == "--privileged"


def test_a_timeout_of_docker_exec_kills_the_command_and_keeps_its_output(
    docker: FakeContainerProgram,
) -> None:
    async def work() -> None:
        async with AsyncSandbox({"docker": {}}, SPEC) as sandbox:
            result = await sandbox.exec("echo begun; sleep 40; echo never", timeout_s=0.5)
            assert (result.return_code, result.error_type) == (125, "timeout")
            assert result.stdout == "begun\n"
            assert (await sandbox.exec("echo on")).stdout == "on\n"

    run(work())


def test_a_lost_container_is_a_failure_of_the_sandbox_and_not_of_the_program(
    docker: FakeContainerProgram,
) -> None:
    async def work() -> None:
        async with AsyncSandbox({"docker": {}}, SPEC) as sandbox:
            own = await sandbox.exec("echo Error: mine >&2; exit 1")
            assert (own.return_code, own.error_type) == (1, None)
            docker.lose_containers()
            result = await sandbox.exec("true")
            assert (result.return_code, result.error_type) == (125, "sandbox")
            assert await sandbox.status() is SandboxStatus.STOPPED

    run(work())


def test_files_are_copied_with_docker_cp(docker: FakeContainerProgram, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (tmp_path / "source").write_text("text")

    async def work() -> None:
        async with AsyncSandbox({"docker": {}}, SPEC) as sandbox:
            await sandbox.upload(tmp_path / "source", f"{inside}/deep/file")
            (inside / "link").symlink_to(inside / "deep/file")
            await sandbox.download(f"{inside}/link", outside / "deep/file")
            with pytest.raises(SandboxError, match="no/such"):
                await sandbox.download(f"{inside}/no/such", outside)

    run(work())
    target = outside / "deep/file"
    assert target.read_text() == "text"
    assert not target.is_symlink()
    name = docker.calls_of("run")[0][4]
    assert docker.calls_of("cp")[0][2] == f"{name}:{inside}/deep/file"


def test_docker_status_is_the_container_s(docker: FakeContainerProgram) -> None:
    async def work() -> list[SandboxStatus]:
        provider = DockerProvider()
        handle = await provider.create(SPEC)
        statuses = []
        for state in ("created", "running", "exited", "dead", "paused"):
            (docker.folder / "state").write_text(f"{state}\n")
            statuses.append(await provider.status(handle))
        docker.lose_containers()
        return [*statuses, await provider.status(handle)]

    assert [status.name for status in run(work())] == [
        "STARTING",
        "RUNNING",
        "STOPPED",
        "ERROR",
        "UNKNOWN",
        "STOPPED",
    ]


def test_docker_endpoint_is_the_published_port(docker: FakeContainerProgram) -> None:
    async def work() -> None:
        spec = SandboxSpec(image="i", ports=(8080,))
        async with AsyncSandbox({"docker": {}}, spec) as sandbox:
            assert (await sandbox.endpoint(8080)).endpoint == "http://127.0.0.1:49153"
            with pytest.raises(SandboxError, match=r"SandboxSpec.ports"):
                await sandbox.endpoint(80)

    run(work())


def test_docker_host_network_needs_no_published_port(docker: FakeContainerProgram) -> None:
    async def work() -> str:
        spec = SandboxSpec(image="i", ports=(80,), provider_options={"network": "host"})
        async with AsyncSandbox({"docker": {}}, spec) as sandbox:
            return (await sandbox.endpoint(80)).endpoint

    assert run(work()) == "http://127.0.0.1:80"
    assert "--publish" not in docker.calls_of("run")[0]


def test_a_docker_sandbox_is_connected_while_it_runs(docker: FakeContainerProgram) -> None:
    async def work() -> None:
        sandbox = await AsyncSandbox({"docker": {}}, SPEC).start()
        descriptor = sandbox.serialize()
        again = await AsyncSandbox.connect(descriptor, provider={"docker": {}})
        assert (await again.exec("echo on")).stdout == "on\n"
        await again.stop()
        with pytest.raises(SandboxError, match="not running"):
            await AsyncSandbox.connect(descriptor, provider={"docker": {}})

    run(work())


# Real containers


def works(program: str) -> bool:
    """Whether a container program reaches its service."""
    if shutil.which(program) is None:
        return False
    done = subprocess.run([program, "ps"], capture_output=True, timeout=50, check=False)
    return done.returncode == 0


# Before the next fixture puts a program that works on PATH.
def test_a_container_program_without_its_service_is_a_create_error() -> None:
    program = shutil.which("docker")
    if program is None:
        pytest.skip("docker is not installed")
    if (
        subprocess.run([program, "ps"], capture_output=True, timeout=50, check=False).returncode
        == 0
    ):
        pytest.skip("docker works here")
    with pytest.raises(SandboxCreateError, match="docker"):
        run(DockerProvider().create(SPEC))


PODMAN_CONFIG = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
"""
"""What podman needs inside another container, as on CI."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image with busybox only; docker, or podman as docker, is on PATH."""
    folder = tmp_path_factory.mktemp("programs")
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox, of which the image is made, is not installed")
    program = next(filter(works, ("docker", "podman")), None)
    if program is None:
        pytest.skip("neither docker nor podman works here")
    with pytest.MonkeyPatch.context() as patch:
        path = shutil.which(program)
        assert path is not None
        (folder / "docker").symlink_to(path)
        patch.setenv("PATH", str(folder), prepend=":")
        patch.setenv("CONTAINERS_CONF", str(folder / "containers.conf"))
        (folder / "containers.conf").write_text(PODMAN_CONFIG)
        archive = folder / "image.tar"
        _archive_busybox(Path(busybox), archive)
        name = "palestra-test-busybox"
        words = ["docker", "import", str(archive), name]
        subprocess.run(words, capture_output=True, timeout=60, check=True)
        words = ["docker", "run", "--rm", "--network", "none", name, "/bin/true"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            pytest.skip(f"{program} starts no container: {done.stderr.strip()}")
        yield name


def _archive_busybox(busybox: Path, archive: Path) -> None:
    content = busybox.read_bytes()
    with tarfile.open(archive, "w") as tar:
        for name in ("sh", "sleep", "cat", "grep", "mkdir", "readlink", "tar", "true", "echo"):
            member = tarfile.TarInfo(f"bin/{name}")
            member.mode, member.size = 0o755, len(content)
            tar.addfile(member, io.BytesIO(content))
        member = tarfile.TarInfo("tmp")
        member.type, member.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(member)


REAL: dict[str, dict[str, Any]] = {
    "docker": {"create": {"use_init": False, "network": "none", "start_timeout_s": 60}}
}


@pytest.mark.slow
def test_a_real_container_runs_commands_and_is_removed(image: str, tmp_path: Path) -> None:
    async def work() -> tuple[AsyncSandbox, SandboxHandle]:
        spec = SandboxSpec(
            image=image,
            env={"PATH": "/bin", "A": "b"},
            files={"/w/a": "text"},
            workdir="/w",
            ttl_s=300,
            entrypoint="echo $PWD > /w/service",
        )
        async with AsyncSandbox(REAL, spec) as sandbox:
            result = await sandbox.exec("cat a; echo $A; exit 3")
            assert (result.stdout, result.return_code) == ("textb\n", 3)
            assert (await sandbox.exec("cat /w/service")).stdout == "/w\n"
            refused = await sandbox.exec("true", cwd="/no/such")
            assert refused.return_code != 0
            timed_out = await sandbox.exec("echo begun; sleep 40", timeout_s=2)
            assert (timed_out.error_type, timed_out.stdout) == ("timeout", "begun\n")
            await sandbox.download("a", tmp_path / "out")
            assert await sandbox.status() is SandboxStatus.RUNNING
            return sandbox, sandbox.handle

    sandbox, handle = run(work())
    assert (tmp_path / "out").read_text() == "text"
    assert run(sandbox.provider.status(handle)) is SandboxStatus.STOPPED


@pytest.mark.slow
def test_a_real_container_that_is_lost_is_a_failure_of_the_sandbox(image: str) -> None:
    async def work() -> None:
        spec = SandboxSpec(image=image, env={"PATH": "/bin"})
        async with AsyncSandbox(REAL, spec) as sandbox:
            own = await sandbox.exec("echo Error: mine >&2; exit 125")
            assert (own.return_code, own.error_type) == (125, None)
            assert (await sandbox.exec("no-such-program")).return_code == 127
            again = await AsyncSandbox.connect(sandbox.serialize(), provider=REAL)
            assert (await again.exec("echo on")).stdout == "on\n"
            await again.stop()
            lost = await sandbox.exec("true")
            assert (lost.return_code, lost.error_type) == (125, "sandbox")
            with pytest.raises(SandboxError, match="/no/such"):
                await sandbox.download("/no/such", "unused")

    run(work())


@pytest.mark.slow
def test_a_real_container_that_is_not_ready_is_removed(image: str) -> None:
    provider = DockerProvider(**{**REAL["docker"], "probe": {"command": "false"}})
    spec = SandboxSpec(image=image, env={"PATH": "/bin"}, ready_timeout_s=1)
    with pytest.raises(SandboxCreateVerificationError):
        run(provider.create(spec))
    words = ["docker", "ps", "--all", "--quiet", "--filter", "name=palestra-"]
    listed = subprocess.run(words, capture_output=True, timeout=50, check=True)
    assert listed.stdout == b""

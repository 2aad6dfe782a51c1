"""`DockerProvider`: each sandbox is a detached container that a keep-alive command holds open.

Podman's program works as well when it is the command `docker` on PATH.
"""

import asyncio
import math
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from palestra.compat.nemo_gym.sandbox.providers.base import (
    SandboxCreateError,
    SandboxEndpoint,
    SandboxError,
    SandboxHandle,
    SandboxSpec,
    SandboxStatus,
    inside,
)
from palestra.compat.nemo_gym.sandbox.providers.containers import (
    COPY_S,
    Container,
    ContainerProvider,
    ProbeConfig,
    container_name,
    required_program,
    settings_of,
)

_STATUSES: Final[Mapping[str, SandboxStatus]] = {
    "created": SandboxStatus.STARTING,
    "configured": SandboxStatus.STARTING,
    "initialized": SandboxStatus.STARTING,
    "restarting": SandboxStatus.STARTING,
    "running": SandboxStatus.RUNNING,
    "stopping": SandboxStatus.STOPPED,
    "stopped": SandboxStatus.STOPPED,
    "removing": SandboxStatus.STOPPED,
    "exited": SandboxStatus.STOPPED,
    "dead": SandboxStatus.ERROR,
}
_EVERYWHERE: Final = {"0.0.0.0", "::", "[::]", "*"}  # noqa: S104  # addresses that are read


@dataclass
class DockerCreateConfig:
    """The settings of `docker run`."""

    keepalive_shell: str = "/bin/sh"
    """The program in the image that runs the keep-alive command, with `-c`."""

    keepalive_cmd: str = "while :; do sleep 3600; done"
    """The command that holds the container open. A spec with `ttl_s` has `sleep` instead."""

    start_timeout_s: float = 600
    """Longest time until the container runs, including the download of its image."""

    use_init: bool = True
    """Whether a small init process collects ended processes (`--init`)."""

    network: str | None = None
    read_only: bool = False
    cap_drop: list[str] = field(default_factory=list)
    security_opt: list[str] = field(default_factory=list)
    pids_limit: int | None = None
    extra_run_args: list[str] = field(default_factory=list)
    """Further arguments of `docker run`, before the image."""

    apply_resource_limits: bool = True
    """Whether the spec's `cpu` and `memory_mib` limit the container."""

    publish_host: str = "127.0.0.1"
    """The address of this machine on which the spec's ports are published."""


@dataclass
class DockerExecConfig:
    """The settings of `docker exec`."""

    shell: str | None = None
    """The shell of commands; None: bash where the image has it, else sh."""

    user: str | int | None = None
    """The user of commands that name none; None: the image's."""

    extra_exec_args: list[str] = field(default_factory=list)
    """Further arguments of `docker exec`, before the container."""


class DockerProvider(ContainerProvider):
    """Sandboxes over the docker program.

    `exec`, `create`, `probe`: the settings of each, as a mapping or a config object. Raises
    ProviderUnavailable, a RuntimeError: the program is missing.
    """

    name = "docker"

    def __init__(self, *, exec: Any = None, create: Any = None, probe: Any = None) -> None:  # noqa: A002  # the field's name
        probe_config = settings_of(ProbeConfig, probe, where="probe")
        super().__init__(required_program("docker"), probe_config)
        self._exec_config = settings_of(DockerExecConfig, exec, where="exec")
        self._create_config = settings_of(DockerCreateConfig, create, where="create")

    @property
    def shell(self) -> str | None:
        """The shell of commands; None: bash where the image has it, else sh."""
        return self._exec_config.shell

    async def create(self, spec: SandboxSpec, /) -> SandboxHandle:
        """Start a container and wait until it runs commands. Raises SandboxCreateError."""
        config = self._settings_for(spec)
        container = Container(container_name(), spec)
        handle = SandboxHandle(container.name, self.name, container)
        try:
            argv = run_argv(self._program, container, config)
            await self._create(argv, timeout_s=config.start_timeout_s)
            await self._create_workdir(container)
            await self._wait_until_ready(handle, spec)
        except BaseException:
            # Also after a cancellation: the daemon may go on without its client.
            await asyncio.shield(self._remove_silently(handle))
            raise
        return handle

    async def _create_workdir(self, container: Container) -> None:
        """Create the spec's working directory. A failure shows in the readiness probe."""
        # Not `docker run --workdir`: docker creates the folder, podman refuses to start without it.
        if container.spec.workdir is not None:
            words = ["mkdir", "-p", container.spec.workdir]
            await self._copy(self.exec_argv(container, words, cwd="/", env={}, user="0"))

    def _settings_for(self, spec: SandboxSpec) -> DockerCreateConfig:
        """Return the settings of `docker run`, with the spec's `provider_options` applied."""
        options = dict(spec.provider_options)
        try:
            settings_of(DockerCreateConfig, options, where="provider_options")
        except ValueError as error:
            raise SandboxCreateError(str(error)) from error
        return replace(self._create_config, **options)

    async def connect(self, sandbox_id: str, spec: SandboxSpec, /) -> SandboxHandle:
        """Return the handle of a container that runs already. Raises SandboxError: it does not."""
        handle = SandboxHandle(sandbox_id, self.name, Container(sandbox_id, spec))
        status = await self.status(handle)
        if status is not SandboxStatus.RUNNING:
            raise SandboxError(f"the docker container {sandbox_id} is not running ({status})")
        return handle

    def exec_argv(
        self,
        container: Container,
        words: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        user: str | int | None,
    ) -> list[str]:
        """Return the arguments of `docker exec`."""
        user = self._exec_config.user if user is None else user
        folder = container.spec.workdir if cwd is None else cwd
        return [
            self._program,
            "exec",
            *([] if folder is None else ["--workdir", folder]),
            *([] if user is None else ["--user", str(user)]),
            *(word for key, value in env.items() for word in ("--env", f"{key}={value}")),
            *self._exec_config.extra_exec_args,
            container.name,
            *words,
        ]

    async def upload_file(
        self, handle: SandboxHandle, source_path: Path | str, target_path: str, /
    ) -> None:
        """Copy a file or a folder into the container. Raises SandboxError."""
        target = inside(str(target_path), handle.raw.spec)
        words = ["mkdir", "-p", posixpath.dirname(target)]
        await self._copied(self.exec_argv(handle.raw, words, cwd="/", env={}, user=None), target)
        await self._copied(
            [self._program, "cp", str(source_path), f"{handle.sandbox_id}:{target}"], target
        )

    async def download_file(
        self, handle: SandboxHandle, source_path: str, target_path: Path | str, /
    ) -> None:
        """Copy a file or a folder from the container. Raises SandboxError."""
        source, target = inside(str(source_path), handle.raw.spec), Path(target_path)
        await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
        # `docker cp` copies a link as a link, which would point to a file of this machine.
        words = ["readlink", "-f", source]
        argv = self.exec_argv(handle.raw, words, cwd="/", env={}, user=None)
        resolved = await self._copied(argv, source)
        await self._copied(
            [self._program, "cp", f"{handle.sandbox_id}:{resolved or source}", str(target)], source
        )

    async def _copied(self, argv: Sequence[str], path: str) -> str:
        """Run one step of a copy and return its output. Raises SandboxError: it failed."""
        finished = await self._copy(argv, timeout_s=COPY_S)
        if finished.code:
            raise SandboxError(
                f"docker did not copy {path}: {finished.complaint or f'exit code {finished.code}'}"
            )
        return finished.text

    async def status(self, handle: SandboxHandle, /) -> SandboxStatus:
        """Return the state of the container. A container that does not exist is stopped."""
        finished = await self._control(
            "container", "inspect", "--format", "{{.State.Status}}", handle.sandbox_id
        )
        if finished.code == 0:
            return _STATUSES.get(finished.text.lower(), SandboxStatus.UNKNOWN)
        gone = "no such container" in finished.complaint.lower()
        return SandboxStatus.STOPPED if gone else SandboxStatus.UNKNOWN

    async def endpoint(self, handle: SandboxHandle, port: int, /) -> SandboxEndpoint:
        """Return the route to a port of the spec. Raises SandboxError: it is not published."""
        if self._settings_for(handle.raw.spec).network == "host":
            return SandboxEndpoint(f"http://127.0.0.1:{port}")
        finished = await self._control("port", handle.sandbox_id, f"{port}/tcp")
        address, _, host_port = finished.text.partition("\n")[0].rpartition(":")
        if finished.code or not host_port:
            raise SandboxError(
                f"port {port} of the docker container {handle.sandbox_id} is not published; add it "
                f"to SandboxSpec.ports: {finished.complaint}"
            )
        host = "127.0.0.1" if address in _EVERYWHERE else address
        return SandboxEndpoint(f"http://{host}:{host_port}")

    async def close(self, handle: SandboxHandle, /) -> None:
        """Remove the container. Raises SandboxError: docker did not remove it."""
        finished = await self._control("rm", "--force", handle.sandbox_id)
        if finished.code and "no such container" not in finished.complaint.lower():
            raise SandboxError(
                f"docker did not remove the container {handle.sandbox_id}: {finished.complaint}"
            )

    async def _remove_silently(self, handle: SandboxHandle) -> None:
        """Remove a container that may not exist, without a second error."""
        try:
            await self.close(handle)
        except SandboxError:
            return


def run_argv(program: str, container: Container, config: DockerCreateConfig) -> list[str]:
    """Return the arguments of `docker run` for a container. Raises SandboxCreateError: the spec has
    no image.
    """
    spec = container.spec
    if not spec.image:
        raise SandboxCreateError("the docker provider needs an image: set SandboxSpec.image")
    argv = [program, "run", "--detach", "--rm", "--name", container.name]
    argv += ["--stop-timeout", "0"]  # podman waits for it before it removes a container
    argv += ["--init"] if config.use_init else []
    argv += [] if config.network is None else ["--network", config.network]
    argv += ["--read-only"] if config.read_only else []
    argv += [word for name in config.cap_drop for word in ("--cap-drop", name)]
    argv += [word for option in config.security_opt for word in ("--security-opt", option)]
    argv += [] if config.pids_limit is None else ["--pids-limit", str(config.pids_limit)]
    argv += _resource_args(spec, config)
    argv += [word for key, value in spec.env.items() for word in ("--env", f"{key}={value}")]
    argv += [word for key, value in spec.metadata.items() for word in ("--label", f"{key}={value}")]
    if config.network != "host":
        ports = (f"{config.publish_host}::{port}" for port in spec.ports)
        argv += [word for port in ports for word in ("--publish", port)]
    script, words = _keepalive(spec, config)
    return [
        *argv,
        *config.extra_run_args,
        "--entrypoint",
        config.keepalive_shell,
        spec.image,
        "-c",
        script,
        *words,
    ]


def _resource_args(spec: SandboxSpec, config: DockerCreateConfig) -> list[str]:
    resources = spec.resources
    argv = []
    if config.apply_resource_limits and resources.cpu:
        argv += ["--cpus", f"{float(resources.cpu):g}"]
    if config.apply_resource_limits and resources.memory_mib:
        argv += ["--memory", f"{int(resources.memory_mib)}m"]
    if resources.gpu:
        argv += ["--gpus", str(resources.gpu)]
    return argv


def _keepalive(spec: SandboxSpec, config: DockerCreateConfig) -> tuple[str, list[str]]:
    """Return the container's shell script and its arguments: the spec's service in the background,
    then the keep-alive command.
    """
    hold = config.keepalive_cmd if spec.ttl_s is None else f"sleep {math.ceil(spec.ttl_s)}"
    if not spec.entrypoint:
        return hold, []
    entrypoint = spec.entrypoint
    words = ["/bin/sh", "-c", entrypoint] if isinstance(entrypoint, str) else list(entrypoint)
    if spec.workdir is None:
        return f'"$@" & {hold}', ["sh", *words]
    in_workdir = '{ until cd "$0" 2>/dev/null; do sleep 0.1; done; "$@"; } &'
    return f"{in_workdir} {hold}", [spec.workdir, *words]

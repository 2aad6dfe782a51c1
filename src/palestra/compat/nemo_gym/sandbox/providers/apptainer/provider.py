"""`ApptainerProvider`: each sandbox is an instance of the apptainer program.

An instance shares this machine's network. Its commands run as the user who started it, so `user`
of a command has no effect.
"""

import asyncio
import json
import logging
import math
import posixpath
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
    Container,
    ContainerProvider,
    ProbeConfig,
    container_name,
    required_program,
    settings_of,
)
from palestra.system import end_group, start

logger = logging.getLogger("palestra.compat.sandbox")


@dataclass
class ApptainerCreateConfig:
    """The settings of `apptainer instance start`."""

    extra_start_args: list[str] = field(default_factory=list)
    """Further arguments, before the image."""

    start_timeout_s: float = 600
    """Longest time until the instance runs, including the conversion of its image."""

    writable_tmpfs: bool = True
    """Whether commands may write anywhere, into memory (`--writable-tmpfs`)."""

    apply_resource_limits: bool = False
    """Whether the spec's `cpu` and `memory_mib` limit the instance. Apptainer needs a machine that
    lets its users limit their own processes (cgroups)."""


@dataclass
class ApptainerExecConfig:
    """The settings of commands in an instance."""

    default_binds: list[str] = field(default_factory=list)
    """Folders of this machine in every instance, as `source[:target[:ro]]`."""

    extra_exec_args: list[str] = field(default_factory=list)
    """Further arguments of `apptainer exec`, before the instance."""

    shell: str | None = None
    """The shell of commands; None: bash where the image has it, else sh."""


@dataclass
class Instance(Container):
    """An instance, and the process that ends it after its `ttl_s`."""

    timer: subprocess.Popen[bytes] | None = None


def _require_apptainer(bin_path: str | None = None) -> str:
    """Return the path of the apptainer program. Raises RuntimeError: it is missing."""
    return required_program("apptainer", bin_path)


class ApptainerProvider(ContainerProvider):
    """Sandboxes over the apptainer program.

    `exec`, `create`, `probe`: the settings of each, as a mapping or a config object. `bin_path`:
    the program. Raises ProviderUnavailable, a RuntimeError: the program is missing.
    """

    name = "apptainer"

    def __init__(
        self,
        *,
        exec: Any = None,  # noqa: A002  # the field's name
        create: Any = None,
        probe: Any = None,
        bin_path: str | None = None,
    ) -> None:
        super().__init__(
            _require_apptainer(bin_path), settings_of(ProbeConfig, probe, where="probe")
        )
        self._exec_config = settings_of(ApptainerExecConfig, exec, where="exec")
        self._create_config = settings_of(ApptainerCreateConfig, create, where="create")

    @property
    def shell(self) -> str | None:
        """The shell of commands; None: bash where the image has it, else sh."""
        return self._exec_config.shell

    async def create(self, spec: SandboxSpec, /) -> SandboxHandle:
        """Start an instance and wait until it runs commands. Raises SandboxCreateError."""
        instance = Instance(container_name(), spec)
        handle = SandboxHandle(instance.name, self.name, instance)
        argv = self._start_argv(instance)
        try:
            await self._create(argv, timeout_s=self._create_config.start_timeout_s)
            await self._start_service(handle, spec)
            await self._wait_until_ready(handle, spec)
        except BaseException:
            # Also after a cancellation: the instance may run without its client.
            await asyncio.shield(self._remove_silently(handle))
            raise
        instance.timer = self._timer(instance)
        return handle

    def _start_argv(self, instance: Instance) -> list[str]:
        """Return the arguments of `apptainer instance start`."""
        spec, config = instance.spec, self._create_config
        if not spec.image:
            raise SandboxCreateError("the apptainer provider needs an image: set SandboxSpec.image")
        if spec.provider_options:
            raise SandboxCreateError(
                "the apptainer provider has no provider_options: put arguments into the setting "
                "create.extra_start_args"
            )
        argv = [self._program, "instance", "start"]
        argv += ["--writable-tmpfs"] if config.writable_tmpfs else []
        argv += [word for bind in self._exec_config.default_binds for word in ("--bind", bind)]
        argv += ["--nv"] if spec.resources.gpu else []
        argv += self._limit_args(spec)
        return [*argv, *config.extra_start_args, _image_source(spec.image), instance.name]

    def _limit_args(self, spec: SandboxSpec) -> list[str]:
        cpu, memory_mib = spec.resources.cpu, spec.resources.memory_mib
        if not self._create_config.apply_resource_limits:
            if cpu or memory_mib:
                logger.warning(
                    "apptainer does not limit cpu and memory_mib of sandboxes: "
                    "set create.apply_resource_limits to do so"
                )
            return []
        argv = ["--cpus", f"{float(cpu):g}"] if cpu else []
        return argv + (["--memory", f"{int(memory_mib)}M"] if memory_mib else [])

    async def _start_service(self, handle: SandboxHandle, spec: SandboxSpec) -> None:
        """Start the spec's service in the background."""
        if not spec.entrypoint:
            return
        words = self._words(spec.entrypoint)
        script = ["/bin/sh", "-c", '"$@" >/dev/null 2>&1 </dev/null &', "sh", *words]
        argv = self.exec_argv(handle.raw, script, cwd=spec.workdir, env={}, user=None)
        await self._create(argv, timeout_s=self._create_config.start_timeout_s)

    def _timer(self, instance: Instance) -> subprocess.Popen[bytes] | None:
        """Start the process that stops the instance after `ttl_s`, even if this one has ended."""
        ttl_s = instance.spec.ttl_s
        if ttl_s is None:
            return None
        script = 'sleep "$1"; exec "$2" instance stop "$3"'
        words = ["sh", str(math.ceil(ttl_s)), self._program, instance.name]
        return start(
            ["/bin/sh", "-c", script, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    async def connect(self, sandbox_id: str, spec: SandboxSpec, /) -> SandboxHandle:
        """Return the handle of an instance that runs already. Raises SandboxError: it does not."""
        handle = SandboxHandle(sandbox_id, self.name, Instance(sandbox_id, spec))
        status = await self.status(handle)
        if status is not SandboxStatus.RUNNING:
            raise SandboxError(f"the apptainer instance {sandbox_id} is not running ({status})")
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
        """Return the arguments of `apptainer exec`."""
        del user  # commands run as the user who started the instance
        folder = container.spec.workdir if cwd is None else cwd
        variables = {**container.spec.env, **env}
        return [
            self._program,
            "exec",
            *([] if folder is None else ["--pwd", folder]),
            *self._exec_config.extra_exec_args,
            f"instance://{container.name}",
            # Not `--env`, which splits values at commas.
            *(["env"] if variables else []),
            *(f"{key}={value}" for key, value in variables.items()),
            *words,
        ]

    async def upload_file(
        self, handle: SandboxHandle, source_path: Path | str, target_path: str, /
    ) -> None:
        """Write a file into the instance. Raises SandboxError."""
        target = inside(str(target_path), handle.raw.spec)
        content = await asyncio.to_thread(Path(source_path).read_bytes)
        script = 'mkdir -p "$1" && cat > "$2"'
        await self._copied(handle, [script, "sh", posixpath.dirname(target), target], content)

    async def download_file(
        self, handle: SandboxHandle, source_path: str, target_path: Path | str, /
    ) -> None:
        """Copy a file of the instance to this machine. Raises SandboxError."""
        source, target = inside(str(source_path), handle.raw.spec), Path(target_path)
        content = await self._copied(handle, ['cat < "$1"', "sh", source])
        await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(target.write_bytes, content)

    async def _copied(
        self, handle: SandboxHandle, words: Sequence[str], content: bytes = b""
    ) -> bytes:
        """Run a shell script with `content` as its input, and return its output."""
        argv = self.exec_argv(handle.raw, ["/bin/sh", "-c", *words], cwd="/", env={}, user=None)
        finished = await self._copy(argv, data=content)
        if finished.code:
            raise SandboxError(f"apptainer did not copy {words[-1]}: {finished.complaint}")
        return finished.output

    async def status(self, handle: SandboxHandle, /) -> SandboxStatus:
        """Return the state of the instance. An instance that does not exist is stopped."""
        finished = await self._control("instance", "list", "--json", handle.sandbox_id)
        if finished.code:
            return SandboxStatus.UNKNOWN
        try:
            instances = json.loads(finished.output)["instances"]
            names = {instance["instance"] for instance in instances}
        except (ValueError, KeyError, TypeError):
            return SandboxStatus.UNKNOWN
        return SandboxStatus.RUNNING if handle.sandbox_id in names else SandboxStatus.STOPPED

    async def endpoint(self, _handle: SandboxHandle, port: int, /) -> SandboxEndpoint:
        """Return the route to a port: the instance shares this machine's network."""
        return SandboxEndpoint(f"http://127.0.0.1:{port}")

    async def close(self, handle: SandboxHandle, /) -> None:
        """Stop the instance. Raises SandboxError: apptainer did not stop it."""
        timer, handle.raw.timer = handle.raw.timer, None
        if timer is not None:
            end_group(timer.pid)
            await asyncio.to_thread(timer.wait)
        finished = await self._control("instance", "stop", handle.sandbox_id)
        if finished.code and await self.status(handle) is not SandboxStatus.STOPPED:
            raise SandboxError(
                f"apptainer did not stop the instance {handle.sandbox_id}: {finished.complaint}"
            )

    async def _remove_silently(self, handle: SandboxHandle) -> None:
        """Stop an instance that may not exist, without a second error."""
        try:
            await self.close(handle)
        except SandboxError:
            return


def _image_source(image: str) -> str:
    """Return what apptainer starts: a file or URI as it is, any other name from a docker registry."""
    if "://" in image or image.startswith(("/", ".")) or Path(image).exists():
        return image
    return f"docker://{image}"

"""Providers over `palestra.sandbox`.

There are no images: commands see this machine's programs, read-only, and run as an unprivileged
user. A sandbox's files last until it is closed.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar, Final, Literal
from uuid import uuid4

from pydantic import ValidationError

from palestra.compat.nemo_gym.sandbox.providers.base import (
    SandboxCreateError,
    SandboxEndpoint,
    SandboxError,
    SandboxExecResult,
    SandboxHandle,
    SandboxSpec,
    SandboxStatus,
)
from palestra.compat.nemo_gym.sandbox.providers.local.session import ShellSession
from palestra.errors import CallError, ConfigError
from palestra.sandbox import Limits, Sandbox, SandboxSettings

logger = logging.getLogger("palestra.compat.sandbox")

LONGEST_S: Final = 86_400.0
DEFAULT_MEMORY_MIB: Final = 2048
LEAST_MEMORY_MIB: Final = 64
PROCESSES: Final = 256
OUTPUT_KIB: Final = 16 << 10
SYSTEM: Final = (
    "/bin",
    "/usr/bin",
    "/usr/local/bin",
    "/usr/libexec",
    "/usr/share",
    "/etc/alternatives",
)
"""The folders of the machine's programs, which commands may read besides a sandbox's usual files.
"""


class LocalProvider:
    """Sandboxes of the back end that Palestra chooses: one that isolates.

    Takes the settings of `palestra.sandbox.SandboxSettings` except `backend`. Raises ValueError: a
    setting is unknown or invalid.
    """

    name: ClassVar[str] = "local"
    backend: ClassVar[Literal["auto", "bubblewrap", "process", "http"]] = "auto"

    def __init__(self, **settings: Any) -> None:
        if "backend" in settings:
            raise ValueError(
                "`backend` is no setting of a provider: choose the provider auto, bubblewrap, "
                "process or http"
            )
        settings.setdefault("read_only", [path for path in SYSTEM if Path(path).exists()])
        try:
            self._settings = SandboxSettings.model_validate({"backend": self.backend, **settings})
        except ValidationError as error:
            raise ValueError(f"settings of sandbox provider {self.name!r}: {error}") from error

    async def create(self, spec: SandboxSpec, /) -> SandboxHandle:
        """Start a sandbox. Raises SandboxCreateError: this machine cannot, or the spec asks for
        something that these sandboxes lack.
        """
        self._check(spec)
        async with AsyncExitStack() as stack:
            try:
                sandbox = await stack.enter_async_context(Sandbox(self._settings))
                session = ShellSession(spec)
                await stack.enter_async_context(session.running_in(sandbox, limits_of(spec)))
            except (ConfigError, CallError) as error:
                hint = f" ({error.hint})" if error.hint else ""
                raise SandboxCreateError(f"{error.message}{hint}") from error
            session.keep(stack.pop_all())
        return SandboxHandle(uuid4().hex, self.name, session)

    def _check(self, spec: SandboxSpec) -> None:
        unsupported = [
            field for field in ("entrypoint", "provider_options") if getattr(spec, field)
        ]
        if unsupported:
            raise SandboxCreateError(
                f"sandbox provider {self.name!r} has no {' and no '.join(unsupported)}: "
                "remove it from the spec, or use docker or apptainer"
            )
        if spec.image is not None:
            logger.info("provider %s has no images: %s is not used", self.name, spec.image)

    async def exec(
        self,
        handle: SandboxHandle,
        command: str | Sequence[str],
        /,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = 180,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        """Run a shell command, or a program with its arguments, to its end.

        When the command ends or is stopped at its time limit, in seconds, all processes that it
        started are killed. Commands run one after another. A command that exceeds the sandbox's
        limits ends the sandbox. `user` has no effect.
        """
        del user
        session: ShellSession = handle.raw
        return await session.exec(
            command, cwd=cwd, env=env or {}, timeout_s=LONGEST_S if timeout_s is None else timeout_s
        )

    async def upload_file(
        self, handle: SandboxHandle, source_path: Path | str, target_path: str, /
    ) -> None:
        """Copy a file into the sandbox. Raises SandboxError."""
        await handle.raw.upload(Path(source_path), str(target_path))

    async def download_file(
        self, handle: SandboxHandle, source_path: str, target_path: Path | str, /
    ) -> None:
        """Copy a file of the sandbox to this machine. Raises SandboxError."""
        await handle.raw.download(str(source_path), Path(target_path))

    async def status(self, handle: SandboxHandle, /) -> SandboxStatus:
        """Return whether the sandbox runs, was closed, or ended with an error."""
        session: ShellSession = handle.raw
        return session.status

    async def endpoint(self, _handle: SandboxHandle, port: int, /) -> SandboxEndpoint:
        """Raise SandboxError: these sandboxes have no network."""
        raise SandboxError(
            f"sandboxes of the provider {self.name!r} have no network, so port {port} cannot be "
            "reached; use docker or apptainer"
        )

    async def close(self, handle: SandboxHandle, /) -> None:
        """Remove the sandbox and kill everything in it. Repeated calls have no further effect."""
        await handle.raw.close()

    async def aclose(self) -> None:
        """Do nothing: each sandbox holds its own back end."""


class BubblewrapProvider(LocalProvider):
    """Sandboxes that bubblewrap isolates."""

    name = "bubblewrap"
    backend = "bubblewrap"


class ProcessProvider(LocalProvider):
    """Plain processes without isolation, for trusted commands only."""

    name = "process"
    backend = "process"

    async def endpoint(self, _handle: SandboxHandle, port: int, /) -> SandboxEndpoint:
        """Return the route to a port: the processes share this machine's network."""
        return SandboxEndpoint(f"http://127.0.0.1:{port}")


class HttpProvider(LocalProvider):
    """Sandboxes of a `palestra sandbox serve`."""

    name = "http"
    backend = "http"


def limits_of(spec: SandboxSpec) -> Limits:
    """Return the limits of a sandbox."""
    memory_mib = max(LEAST_MEMORY_MIB, int(spec.resources.memory_mib or DEFAULT_MEMORY_MIB))
    return Limits(
        cpu_s=LONGEST_S,
        wall_s=min(LONGEST_S, spec.ttl_s or LONGEST_S),
        memory_mib=memory_mib,
        processes=PROCESSES,
        output_kib=OUTPUT_KIB,
        file_mib=memory_mib,
        tmp_mib=memory_mib,
    )

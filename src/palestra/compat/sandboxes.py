"""Sandboxes as authors in the field use them: create, exec, upload, download, status, close.

What runs them here is the `process` provider: a folder of its own and a process group that ends
with its command. It does not isolate, and says so; containers are other providers' affair.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field

from palestra.compat.nemo_gym.sandbox.config import provider_name, resolve_provider_config

logger = logging.getLogger("palestra.compat")

HERE: Final = frozenset({"process", "local", "palestra"})
DEFAULT_TIMEOUT_S: Final = 600.0


class SandboxError(RuntimeError):
    """A sandbox could not be made or used."""


class SandboxStatus(StrEnum):
    """Where a sandbox is in its life."""

    CREATED = "created"
    RUNNING = "running"
    CLOSED = "closed"


class SandboxResources(BaseModel):
    """What a sandbox may use."""

    model_config = ConfigDict(extra="allow")

    cpu: float | None = None
    memory_mib: int | None = None
    disk_gib: int | None = None
    gpu: int | None = None


class SandboxSpec(BaseModel):
    """What a sandbox is made of."""

    model_config = ConfigDict(extra="allow")

    image: str | None = None
    resources: Any = None
    env: dict[str, str] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)
    workdir: str | None = None


class SandboxExecResult(BaseModel):
    """How a command ended; the exit code under the names in use."""

    model_config = ConfigDict(extra="allow")

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    timed_out: bool = False

    @property
    def return_code(self) -> int:
        """The exit code."""
        return self.exit_code

    @property
    def returncode(self) -> int:
        """The exit code."""
        return self.exit_code

    @property
    def output(self) -> str:
        """Both outputs."""
        return self.stdout + self.stderr

    @property
    def ok(self) -> bool:
        """Whether it ended with 0."""
        return self.exit_code == 0


class AsyncSandbox:
    """One sandbox. The arguments are a provider's settings and a `SandboxSpec`, in any order."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = [*args, *kwargs.values()]
        spec = next((value for value in given if isinstance(value, SandboxSpec)), None)
        self.spec = spec or SandboxSpec()
        rest = [value for value in given if isinstance(value, str | Mapping)]
        self.provider_config = resolve_provider_config(rest[0] if rest else None)
        self._folder: Path | None = None

    @classmethod
    async def create(cls, *args: Any, **kwargs: Any) -> Self:
        """Make one and start it."""
        made = cls(*args, **kwargs)
        await made.start()
        return made

    async def start(self, spec: SandboxSpec | None = None, **_how: Any) -> Self:
        """Make it. Raises SandboxError for a provider that is not here."""
        self.spec = spec or self.spec
        name = provider_name(self.provider_config)
        if name not in HERE:
            raise SandboxError(f"sandbox provider {name!r} is not here; there is: process")
        logger.warning("a sandbox of provider `process` does not isolate what runs in it")
        self._folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="sandbox-"))
        return self

    async def exec(
        self,
        command: str | list[str],
        *_more: Any,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        **how: Any,
    ) -> SandboxExecResult:
        """Run a shell command, or a program with its arguments; killed with all it started."""
        limit_s = timeout_s or how.get("timeout") or how.get("timeout_sec") or DEFAULT_TIMEOUT_S
        argv = ["bash", "-c", command] if isinstance(command, str) else list(command)
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._path(cwd or self.spec.workdir or "."),
            env={"PATH": os.environ.get("PATH", ""), **self.spec.env, **(env or {})},
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(limit_s):
                out, err = await process.communicate()
        except TimeoutError:
            return SandboxExecResult(exit_code=124, timed_out=True, stderr=f"after {limit_s:g} s")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return SandboxExecResult(
            stdout=out.decode("utf-8", "replace"),
            stderr=err.decode("utf-8", "replace"),
            exit_code=process.returncode or 0,
        )

    async def upload(self, source: Any, target: str, **_how: Any) -> None:
        """Put a file, or its bytes, into it."""
        place = self._path(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, bytes):
            await asyncio.to_thread(place.write_bytes, source)
        else:
            await asyncio.to_thread(shutil.copy, source, place)

    async def download(self, source: str, target: Any = None, **_how: Any) -> bytes:
        """Its file's bytes, also written to `target` where one is given."""
        data = await asyncio.to_thread(self._path(source).read_bytes)
        if target is not None:
            await asyncio.to_thread(Path(target).write_bytes, data)
        return data

    upload_file = upload
    download_file = download

    async def status(self) -> SandboxStatus:
        """Where it is in its life."""
        return SandboxStatus.CLOSED if self._folder is None else SandboxStatus.RUNNING

    async def close(self) -> None:
        """Remove it; again is the same as once."""
        folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    stop = close

    async def __aenter__(self) -> Self:
        if self._folder is None:
            await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del kind, error, trace
        await self.close()

    def _path(self, path: str) -> Path:
        if self._folder is None:
            raise SandboxError("the sandbox is not started")
        # Absolute paths are of the sandbox, not of this machine.
        return self._folder / path.lstrip("/")


class Sandbox:
    """The same without awaiting, for threads without an event loop."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._inner = AsyncSandbox(*args, **kwargs)
        self._runner = asyncio.Runner()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._runner.run(method(*args, **kwargs))

        return call

    def __enter__(self) -> Self:
        self._runner.run(self._inner.start())
        return self

    def __exit__(self, *_why: object) -> None:
        self._runner.run(self._inner.close())
        self._runner.close()

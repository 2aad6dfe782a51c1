"""`AsyncSandbox`: one sandbox of any provider."""

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from palestra.compat.nemo_gym.sandbox.providers.base import (
    SandboxEndpoint,
    SandboxExecResult,
    SandboxHandle,
    SandboxProvider,
    SandboxSpec,
    SandboxStatus,
)
from palestra.compat.nemo_gym.sandbox.providers.registry import create_provider
from palestra.schema import JsonDict

DEFAULT_TIMEOUT_S: Final = 180
"""The time limit of a command that names none, in seconds."""


class AsyncSandbox:
    """One sandbox. `provider`: {name: keyword arguments}, or a provider object."""

    def __init__(
        self, provider: Mapping[str, Any] | SandboxProvider, spec: SandboxSpec | None = None
    ) -> None:
        self.provider = _provider(provider)
        self.spec = spec
        self._handle: SandboxHandle | None = None
        self._is_starting = False
        self._is_stopped = False

    @property
    def handle(self) -> SandboxHandle:
        """The provider's reference to the sandbox. Raises RuntimeError: the sandbox does not run."""
        if self._handle is None:
            state = "was stopped" if self._is_stopped else "is not started: call start() first"
            raise RuntimeError(f"the sandbox {state}")
        return self._handle

    @property
    def sandbox_id(self) -> str:
        """The provider's name of the sandbox. Raises RuntimeError: the sandbox does not run."""
        return self.handle.sandbox_id

    async def start(self, spec: SandboxSpec | None = None) -> Self:
        """Create the sandbox and write the spec's files.

        After an error, nothing remains and the sandbox may be started again. Raises ValueError:
        there is no spec. Raises RuntimeError: the sandbox was started or stopped before. Raises
        SandboxCreateError: the provider could not create it.
        """
        if self._is_stopped:
            raise RuntimeError("the sandbox was stopped: create a new one")
        if self._handle is not None or self._is_starting:
            raise RuntimeError("the sandbox is started already")
        spec = self.spec if spec is None else spec
        if spec is None:
            raise ValueError("a sandbox needs a spec: pass a SandboxSpec")
        self._is_starting = True
        try:
            handle = await self.provider.create(spec)
            try:
                await self._write_files(handle, spec)
            except BaseException:
                await asyncio.shield(self.provider.close(handle))
                raise
            self.spec, self._handle = spec, handle
        finally:
            self._is_starting = False
        return self

    async def _write_files(self, handle: SandboxHandle, spec: SandboxSpec) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for target, content in spec.files.items():
                source = content
                if not isinstance(source, Path):
                    data = source.encode() if isinstance(source, str) else source
                    source = Path(folder, "content")
                    await asyncio.to_thread(source.write_bytes, data)
                await self.provider.upload_file(handle, source, target)

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        """Run a shell command. `cwd`: its folder; None: the spec's working directory.

        A command that fails or exceeds `timeout_s` is a result. Raises RuntimeError: the sandbox
        does not run.
        """
        handle = self.handle
        workdir = self.spec.workdir if self.spec is not None else None
        return await self.provider.exec(
            handle,
            command,
            cwd=workdir if cwd is None else cwd,
            env=env,
            timeout_s=timeout_s,
            user=user,
        )

    async def upload(self, source_path: str | Path, target_path: str) -> None:
        """Copy a file of this machine into the sandbox."""
        await self.provider.upload_file(self.handle, Path(source_path), str(target_path))

    async def download(self, source_path: str, target_path: str | Path) -> None:
        """Copy a file of the sandbox to this machine."""
        await self.provider.download_file(self.handle, str(source_path), Path(target_path))

    async def status(self) -> SandboxStatus:
        """Return the state of the sandbox."""
        if self._handle is not None:
            return await self.provider.status(self._handle)
        if self._is_starting:
            return SandboxStatus.STARTING
        return SandboxStatus.STOPPED if self._is_stopped else SandboxStatus.UNKNOWN

    async def endpoint(self, port: int) -> SandboxEndpoint:
        """Return the route to a port of the sandbox. Raises NotImplementedError: the provider has
        none.
        """
        endpoint: SandboxEndpoint = await self._optional("endpoint")(self.handle, port)
        return endpoint

    async def pty(self, *arguments: Any, **options: Any) -> Any:
        """Open a terminal in the sandbox. Raises NotImplementedError: the provider has none."""
        return await self._optional("pty")(self.handle, *arguments, **options)

    def serialize(self) -> JsonDict:
        """Return a descriptor for `connect`, as JSON values. It contains the spec's environment
        variables, which may be secret.
        """
        spec = self.spec or SandboxSpec()
        return {
            "provider": self.handle.provider_name,
            "sandbox_id": self.handle.sandbox_id,
            "workdir": spec.workdir,
            "env": dict(spec.env),
            "ports": list(spec.ports),
            "provider_options": dict(spec.provider_options),
        }

    @classmethod
    async def connect(
        cls, descriptor: Mapping[str, Any], *, provider: Mapping[str, Any] | SandboxProvider
    ) -> Self:
        """Return a sandbox that runs already. `descriptor`: the result of its `serialize`.

        Raises ValueError: the descriptor is of another provider. Raises NotImplementedError: the
        provider cannot connect. Raises SandboxError: the sandbox does not run.
        """
        fields = {"workdir", "env", "ports", "provider_options"} & descriptor.keys()
        spec = SandboxSpec(**{field: descriptor[field] for field in fields})
        sandbox = cls(provider, spec)
        name = _name_of(sandbox.provider)
        if descriptor["provider"] != name:
            raise ValueError(
                f"the sandbox {descriptor['sandbox_id']} is of the provider "
                f"{descriptor['provider']!r}, not {name!r}"
            )
        connect = sandbox._optional("connect")
        sandbox._handle = await connect(descriptor["sandbox_id"], spec)
        return sandbox

    async def stop(self) -> None:
        """Remove the sandbox and close its provider. Repeated calls have no further effect."""
        if self._is_stopped:
            return
        self._is_stopped = True
        handle, self._handle = self._handle, None
        try:
            if handle is not None:
                await self.provider.close(handle)
        finally:
            await self.provider.aclose()

    async def __aenter__(self) -> Self:
        if self._handle is None:
            try:
                await self.start()
            except BaseException:
                await self.stop()
                raise
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.stop()

    def _optional(self, method: str) -> Callable[..., Any]:
        """Return a method that not every provider has. Raises NotImplementedError."""
        function: Callable[..., Any] | None = getattr(self.provider, method, None)
        if function is None:
            raise NotImplementedError(
                f"sandbox provider {_name_of(self.provider)!r} has no method `{method}`"
            )
        return function


def _provider(provider: Any) -> SandboxProvider:
    """Return a provider object, created from a config if that is given."""
    if isinstance(provider, Mapping):
        return create_provider(provider)
    if isinstance(provider, str | type(None)) or not hasattr(provider, "create"):
        raise TypeError(
            "a sandbox needs a provider: a mapping {name: arguments}, as resolve_provider_config "
            f"returns, or a provider object, not {provider!r}"
        )
    provider_object: SandboxProvider = provider
    return provider_object


def _name_of(provider: SandboxProvider) -> str:
    return getattr(provider, "name", type(provider).__name__)

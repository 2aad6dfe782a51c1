"""`nemo_gym.sandbox.providers.base`: what a provider of sandboxes takes and returns.

A provider creates sandboxes and runs commands in them. It is any class with the methods of
`SandboxProvider`; `endpoint`, `connect` and `pty` are optional.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol, Self
from urllib.parse import urlsplit

from omegaconf import DictConfig, ListConfig, OmegaConf

RUNTIME_FAILED: Final = 125
"""The return code of a command that the sandbox could not run, or stopped at its time limit."""

TIMED_OUT: Final = "timeout"
SANDBOX_FAILED: Final = "sandbox"


class SandboxError(RuntimeError):
    """A sandbox could not be used, or a file could not be copied."""


class SandboxCreateError(SandboxError):
    """A sandbox could not be created."""


class SandboxCreateVerificationError(SandboxCreateError):
    """A sandbox was created, but its readiness probe failed. The sandbox has been removed."""


class ProviderUnavailable(SandboxError):
    """The provider cannot be used here: its program or its service is missing."""


class SandboxStatus(StrEnum):
    """The state of a sandbox."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    ERROR = "error"
    """The sandbox failed and cannot be used any more."""
    UNKNOWN = "unknown"
    """The provider cannot find out the state."""


@dataclass(frozen=True)
class SandboxResources:
    """The resources of a sandbox. None: the provider's default."""

    cpu: float | None = None
    """Number of cores."""

    memory_mib: int | None = None
    disk_gib: int | None = None
    gpu: int | None = None
    """Number of GPUs."""

    @classmethod
    def from_mapping(cls, resources: Mapping[str, Any] | None) -> Self:
        """Return the resources with the fields of a mapping.

        Raises ValueError: a key is no field. Raises TypeError: `resources` is not a mapping.
        """
        if resources is None:
            return cls()
        if not isinstance(resources, Mapping):
            raise TypeError(f"resources must be a mapping, not {type(resources).__name__}")
        names = [resource.name for resource in fields(cls)]
        unknown_names = sorted(str(key) for key in resources if key not in names)
        if unknown_names:
            raise ValueError(
                f"unknown sandbox resources: {', '.join(unknown_names)}; known: {', '.join(names)}"
            )
        return cls(**{str(key): value for key, value in resources.items()})


@dataclass(frozen=True)
class SandboxSpec:
    """What a sandbox is created from."""

    image: str | None = None
    ttl_s: float | None = None
    """The seconds after which the provider removes the sandbox. None: it stays until it is closed.
    """

    ready_timeout_s: float | None = None
    """Longest time from creation to the first successful command, in seconds. None: the provider's
    default."""

    workdir: str | None = None
    """The folder in which commands run, unless they name another."""

    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str | bytes | Path] = field(default_factory=dict)
    """Path in the sandbox -> content as text or bytes, or the path of a file of this machine."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Labels of the sandbox."""

    resources: SandboxResources = field(default_factory=SandboxResources)
    """The resources, or a mapping of their names to values."""

    entrypoint: str | Sequence[str] | None = None
    """A service that the sandbox starts: a shell command, or a program with its arguments."""

    provider_options: Mapping[str, Any] = field(default_factory=dict)
    """Settings for this sandbox in the provider's own words."""

    ports: tuple[int, ...] = ()
    """Ports on which programs in the sandbox listen and that can be reached from outside."""

    def __post_init__(self) -> None:
        resources: Any = self.resources
        if not isinstance(resources, SandboxResources):
            resources = SandboxResources.from_mapping(plain(resources))
        object.__setattr__(self, "resources", resources)
        for name in ("env", "files", "metadata", "provider_options"):
            object.__setattr__(self, name, dict(plain(getattr(self, name)) or {}))
        object.__setattr__(self, "entrypoint", plain(self.entrypoint))
        object.__setattr__(self, "ports", _ports(plain(self.ports)))


def _ports(ports: Any) -> tuple[int, ...]:
    """Return the ports as a tuple. Raises ValueError: one is no port, or occurs twice."""
    values = tuple(ports or ())
    for port in values:
        if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65_535:
            raise ValueError(f"{port!r} is not a port: ports are integers from 1 to 65535")
    if len(set(values)) != len(values):
        raise ValueError(f"the ports {list(values)} contain a port twice")
    return values


@dataclass(frozen=True)
class SandboxExecResult:
    """How a command ended."""

    stdout: str | None
    stderr: str | None
    return_code: int
    """The command's exit code; 128 plus the signal's number when a signal ended it."""

    error_type: str | None = None
    """None: the command ended by itself. With return code 125, `timeout`: it was stopped at its
    time limit; `sandbox`: the sandbox failed."""


ExecResult = SandboxExecResult


@dataclass
class SandboxHandle:
    """A created sandbox, as its provider refers to it. `raw` is for the provider only."""

    sandbox_id: str
    provider_name: str
    raw: Any


@dataclass(frozen=True)
class SandboxEndpoint:
    """The route to a service in a sandbox: its URL, and the headers that each request needs.

    Raises ValueError: the URL lacks a scheme or a host. Raises TypeError: a value has another type.
    """

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.endpoint, str):
            raise TypeError(f"endpoint must be a string, not {type(self.endpoint).__name__}")
        if not isinstance(self.headers, Mapping):
            raise TypeError(f"headers must be a mapping, not {type(self.headers).__name__}")
        endpoint = self.endpoint.strip()
        parts = urlsplit(endpoint)
        if not parts.scheme or not parts.hostname:
            raise ValueError(f"endpoint {endpoint!r} must have a scheme and a host")
        object.__setattr__(self, "endpoint", endpoint)
        headers = {str(key): str(value) for key, value in self.headers.items()}
        object.__setattr__(self, "headers", headers)


class SandboxProvider(Protocol):
    """What creates sandboxes and runs commands in them."""

    name: str

    async def create(self, spec: SandboxSpec, /) -> SandboxHandle:
        """Create a sandbox that is ready for commands. Raises SandboxCreateError."""
        ...

    async def exec(
        self,
        handle: SandboxHandle,
        command: str | Sequence[str],
        /,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        """Run a shell command, or a program with its arguments, to its end."""
        ...

    async def upload_file(
        self, handle: SandboxHandle, source_path: Path, target_path: str, /
    ) -> None:
        """Copy a file of this machine into the sandbox."""
        ...

    async def download_file(
        self, handle: SandboxHandle, source_path: str, target_path: Path, /
    ) -> None:
        """Copy a file of the sandbox to this machine."""
        ...

    async def status(self, handle: SandboxHandle, /) -> SandboxStatus:
        """Return the state of the sandbox."""
        ...

    async def close(self, handle: SandboxHandle, /) -> None:
        """Remove the sandbox. Closing a removed sandbox has no effect."""
        ...

    async def aclose(self) -> None:
        """Release what the provider itself holds. Its sandboxes stay."""
        ...


def plain(value: Any) -> Any:
    """Return a value of a configuration with plain dictionaries and lists, references resolved."""
    if isinstance(value, DictConfig | ListConfig):
        return OmegaConf.to_container(value, resolve=True)
    return value


def inside(path: str, spec: SandboxSpec) -> str:
    """Return a path of the sandbox, with a relative path put below the working directory."""
    return path if path.startswith("/") else f"{(spec.workdir or '').rstrip('/')}/{path}"

"""What a sandbox of the field is made of, and how a command in it ended."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


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

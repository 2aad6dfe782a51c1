"""Where programs run, as a user sets it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

BackendName = Literal["auto", "bubblewrap", "process", "http"]

HOST_VARIABLE = "NEMO_SKILLS_SANDBOX_HOST"
PORT_VARIABLE = "NEMO_SKILLS_SANDBOX_PORT"
TOKEN_VARIABLE = "PALESTRA_SANDBOX_TOKEN"  # noqa: S105 - a name
DEFAULT_PORT = 6000


class SandboxSettings(BaseModel):
    """Settings of the sandbox; part of the settings of an environment that uses one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: BackendName = "auto"
    """`auto`: the service when `host` is given, or the variable NEMO_SKILLS_SANDBOX_HOST; else
    bubblewrap where it works; else `process` where `allow_process` permits it."""

    allow_process: bool = False
    """Whether `auto` may run programs without isolation when it must, here or on a service that
    does not isolate. Naming `process`, or `http`, is enough."""

    host: str = ""
    """Of a `palestra sandbox serve`; else NEMO_SKILLS_SANDBOX_HOST."""

    port: int = Field(default=0, ge=0, le=65_535)
    """Else NEMO_SKILLS_SANDBOX_PORT, else 6000."""

    token: str = ""
    """Of that service; else PALESTRA_SANDBOX_TOKEN."""

    at_once: int = Field(default=0, ge=0)
    """Programs that run at the same time; the others wait. 0: one per core."""

    python: str = ""
    """The interpreter of Python programs; by default the one that runs us."""

    read_only: tuple[str, ...] = ()
    """More paths that isolated programs may read."""

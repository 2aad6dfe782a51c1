"""What a program may use, the settings that say so, and how its run ended."""

from enum import StrEnum
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


MIB = 1 << 20


class Limits(BaseModel):
    """Limits of one program, of its whole process tree together.

    `cpu_s` is the one that tells slow programs from fast ones: it does not depend on what else
    the machine does. `wall_s` is for programs that wait for something that never comes, and so it
    is generous. Time spent waiting for a free place counts as neither.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu_s: float = Field(default=10.0, gt=0, le=86_400)
    """CPU seconds of all its processes and threads."""

    wall_s: float = Field(default=100.0, gt=0, le=86_400)
    """Seconds from its start to its end, without those in which it was ready to run and a busy
    machine had no core for it, up to ten times as many."""

    memory_mib: int = Field(default=1024, ge=16, le=1 << 20)
    """Memory of all its processes; pages that they share count once."""

    processes: int = Field(default=32, ge=1, le=4096)
    """Processes and threads at the same time."""

    output_kib: int = Field(default=1024, ge=1, le=1 << 19)
    """Of standard output, and the same again of standard error. More stops the program."""

    file_mib: int = Field(default=64, ge=1, le=1 << 16)
    """The largest file that it may write."""

    tmp_mib: int = Field(default=128, ge=1, le=1 << 16)
    """All its files, which are in memory. Only isolating back ends hold it."""


class Stop(StrEnum):
    """Why a program was stopped before it ended by itself."""

    CPU = "cpu"
    """It used its CPU time."""

    WALL = "wall"
    """It took longer than it may, however little it did."""

    MEMORY = "memory"
    """Its processes held more memory than they may."""

    OUTPUT = "output"
    """It wrote more than it may to standard output or standard error."""

    PROCESSES = "processes"
    """It had more processes than it may. Isolated, starting one more fails instead."""

    FILES = "files"
    """It made more files than it may."""

    US = "us"
    """It was not wanted any longer."""


class SandboxResult(BaseModel):
    """How one program ended, and what it wrote."""

    model_config = ConfigDict(frozen=True)

    stdout: str
    stderr: str
    """Text, with replacement characters where the program wrote none; cut at `output_kib`."""

    exit_code: int
    """As a shell tells it: 128 and the signal's number when a signal ended it."""

    stopped_by: Stop | None = None
    cpu_s: float = 0.0
    wall_s: float = 0.0

    peak_memory_bytes: int = 0
    """The most that was seen; what a program held for a few hundredths of a second may not be."""

    machine_full: bool = False
    """Whether the kernel killed some process of the machine for want of memory meanwhile. It may
    have been a process of this program; when it was the program itself, there is no result."""

    @property
    def ok(self) -> bool:
        """It ended by itself, and without an error."""
        return self.stopped_by is None and self.exit_code == 0

    @property
    def timed_out(self) -> bool:
        """It was stopped at one of its two time limits."""
        return self.stopped_by in {Stop.CPU, Stop.WALL}

    @property
    def out_of_memory(self) -> bool:
        """It was stopped at its memory limit, or was refused memory and ended for that."""
        refused = self.stderr.rstrip().rpartition("\n")[2].startswith("MemoryError")
        return self.stopped_by is Stop.MEMORY or (self.exit_code != 0 and refused)

    @property
    def output_truncated(self) -> bool:
        """It wrote more than is here."""
        return self.stopped_by is Stop.OUTPUT

"""The limits of a program, the sandbox settings, and the result of a run."""

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from palestra.config import did_you_mean

BackendName = Literal["auto", "bubblewrap", "process", "http"]

HOST_VARIABLE = "NEMO_SKILLS_SANDBOX_HOST"
PORT_VARIABLE = "NEMO_SKILLS_SANDBOX_PORT"
TOKEN_VARIABLE = "PALESTRA_SANDBOX_TOKEN"  # noqa: S105 - a name
DEFAULT_PORT = 6000


class SandboxSettings(BaseModel):
    """The settings of the sandbox. They are part of the settings of an environment that uses one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: BackendName = "auto"
    """Where programs run. `auto`: the service at `host` (or at NEMO_SKILLS_SANDBOX_HOST), if one is
    set; else bubblewrap where it works; else `process` if `allow_process` is true."""

    allow_process: bool = False
    """Whether `auto` may run programs without isolation, on this machine or on a service that does
    not isolate, when nothing else works. Setting `backend` to `process` or `http` needs no such
    permission."""

    host: str = ""
    """The host of a `palestra sandbox serve`. Default: NEMO_SKILLS_SANDBOX_HOST."""

    port: int = Field(default=0, ge=0, le=65_535)
    """The port of the sandbox service. 0: NEMO_SKILLS_SANDBOX_PORT, else 6000."""

    token: str = ""
    """The token of the sandbox service. Default: PALESTRA_SANDBOX_TOKEN."""

    at_once: int = Field(default=0, ge=0)
    """How many programs run at the same time. Others wait. 0: one per core."""

    python: str = ""
    """The interpreter of Python programs. Default: the interpreter that runs Palestra."""

    read_only: tuple[str, ...] = ()
    """Additional paths that isolated programs may read."""


MIB = 1 << 20
_LIMIT_NAMES: Final = {
    "deadline": "wall_s",
    "max_memory": "memory_mib",
    "mem": "memory_mib",
    "memory_gb": "memory_mib",
    "ram": "memory_mib",
    "seconds": "wall_s",
    "threads": "processes",
    "time": "wall_s",
    "time_limit": "wall_s",
    "timeout": "wall_s",
    "timeout_seconds": "wall_s",
}
"""Our names of limits, by those that authors know from elsewhere."""


class Limits(BaseModel):
    """The limits of one program, for its whole process tree together.

    `cpu_s` separates slow programs from fast ones, because it does not depend on what else the
    machine does. `wall_s` is for programs that wait forever, so it is generous. The time spent
    waiting for a free slot counts for neither.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, fields: Any) -> Any:
        unknown = sorted(fields.keys() - cls.model_fields) if isinstance(fields, dict) else []
        if unknown:
            near = _LIMIT_NAMES.get(unknown[0].removesuffix("_s").lower())
            suggestion = (
                f"; did you mean {near!r}?" if near else did_you_mean(unknown[0], cls.model_fields)
            )
            raise ValueError(
                f"there is no limit {unknown[0]!r}{suggestion}; the limits: "
                f"{', '.join(cls.model_fields)}"
            )
        return fields

    cpu_s: float = Field(default=10.0, gt=0, le=86_400)
    """CPU seconds of all processes and threads of the program."""

    wall_s: float = Field(default=100.0, gt=0, le=86_400)
    """Seconds from the program's start to its end. Time in which the program was ready to run but a
    busy machine had no core for it is not counted, up to ten times this limit."""

    memory_mib: int = Field(default=1024, ge=16, le=1 << 20)
    """Memory of all the program's processes, in MiB. A page that they share counts once."""

    processes: int = Field(default=32, ge=1, le=4096)
    """The maximum number of processes and threads at the same time."""

    output_kib: int = Field(default=1024, ge=1, le=1 << 19)
    """The maximum number of KiB of standard output, and of standard error. A program that writes
    more is stopped."""

    file_mib: int = Field(default=64, ge=1, le=1 << 16)
    """The size in MiB of the largest file that the program may write."""

    tmp_mib: int = Field(default=128, ge=1, le=1 << 16)
    """MiB for all the program's files, which are in memory. Only isolating backends enforce this
    limit."""


class Stop(StrEnum):
    """Why a program was stopped before it ended by itself."""

    CPU = "cpu"
    """The program used up its CPU time."""

    WALL = "wall"
    """The program ran longer than `wall_s`, even if it used little CPU time."""

    MEMORY = "memory"
    """The program's processes used more memory than `memory_mib`."""

    OUTPUT = "output"
    """The program wrote more than `output_kib` to standard output or standard error."""

    PROCESSES = "processes"
    """The program had too many processes. With isolation, starting one more fails instead, and the
    program is not stopped."""

    FILES = "files"
    """The program created too many files."""

    US = "us"
    """The caller stopped the program because it no longer needed it."""


class SandboxResult(BaseModel):
    """How one program ended, and its output."""

    model_config = ConfigDict(frozen=True)

    stdout: str
    stderr: str
    """Standard error as text, cut at `output_kib`. Bytes that are not UTF-8 are replaced."""

    exit_code: int
    """The exit code as in a shell: 128 plus the signal's number when a signal ended the program."""

    stopped_by: Stop | None = None
    cpu_s: float = 0.0
    wall_s: float = 0.0

    peak_memory_bytes: int = 0
    """The most memory that was measured. A peak of a few hundredths of a second may be missed."""

    machine_full: bool = False
    """Whether the kernel killed a process of the machine for lack of memory during the run. It may
    have been a process that this program started. If it was the program itself, there is no result.
    """

    @property
    def ok(self) -> bool:
        """Whether the program ended by itself with exit code 0."""
        return self.stopped_by is None and self.exit_code == 0

    @property
    def timed_out(self) -> bool:
        """Whether the program was stopped at one of its two time limits."""
        return self.stopped_by in {Stop.CPU, Stop.WALL}

    @property
    def out_of_memory(self) -> bool:
        """Whether the program was stopped at its memory limit, or ended with a MemoryError."""
        refused = self.stderr.rstrip().rpartition("\n")[2].startswith("MemoryError")
        return self.stopped_by is Stop.MEMORY or (self.exit_code != 0 and refused)

    @property
    def output_truncated(self) -> bool:
        """Whether the program wrote more output than this result contains."""
        return self.stopped_by is Stop.OUTPUT

    if not TYPE_CHECKING:  # a type checker would let every name pass

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError with the attribute that is most likely meant."""
            if name.startswith("_"):
                return super().__getattr__(name)
            properties = (
                member
                for member, value in vars(SandboxResult).items()
                if isinstance(value, property)
            )
            attributes = (*SandboxResult.model_fields, *properties)
            near = _RESULT_NAMES.get(name)
            suggestion = f"; did you mean {near!r}?" if near else did_you_mean(name, attributes)
            raise AttributeError(
                f"a SandboxResult has no attribute {name!r}, but {', '.join(attributes)}{suggestion}",
                name=name,
                obj=self,
            )


_RESULT_NAMES: Final = {
    "code": "exit_code",
    "err": "stderr",
    "error": "stderr",
    "errors": "stderr",
    "out": "stdout",
    "output": "stdout",
    "passed": "ok",
    "result": "stdout",
    "returncode": "exit_code",
    "status": "exit_code",
    "success": "ok",
    "text": "stdout",
    "timeout": "timed_out",
}
"""Our names of a result's attributes, by those that authors know from elsewhere."""

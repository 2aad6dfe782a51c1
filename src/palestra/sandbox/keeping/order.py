"""What a keeper is told: which command to run, and within which limits."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one program, its whole process tree included."""

    cpu_s: float
    wall_s: float
    memory_bytes: int
    processes: int
    output_bytes: int
    file_bytes: int
    tmp_files: int


@dataclass(frozen=True, slots=True)
class RunOrder:
    """One run.

    `argv` is the command as it is to be executed, with the isolating command before it when
    `isolated`. Descriptors at which that command expects things are the constants below.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    bounds: Bounds
    isolated: bool
    files: tuple[str, ...] = ()
    """Names of the program's files; their contents follow the order, one frame each."""

    def encoded(self) -> bytes:
        """As a frame."""
        return json.dumps(asdict(self)).encode()


SECCOMP_FD = 10
STATUS_FD = 11
BLOCK_FD = 12
FILES_FD = 20
"""Descriptor of the first file; the others follow."""


def decoded(frame: bytes) -> RunOrder:
    """The order in a frame."""
    fields = json.loads(frame)
    bounds = Bounds(**fields.pop("bounds"))
    argv, files = tuple(fields.pop("argv")), tuple(fields.pop("files"))
    return RunOrder(argv=argv, files=files, bounds=bounds, **fields)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended. `failure`: why there is no verdict on the program; else empty."""

    exit_code: int = 0
    stopped_by: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_memory_bytes: int = 0
    machine_full: bool = False
    """Whether the kernel killed some process of the machine for want of memory meanwhile."""
    failure: str = ""
    not_executable: bool = False
    """Whether that is so because of the command: another one could run."""

    def encoded(self) -> bytes:
        """As a frame."""
        return json.dumps(asdict(self)).encode()


def outcome_in(frame: bytes) -> RunOutcome:
    """The outcome in a frame."""
    return RunOutcome(**json.loads(frame))

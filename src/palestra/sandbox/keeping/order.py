"""The order that a keeper receives: which command to run, and within which limits."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one program, including its whole process tree."""

    cpu_s: float
    wall_s: float
    memory_bytes: int
    processes: int
    output_bytes: int
    file_bytes: int
    tmp_files: int


@dataclass(frozen=True, slots=True)
class RunOrder:
    """The order for one run.

    `argv`: the command to execute; if `isolated`, it begins with the isolating command. The
    constants below are the descriptors that the isolating command expects.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    bounds: Bounds
    isolated: bool
    files: tuple[str, ...] = ()
    """Names of the program's files. Their contents follow the order, one frame per file."""

    def encoded(self) -> bytes:
        """Return the order as the content of a frame."""
        return json.dumps(asdict(self)).encode()


SECCOMP_FD = 10
STATUS_FD = 11
BLOCK_FD = 12
FILES_FD = 20
"""The descriptor of the first file. The other files follow it."""


def decoded(frame: bytes) -> RunOrder:
    """Return the order that `frame` contains."""
    fields = json.loads(frame)
    bounds = Bounds(**fields.pop("bounds"))
    argv, files = tuple(fields.pop("argv")), tuple(fields.pop("files"))
    return RunOrder(argv=argv, files=files, bounds=bounds, **fields)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended. `failure`: why the run says nothing about the program; empty when it does."""

    exit_code: int = 0
    stopped_by: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_memory_bytes: int = 0
    machine_full: bool = False
    """Whether the kernel killed a process of the machine for lack of memory during the run."""
    failure: str = ""
    not_executable: bool = False
    """Whether `failure` is caused by the command: another command could run."""

    def encoded(self) -> bytes:
        """Return the outcome as the content of a frame."""
        return json.dumps(asdict(self)).encode()


def outcome_in(frame: bytes) -> RunOutcome:
    """Return the outcome that `frame` contains."""
    return RunOutcome(**json.loads(frame))

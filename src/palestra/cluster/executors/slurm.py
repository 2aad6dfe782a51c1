"""The executor for Slurm; it runs Slurm's own commands.

The state of waiting and running jobs comes from `squeue`. The state of ended jobs comes from
`sacct`; without accounting, from `scontrol show job`, which keeps a job for MinJobAge. Tests
replace `Commands`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from palestra.cluster.executors.executor import ClusterUnreachable, JobState, Phase, log_files
from palestra.cluster.layout import RunFiles
from palestra.cluster.plan import PlannedJob, Run
from palestra.cluster.render import dependency
from palestra.errors import ConfigError, RunFailed
from palestra.system import run


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """The exit code and output of a command."""

    code: int
    out: str = ""
    err: str = ""


class Commands(Protocol):
    """A function that runs a command until it ends."""

    def __call__(self, argv: Sequence[str], timeout_s: float, /) -> CommandAnswer:
        """Run a command. Raises ClusterUnreachable: it does not end in time. Raises ConfigError:
        not found.
        """


def run_command(argv: Sequence[str], timeout_s: float, /) -> CommandAnswer:
    """Run a command as a real process, with the environment of this process."""
    try:
        process = run(argv, timeout_s=timeout_s)
    except FileNotFoundError as error:
        raise ConfigError(
            f"the command {argv[0]} does not exist on this machine",
            hint="run this on a machine with the cluster's commands, or choose executor none",
        ) from error
    except TimeoutError as error:
        raise ClusterUnreachable(
            f"the command {argv[0]} gave no answer within {timeout_s:g} s",
            hint="the state of the jobs is unknown; try again, or raise command_timeout_s",
        ) from error
    except OSError as error:
        raise ClusterUnreachable(f"{argv[0]} cannot be run: {error.strerror}") from error
    return CommandAnswer(
        process.code,
        *(text.decode("utf-8", "replace") for text in (process.output, process.errors)),
    )


_STATES: Final = {
    "PENDING": Phase.QUEUED,
    "REQUEUED": Phase.QUEUED,
    "REQUEUE_HOLD": Phase.QUEUED,
    "SPECIAL_EXIT": Phase.QUEUED,
    "CONFIGURING": Phase.RUNNING,
    "RUNNING": Phase.RUNNING,
    "COMPLETING": Phase.RUNNING,
    "RESIZING": Phase.RUNNING,
    "SIGNALING": Phase.RUNNING,
    "STAGE_OUT": Phase.RUNNING,
    "STOPPED": Phase.RUNNING,
    "SUSPENDED": Phase.RUNNING,
    "COMPLETED": Phase.DONE,
    "CANCELLED": Phase.CANCELLED,
    "REVOKED": Phase.CANCELLED,
}
"""The phase of each Slurm state. States that are not listed (FAILED, TIMEOUT, NODE_FAIL,
OUT_OF_MEMORY, …) count as failed."""
_INVALID: Final = "Invalid job id"
_NO_ACCOUNTING: Final = "accounting storage is disabled"
_NUMBERED: Final = re.compile(r"\d+")
_GPU_TIME: Final = re.compile(r"(?P<elapsed>\d+)\|(?:.*,)?gres/gpu=(?P<gpus>\d+)(?:,.*)?")
"""One line of `sacct`: seconds, and what was allocated, such as `billing=8,cpu=8,gres/gpu=8,node=1`."""
_SPAN: Final = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


class SlurmExecutor:
    """Runs jobs with Slurm. `commands` runs each Slurm command, at most `timeout_s` long."""

    def __init__(self, *, timeout_s: float = 60.0, commands: Commands = run_command) -> None:
        self._timeout_s = timeout_s
        self._commands = commands

    def max_array_size(self) -> int | None:
        """Return the site's MaxArraySize. None when the controller's configuration does not show
        it.
        """
        answer = self._answer_of("scontrol", "show", "config")
        match = re.search(r"^MaxArraySize\s*=\s*(\d+)", answer.out, re.MULTILINE)
        return int(match[1]) if match else None

    def submit(self, run: Run, submitted: Callable[[PlannedJob, str], None], /) -> None:
        files = RunFiles(Path(run.output_dir)).submission(run.submission)
        Path(run.log_dir).mkdir(parents=True, exist_ok=True)
        ids: dict[str, str] = {}
        for job in run.jobs:
            depends = dependency(job.after, ids)
            words = [f"--dependency={depends}"] if depends else []
            answer = self._answer_of("sbatch", "--parsable", *words, str(files.script(job.name)))
            # With several clusters: 123;name.
            job_id = answer.out.strip().partition(";")[0]
            if not _NUMBERED.fullmatch(job_id):
                raise RunFailed(f"sbatch returned no job id for {job.name}: {answer.out.strip()!r}")
            ids[job.name] = job_id
            submitted(job, job_id)

    def status(self, ids: Iterable[str], /) -> Mapping[str, JobState]:
        unique_ids = tuple(dict.fromkeys(ids))
        if not unique_ids:
            return {}
        roots = sorted({unit.partition("_")[0] for unit in unique_ids})
        states = self._ended_states(roots)
        # What the queue says is newer than what accounting has heard.
        states.update(self._queued(roots))
        arrays = {unit.partition("_")[0] for unit in states if "_" in unit}
        missing = [unit for unit in unique_ids if unit not in states and unit not in arrays]
        return {**states, **dict.fromkeys(missing, JobState(Phase.UNKNOWN))}

    def gpu_hours(self, ids: Iterable[str], /) -> float | None:
        """Return the GPU hours of jobs from Slurm's accounting; None without accounting or GPUs."""
        roots = sorted({unit.partition("_")[0] for unit in ids})
        if not roots:
            return None
        columns = ("-o", "ElapsedRaw,AllocTRES")
        answer = self._commands(
            # `-D`: a job that was requeued used its GPUs each time.
            ["sacct", "-X", "-D", "-n", "-P", *columns, "-j", ",".join(roots)],
            self._timeout_s,
        )
        if answer.code:
            if _NO_ACCOUNTING not in answer.err:
                raise _unreachable("sacct", answer)
            return None
        seconds = [
            int(match["elapsed"]) * int(match["gpus"])
            for match in map(_GPU_TIME.fullmatch, answer.out.splitlines())
            if match is not None
        ]
        return sum(seconds) / 3600 if seconds else None

    def cancel(self, ids: Iterable[str], /) -> None:
        if listed := list(ids):
            self._answer_of("scancel", *listed, fine=_INVALID)

    def logs(self, run: Run, unit: str = "", /) -> tuple[Path, ...]:
        return log_files(Path(run.log_dir), unit)

    def _queued(self, roots: Sequence[str]) -> dict[str, JobState]:
        jobs = f"--jobs={','.join(roots)}"
        answer = self._answer_of("squeue", "-h", "-r", "-o", "%i|%T|%r", jobs, fine=_INVALID)
        lines = (line.split("|", 2) for line in answer.out.splitlines() if line.count("|") >= 2)
        return {
            _unit(unit): JobState(state_of(state), reason="" if reason == "None" else reason)
            for unit, state, reason in lines
        }

    def _ended_states(self, roots: Sequence[str]) -> dict[str, JobState]:
        columns = ("-o", "JobID,State,ExitCode")
        answer = self._commands(
            ["sacct", "-X", "-n", "-P", *columns, "-j", ",".join(roots)], self._timeout_s
        )
        if answer.code and _NO_ACCOUNTING not in answer.err:
            raise _unreachable("sacct", answer)
        if answer.code:
            return self._remembered(roots)
        lines = (line.split("|") for line in answer.out.splitlines() if line.count("|") == 2)
        return {
            _unit(unit): _ended_as(state, exit_code)
            for unit, state, exit_code in lines
            if "[" not in unit  # tasks that wait, of which the queue knows
        }

    def _remembered(self, roots: Sequence[str]) -> dict[str, JobState]:
        """Return the states of ended jobs from the memory of Slurm's controller."""
        states: dict[str, JobState] = {}
        for root in roots:
            answer = self._answer_of("scontrol", "-o", "show", "job", root, fine=_INVALID)
            for line in answer.out.splitlines():
                states.update(_states_in(line))
        return states

    def _answer_of(self, *argv: str, fine: str = "") -> CommandAnswer:
        """Run a command and return its answer. Raises RunFailed on failure, unless stderr contains
        `fine`.
        """
        answer = self._commands(argv, self._timeout_s)
        if answer.code and not (fine and fine in answer.err):
            raise _unreachable(argv[0], answer)
        return answer


def _unreachable(command: str, answer: CommandAnswer) -> RunFailed:
    lines = [_plain(command, line) for line in answer.err.strip().splitlines()]
    message = f"{command}: {'; '.join(lines) or f'exit code {answer.code}'}"
    if re.search(r"nable to contact|onnection|timed out|protocol|uthentication", answer.err):
        return ClusterUnreachable(message, hint="the state of the jobs is unknown: try again later")
    return RunFailed(message)


def _plain(command: str, line: str) -> str:
    """Return an error line of a Slurm command without the prefix that names the command."""
    return line.removeprefix(f"{command}: ").removeprefix("error: ")


def state_of(text: str) -> Phase:
    """Return the phase for one of Slurm's states, such as `CANCELLED by 0`."""
    return _STATES.get(text.split(maxsplit=1)[0].rstrip("+") if text.split() else "", Phase.FAILED)


def _ended_as(state: str, exit_code: str, restarts: str = "0") -> JobState:
    phase = state_of(state)
    return JobState(
        phase,
        reason="" if phase is Phase.DONE else state,
        exit_code=exit_code,
        restarts=int(restarts) if restarts.isdecimal() else 0,
    )


def _unit(job_id: str) -> str:
    """Return a unit's id without its offset: for a heterogeneous job (`19+1`), the leader's id."""
    return job_id.partition("+")[0]


def _states_in(line: str) -> Iterator[tuple[str, JobState]]:
    """Yield the units in one line of `scontrol -o show job`. Its last fields may contain any text."""
    fields = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
    if "JobId" not in fields:
        return
    if fields.get("HetJobOffset", "0") != "0":
        return
    state = _ended_as(
        fields.get("JobState", ""), fields.get("ExitCode", ""), fields.get("Restarts", "0")
    )
    array, tasks = fields.get("ArrayJobId"), fields.get("ArrayTaskId")
    if array is None or tasks is None:
        yield fields["JobId"], state
        return
    for task in _tasks(tasks):
        yield f"{array}_{task}", state


def _tasks(spec: str) -> Iterator[int]:
    """Yield the task numbers of an array specification: `3-5,8,10-20:5%2` -> 3, 4, 5, 8, 10, 15,
    20.
    """
    for first, last, step in _SPAN.findall(spec.partition("%")[0]):
        yield from range(int(first), int(last or first) + 1, int(step or 1))

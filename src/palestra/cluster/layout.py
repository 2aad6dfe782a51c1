"""The names of all files in a run's output folder. No other module contains these names.

    OUT/
      rollouts[-rs{seed}][-chunk{k}].jsonl            scored rows of one shard
      …_materialized_inputs.jsonl  …_failures.jsonl   its inputs and its failed attempts
      …_manifest.json  …_done.json  …_lease.json      its provenance; its end; its current writer
      rollouts.jsonl  rollouts_….jsonl                the merged run, named like a single run
      logs/                                           one file per component and restart
      cluster/ledger.jsonl                            what was submitted, and how it ended
      cluster/inputs/SHARD.jsonl                      rows of one shard with their global indices
      cluster/0001/                                   one submission:
        plan.json  supervisor.pyz  submit.sh
        JOB.sh                                        the batch script of each job
        code/                                         the packaged code, when there is any
        run/JOB[.TASK]/                               a job's endpoints, component states and result

Uses only the standard library of Python 3.8 or later: the supervisor uses this module on batch
nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MERGED = "rollouts"
"""The beginning of the names of the merged files."""


@dataclass(frozen=True)
class ShardFiles:
    """The files of one shard. Scored rows, inputs, failures and manifest have the same format as
    those of a single run.
    """

    folder: Path
    name: str

    @property
    def output(self) -> Path:
        """The file of scored rows."""
        return self.folder / f"{self.name}.jsonl"

    @property
    def materialized_inputs(self) -> Path:
        return self.folder / f"{self.name}_materialized_inputs.jsonl"

    @property
    def failures(self) -> Path:
        return self.folder / f"{self.name}_failures.jsonl"

    @property
    def manifest(self) -> Path:
        return self.folder / f"{self.name}_manifest.json"

    @property
    def done(self) -> Path:
        """The done file, with the numbers expected, scored and failed for good.

        It is written once expected = scored + failed.
        """
        return self.folder / f"{self.name}_done.json"

    @property
    def derived(self) -> tuple[Path, ...]:
        """The files that a run derives from its rows: metrics, profile, report."""
        profile_files = ("aggregate_metrics.json", "agent_metrics.json", "reward_profiling.jsonl")
        names = (*profile_files, "report.html")
        return tuple(self.folder / f"{self.name}_{name}" for name in names)

    @property
    def lease(self) -> Path:
        """The lease file. It names the job that may write this shard."""
        return self.folder / f"{self.name}_lease.json"


@dataclass(frozen=True)
class JobFiles:
    """The files of one job (or one task of an array) while it runs."""

    folder: Path

    def endpoint(self, component: str) -> Path:
        """Return the endpoint file of a service: JSON with host, port, nonce and process.

        It is written by rename, so a reader never sees half of it.
        """
        return self.folder / f"endpoint-{component}.json"

    @property
    def state(self) -> Path:
        """The JSON file with the state of each component, and a reason for each that failed."""
        return self.folder / "state.json"

    @property
    def result(self) -> Path:
        """The JSON file in which the supervisor writes how the job ended."""
        return self.folder / "result.json"


@dataclass(frozen=True)
class RunFiles:
    """The files of a run, in its output folder."""

    output_dir: Path

    def shard(self, name: str) -> ShardFiles:
        return ShardFiles(self.output_dir, name)

    @property
    def merged(self) -> ShardFiles:
        """The merged rollouts, inputs, failures and manifest."""
        return ShardFiles(self.output_dir, MERGED)

    @property
    def reward_profiling(self) -> Path:
        return self.output_dir / f"{MERGED}_reward_profiling.jsonl"

    @property
    def aggregate_metrics(self) -> Path:
        return self.output_dir / f"{MERGED}_aggregate_metrics.json"

    @property
    def completeness(self) -> Path:
        """The file with requested and ended rollouts of each task. Exists only while a merge is
        partial.
        """
        return self.output_dir / f"{MERGED}_completeness.jsonl"

    @property
    def cluster(self) -> Path:
        return self.output_dir / "cluster"

    @property
    def ledger(self) -> Path:
        return self.cluster / "ledger.jsonl"

    def given_inputs(self, shard: str) -> Path:
        """Return the file of a shard's materialized rows with their indices. The shard's driver
        reads it.
        """
        return self.cluster / "inputs" / f"{shard}.jsonl"

    @property
    def stamped(self) -> Path:
        """The file that the job `prepare` writes: counts and digest of the input, in all and per
        shard.
        """
        return self.cluster / "stamped.json"

    def submission(self, number: str) -> SubmissionFiles:
        return SubmissionFiles(self.cluster / number)

    def submissions(self) -> tuple[str, ...]:
        """Return the numbers of all submissions, in order."""
        names = [path.parent.name for path in self.cluster.glob("[0-9]*/plan.json")]
        return tuple(sorted(names, key=int))


@dataclass(frozen=True)
class SubmissionFiles:
    """The files of one submission: the batch scripts, and what its jobs share."""

    folder: Path

    @property
    def plan(self) -> Path:
        return self.folder / "plan.json"

    @property
    def supervisor(self) -> Path:
        """The supervisor and the modules that it needs, as a zip that Python can run (see
        `writing`).
        """
        return self.folder / "supervisor.pyz"

    @property
    def submit_script(self) -> Path:
        """The script that submits every job, with dependencies, when a user runs it by hand."""
        return self.folder / "submit.sh"

    @property
    def code(self) -> Path:
        """The folder of the packaged code; it comes first on PYTHONPATH."""
        return self.folder / "code"

    def script(self, job: str) -> Path:
        return self.folder / f"{job}.sh"

    def job(self, job: str, task: int | None = None) -> JobFiles:
        """Return the files of a job. `task`: its index in the array, None for a job without array."""
        return JobFiles(self.folder / "run" / (job if task is None else f"{job}.{task}"))


def logs(output_dir: Path) -> Path:
    """Return the default folder of logs, used unless the user names another."""
    return output_dir / "logs"


def log_name(job_id: str, unit: str, component: str, restart: int = 0) -> str:
    """Return the name of one component's log. `unit`: the shard's name, else the job's. `restart`:
    from 0, counts both requeues of the job and restarts of the component.
    """
    return f"{unit}_{component}_{job_id}_{restart}.log"


def shard_name(seed: int | None, chunk: int | None) -> str:
    """Return a shard's name: `rollouts[-rs{seed}][-chunk{k}]`. A None parameter is left out."""
    seeded = "" if seed is None else f"-rs{seed}"
    return MERGED + seeded + ("" if chunk is None else f"-chunk{chunk}")

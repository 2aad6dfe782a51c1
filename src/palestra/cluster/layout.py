"""The name of every file in a run's output folder: nothing else spells one.

    OUT/
      rollouts[-rs{seed}][-chunk{k}].jsonl            scored rows of one shard
      …_materialized_inputs.jsonl  …_failures.jsonl   its inputs and its failed attempts
      …_manifest.json  …_done.json  …_lease.json      what it was made from; that it ended; its writer
      rollouts.jsonl  rollouts_….jsonl                the merged run, named as a single run's files
      logs/                                           one file per component and restart
      cluster/ledger.jsonl                            what was submitted, and how it ended
      cluster/inputs/SHARD.jsonl                      rows of one shard with their global indices
      cluster/0001/                                   one submission:
        plan.json  supervisor.pyz  submit.sh
        JOB.sh                                        the batch script of each job
        code/                                         the packaged code, when there is any
        run/JOB[.TASK]/                               while it runs: endpoints, states, nonce

Standard library only, and of any Python from 3.8 on: the supervisor carries it onto batch nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MERGED = "rollouts"
"""The stem of the merged files."""


@dataclass(frozen=True)
class ShardFiles:
    """The files of one shard; scored rows, inputs, failures and manifest as a single run's."""

    folder: Path
    name: str

    @property
    def output(self) -> Path:
        """Scored rows."""
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
        """Expected, scored, failed-terminal: written once the first is the sum of the others."""
        return self.folder / f"{self.name}_done.json"

    @property
    def derived(self) -> tuple[Path, ...]:
        """What a run of a single shard has beside its rows: metrics, profile, report."""
        profile_files = ("aggregate_metrics.json", "agent_metrics.json", "reward_profiling.jsonl")
        names = (*profile_files, "report.html")
        return tuple(self.folder / f"{self.name}_{name}" for name in names)

    @property
    def lease(self) -> Path:
        """Who writes: the job's id."""
        return self.folder / f"{self.name}_lease.json"


@dataclass(frozen=True)
class JobFiles:
    """What one job (one task of an array) leaves for its own components while it runs."""

    folder: Path

    def endpoint(self, component: str) -> Path:
        """Host, port, nonce and process of a service: JSON, written whole by rename."""
        return self.folder / f"endpoint-{component}.json"

    @property
    def state(self) -> Path:
        """Components with their states, and a reason for each that failed: JSON."""
        return self.folder / "state.json"

    @property
    def result(self) -> Path:
        """How the job ended, in the supervisor's own words: JSON."""
        return self.folder / "result.json"


@dataclass(frozen=True)
class RunFiles:
    """The files of a run."""

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
        """Requested and ended rollouts of each task: there only while a merge is partial."""
        return self.output_dir / f"{MERGED}_completeness.jsonl"

    @property
    def cluster(self) -> Path:
        return self.output_dir / "cluster"

    @property
    def ledger(self) -> Path:
        return self.cluster / "ledger.jsonl"

    def given_inputs(self, shard: str) -> Path:
        """A shard's materialized rows as they were stamped at submission: what its driver takes."""
        return self.cluster / "inputs" / f"{shard}.jsonl"

    @property
    def stamped(self) -> Path:
        """What the job `prepare` found: counts and digest of the input, of each shard and in all."""
        return self.cluster / "stamped.json"

    def submission(self, number: str) -> SubmissionFiles:
        return SubmissionFiles(self.cluster / number)

    def submissions(self) -> tuple[str, ...]:
        """The numbers of all submissions, in order."""
        names = [path.parent.name for path in self.cluster.glob("[0-9]*/plan.json")]
        return tuple(sorted(names, key=int))


@dataclass(frozen=True)
class SubmissionFiles:
    """One submission: what `sbatch` needs, and what its jobs share."""

    folder: Path

    @property
    def plan(self) -> Path:
        return self.folder / "plan.json"

    @property
    def supervisor(self) -> Path:
        """The supervisor and this module, as a zip that Python runs (see `writing`)."""
        return self.folder / "supervisor.pyz"

    @property
    def submit_script(self) -> Path:
        """Submits every job by hand, dependencies included."""
        return self.folder / "submit.sh"

    @property
    def code(self) -> Path:
        """The packaged code, first on PYTHONPATH."""
        return self.folder / "code"

    def script(self, job: str) -> Path:
        return self.folder / f"{job}.sh"

    def job(self, job: str, task: int | None = None) -> JobFiles:
        """`task`: the index in an array."""
        return JobFiles(self.folder / "run" / (job if task is None else f"{job}.{task}"))


def logs(output_dir: Path) -> Path:
    """The folder of logs, unless another was asked for."""
    return output_dir / "logs"


def log_name(job_id: str, unit: str, component: str, restart: int = 0) -> str:
    """One component's log. `unit`: the shard's name, else the job's; `restart`: from 0, over
    requeues of the job and restarts of the component together.
    """
    return f"{unit}_{component}_{job_id}_{restart}.log"


def shard_name(seed: int | None, chunk: int | None) -> str:
    """`rollouts[-rs{seed}][-chunk{k}]`: a part is left out when the run has no such parts."""
    seeded = "" if seed is None else f"-rs{seed}"
    return MERGED + seeded + ("" if chunk is None else f"-chunk{chunk}")

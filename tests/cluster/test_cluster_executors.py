"""Executors: what Slurm's commands say is understood, and a queue on one machine keeps its order."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from cluster_runs import world
from planning import options, planned, write

from palestra.cluster.executors import ClusterUnreachable, Phase, log_files, unit_ids
from palestra.cluster.executors.here import HereExecutor, Queue, job_id
from palestra.cluster.executors.slurm import CommandAnswer, SlurmExecutor, run_command, state_of
from palestra.cluster.layout import RunFiles
from palestra.cluster.plan import After, PlannedJob, Run, seconds_of, to_json
from palestra.cluster.submitter import hand_over
from palestra.errors import ConfigError, RunFailed

NO_SACCT = CommandAnswer(1, err="Slurm accounting storage is disabled\n")


@dataclass
class Site:
    """A cluster whose commands answer as written down."""

    answers: Mapping[str, CommandAnswer]
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, argv: Sequence[str], timeout_s: float, /) -> CommandAnswer:
        assert timeout_s > 0
        self.asked.append(tuple(argv))
        return self.answers.get(argv[0], CommandAnswer(0))

    @property
    def executor(self) -> SlurmExecutor:
        return SlurmExecutor(timeout_s=5, commands=self)


class Counting(Site):
    """Every sbatch gives the next id."""

    def __call__(self, argv: Sequence[str], timeout_s: float, /) -> CommandAnswer:
        super().__call__(argv, timeout_s)
        return CommandAnswer(0, f"{100 + len(self.asked)};cluster\n")


def submitted(run: Run, site: Site) -> dict[str, str]:
    ids: dict[str, str] = {}
    site.executor.submit(run, lambda job, number: ids.update({job.name: number}))
    return ids


def test_jobs_are_submitted_with_the_ids_of_those_they_depend_on(tmp_path: Path) -> None:
    site = Counting({})
    run = planned(options(num_chunks=2), log_dir=str(tmp_path), after=(After(job_id="7"),))

    ids = submitted(run, site)

    assert ids == {"collect": "101", "merge": "102", "profile": "103"}
    assert [argv[2] for argv in site.asked] == [
        "--dependency=afterok:7",
        "--dependency=afterok:101",
        "--dependency=afterok:102",
    ]
    assert all(argv[:2] == ("sbatch", "--parsable") for argv in site.asked)


def test_a_submission_that_stops_half_way_says_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALESTRA_STATE_DIR", str(tmp_path / "state"))
    made = world(tmp_path, executor="slurm")
    answers = iter(
        [
            CommandAnswer(0, "41\n"),
            CommandAnswer(1, "", "sbatch: error: QOSMaxSubmitJobPerUserLimit"),
        ]
    )
    executor = SlurmExecutor(commands=lambda _argv, _timeout_s: next(answers))

    with pytest.raises(RunFailed, match=r"MaxSubmit.*submitted before that: shards 41") as caught:
        hand_over(made.run, executor)

    assert "retry-failed" in caught.value.hint
    assert [event["job_id"] for event in made.events("submitted")] == ["41"]


def test_an_sbatch_that_gives_no_id_is_an_error(tmp_path: Path) -> None:
    site = Site({"sbatch": CommandAnswer(0, "Submitted\n")})

    with pytest.raises(RunFailed, match="no job id"):
        submitted(planned(log_dir=str(tmp_path)), site)


def test_all_tasks_are_asked_for_at_once() -> None:
    site = Site(
        {
            "squeue": CommandAnswer(0, "5_2|RUNNING|None\n5_3|PENDING|JobArrayTaskLimit\n"),
            "sacct": CommandAnswer(0, "5_0|COMPLETED|0:0\n5_1|CANCELLED by 0|0:15\n6|FAILED|3:0\n"),
        }
    )

    found = site.executor.status(["5_0", "5_1", "5_2", "5_3", "6", "8"])

    assert {unit: told.state for unit, told in found.items()} == {
        "5_0": Phase.DONE,
        "5_1": Phase.CANCELLED,
        "5_2": Phase.RUNNING,
        "5_3": Phase.QUEUED,
        "6": Phase.FAILED,
        "8": Phase.UNKNOWN,
    }
    assert [argv[0] for argv in site.asked] == ["sacct", "squeue"]


@pytest.mark.parametrize(
    ("lines", "hours"),
    [
        ("3600|billing=8,cpu=8,gres/gpu=8,mem=8G,node=1\n1800|gres/gpu=4\n", 10.0),
        ("3600|cpu=8,gres/gpu=2,gres/gpu:h100=2\n", 2.0),
        ("3600|cpu=8,mem=8G,node=1\n", None),
        ("0|\n", None),
    ],
)
def test_gpu_hours_are_those_that_were_allocated(lines: str, hours: float | None) -> None:
    site = Site({"sacct": CommandAnswer(0, lines)})

    assert site.executor.gpu_hours(["5_0", "5_1", "6"]) == hours
    assert site.asked[0][-1] == "5,6"


def test_without_accounting_nobody_counts_gpu_hours() -> None:
    assert Site({"sacct": NO_SACCT}).executor.gpu_hours(["5"]) is None


def test_without_accounting_the_controller_is_asked_for_what_has_ended() -> None:
    shown = (
        "JobId=9 ArrayJobId=5 ArrayTaskId=0 JobName=x JobState=NODE_FAIL Reason=None Restarts=2 "
        "ExitCode=1:0\n"
        "JobId=5 ArrayJobId=5 ArrayTaskId=1-2,4%1 JobName=x JobState=PENDING ExitCode=0:0\n"
    )
    site = Site({"sacct": NO_SACCT, "scontrol": CommandAnswer(0, shown)})

    found = site.executor.status(["5"])

    assert found["5_0"].state is Phase.FAILED
    assert (found["5_0"].reason, found["5_0"].restarts) == ("NODE_FAIL", 2)
    assert {unit for unit, told in found.items() if told.state is Phase.QUEUED} == {
        "5_1",
        "5_2",
        "5_4",
    }


def test_a_job_that_was_requeued_is_what_the_queue_says_it_is() -> None:
    site = Site(
        {
            "squeue": CommandAnswer(0, "5|PENDING|BeginTime\n"),
            "sacct": CommandAnswer(0, "5|NODE_FAIL|1:0\n"),
        }
    )

    assert site.executor.status(["5"])["5"].state is Phase.QUEUED


def test_a_job_that_slurm_has_forgotten_is_unknown() -> None:
    invalid = CommandAnswer(1, err="slurm_load_jobs error: Invalid job id specified\n")
    site = Site({"squeue": invalid, "sacct": NO_SACCT, "scontrol": invalid})

    assert site.executor.status(["5"])["5"].state is Phase.UNKNOWN


@pytest.mark.parametrize("command", ["sacct", "squeue", "scontrol"])
def test_an_unreachable_cluster_is_an_error_and_never_not_done(command: str) -> None:
    down = CommandAnswer(1, err=f"{command}: error: Unable to contact slurm controller\n")
    site = Site({"sacct": NO_SACCT, command: down})

    with pytest.raises(ClusterUnreachable, match="Unable to contact"):
        site.executor.status(["5"])


def test_what_slurm_says_on_several_lines_is_one_message() -> None:
    lines = "invalid partition specified: nope", "Batch job submission failed: Invalid partition"
    refused = CommandAnswer(1, err="".join(f"scontrol: error: {line}\n" for line in lines))
    site = Site({"scontrol": refused})

    with pytest.raises(RunFailed) as caught:
        site.executor.max_array_size()

    assert caught.value.message == f"scontrol: {'; '.join(lines)}"


def test_a_command_that_does_not_answer_is_an_unreachable_cluster() -> None:
    with pytest.raises(ClusterUnreachable, match=r"no answer within 0\.2 s"):
        run_command(["sleep", "30"], 0.2)


def test_a_machine_without_slurm_says_so() -> None:
    with pytest.raises(ConfigError, match="no-such-sbatch does not exist"):
        run_command(["no-such-sbatch"], 5)


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("COMPLETED", Phase.DONE),
        ("CANCELLED by 0", Phase.CANCELLED),
        ("CANCELLED+", Phase.CANCELLED),
        ("TIMEOUT", Phase.FAILED),
        ("OUT_OF_MEMORY", Phase.FAILED),
        ("NODE_FAIL", Phase.FAILED),
        ("PREEMPTED", Phase.FAILED),
        ("RESIZING", Phase.RUNNING),
    ],
)
def test_slurms_states_are_ours(said: str, state: Phase) -> None:
    assert state_of(said) is state


def test_the_largest_array_is_the_sites() -> None:
    site = Site({"scontrol": CommandAnswer(0, "MaxArraySize            = 1001\nMaxJobCount = 5\n")})

    assert site.executor.max_array_size() == 1001


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("2", 120), ("2:03", 123), ("1:02:03", 3723), ("1-0", 86400), ("1-2:03:04", 93784)],
)
def test_a_time_is_read_as_slurm_writes_it(written: str, seconds: int) -> None:
    assert seconds_of(written) == seconds


def test_the_logs_of_one_shard_are_not_those_of_another(tmp_path: Path) -> None:
    names = [f"{unit}_driver_1_0.log" for unit in ("rollouts-rs1", "rollouts-rs1-chunk0")]
    for name in (*names, "rollouts-rs11_driver_1_0.log"):
        write(tmp_path / name, "")

    assert [path.name for path in log_files(tmp_path, "rollouts-rs1")] == names[:1]
    assert len(log_files(tmp_path)) == 3


PROGRAM = """
import os, pathlib, signal, sys, time
_, plan, job, _, task = sys.argv
out = pathlib.Path(plan).parents[2]
with (out / "order").open("a") as file:
    file.write(f"{job} {task}\\n")
behaviour = (out / f"{job}.{task}").read_text() if (out / f"{job}.{task}").exists() else ""
if behaviour == "wait":
    (out / "waits").touch()
    signal.signal(signal.SIGUSR1, lambda *_: (out / "warned").touch())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    while True:
        time.sleep(0.05)
if behaviour == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(int(behaviour or 0))
"""


def waiting_run(folder: Path, **given: Any) -> Run:
    """A run whose supervisor does what a file named after its task says."""
    run = planned(
        options(num_chunks=2),
        output_dir=str(folder),
        log_dir=str(folder / "logs"),
        python=sys.executable,
        **given,
    )
    files = RunFiles(folder).submission(run.submission)
    files.folder.mkdir(parents=True)
    files.plan.write_bytes(to_json(run))
    files.supervisor.write_text(PROGRAM)
    return run


def states_of(run: Run) -> dict[str, Phase]:
    files = RunFiles(Path(run.output_dir)).submission(run.submission)
    found = HereExecutor().status(job_id(files, job) for job in run.jobs)
    return {unit.rpartition(":")[2]: told.state for unit, told in found.items()}


def order(run: Run) -> list[str]:
    return (Path(run.output_dir) / "order").read_text().splitlines()


def test_jobs_run_in_their_order_and_each_task_of_an_array_once(tmp_path: Path) -> None:
    run = waiting_run(tmp_path)
    ids: list[str] = []

    HereExecutor(lambda _: None).submit(run, lambda _job, number: ids.append(number))

    assert order(run) == ["collect 0", "collect 1", "merge 0", "profile 0"]
    assert set(states_of(run).values()) == {Phase.DONE}
    assert len(ids) == 3


def test_what_depends_on_a_failed_job_never_starts_and_says_why(tmp_path: Path) -> None:
    run = waiting_run(tmp_path)
    write(tmp_path / "collect.1", "3")

    with pytest.raises(RunFailed, match=r"collect_1: exit code 3.*merge: depends on collect"):
        HereExecutor(lambda _: None).submit(run, lambda _job, _id: None)

    assert order(run) == ["collect 0", "collect 1"]
    assert states_of(run) == {
        "collect_0": Phase.DONE,
        "collect_1": Phase.FAILED,
        "merge": Phase.CANCELLED,
        "profile": Phase.CANCELLED,
    }


def test_a_job_that_failed_is_told_in_the_words_of_its_supervisor(tmp_path: Path) -> None:
    run = waiting_run(tmp_path)
    write(tmp_path / "collect.1", "13")
    submission = RunFiles(tmp_path).submission(run.submission)
    result = {"reason": "it serves a, and not b", "log": "noise"}
    write(submission.job("collect", 1).result, json.dumps(result))

    with pytest.raises(RunFailed, match=r"collect_1: it serves a, and not b \(exit code 13\)"):
        HereExecutor(lambda _: None).submit(run, lambda _job, _id: None)


def test_a_job_that_was_killed_is_told_from_one_that_failed(tmp_path: Path) -> None:
    run = waiting_run(tmp_path)
    write(tmp_path / "collect.1", "killed")

    with pytest.raises(RunFailed, match=r"collect_1: killed by signal SIGKILL \(out of memory\?\)"):
        HereExecutor(lambda _: None).submit(run, lambda _job, _id: None)


def test_what_comes_after_any_end_starts_after_a_failed_job(tmp_path: Path) -> None:
    run = waiting_run(tmp_path)
    write(tmp_path / "collect.0", "1")
    anyway = tuple(
        replace(job, after=tuple(replace(a, kind="afterany") for a in job.after))
        for job in run.jobs
    )

    assert not Queue(replace(run, jobs=anyway)).run()

    assert order(run)[-2:] == ["merge 0", "profile 0"]


@pytest.mark.slow
def test_a_time_limit_warns_then_ends_a_job(tmp_path: Path) -> None:
    run = waiting_run(tmp_path)
    write(tmp_path / "collect.0", "wait")
    limited = replace(run.jobs[0], time_limit="0:02", signal_s=1)

    assert not Queue(replace(run, jobs=(limited,))).run()

    assert (tmp_path / "warned").exists()
    assert states_of(run)["collect_0"] is Phase.FAILED


def test_stopping_a_queue_ends_what_runs_and_starts_nothing_more(tmp_path: Path) -> None:
    run = waiting_run(tmp_path)
    write(tmp_path / "collect.0", "wait")
    queue = Queue(run)
    running = threading.Thread(target=queue.run)
    running.start()
    while not (tmp_path / "waits").exists():
        running.join(0.02)
    queue.stop()
    running.join(20)

    assert not running.is_alive()
    assert order(run) == ["collect 0"]
    assert set(states_of(run).values()) == {Phase.CANCELLED}


RUN = """
import sys
from pathlib import Path
from palestra.cluster.executors.here import Queue
from palestra.cluster.plan import read_plan
sys.exit(0 if Queue(read_plan(Path(sys.argv[1]))).run() else 1)
"""


def running_in_a_process(run: Run) -> subprocess.Popen[bytes]:
    """A process that runs it, and has come to a job that waits."""
    folder = Path(run.output_dir)
    plan = RunFiles(folder).submission(run.submission).plan
    process = subprocess.Popen([sys.executable, "-c", RUN, str(plan)])
    while not (folder / "waits").exists():
        assert process.poll() is None
        threading.Event().wait(0.02)
    return process


@pytest.mark.slow
def test_what_runs_in_a_process_that_is_gone_has_failed(tmp_path: Path) -> None:
    run = waiting_run(tmp_path)
    write(tmp_path / "collect.0", "wait")
    files = RunFiles(tmp_path).submission(run.submission)
    process = running_in_a_process(run)
    process.kill()
    process.wait(10)

    told = HereExecutor().status([job_id(files, run.jobs[0])])
    _end_orphan(files.folder)

    assert {one.reason for one in told.values()} == {"the process that ran the jobs is gone"}


def _end_orphan(folder: Path) -> None:
    """The supervisor whose queue was killed."""
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            line = (proc / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder / "supervisor.pyz").encode() in line:
            os.kill(int(proc.name), signal.SIGTERM)


@pytest.mark.slow
def test_a_command_that_runs_jobs_can_be_cancelled_by_another(tmp_path: Path) -> None:
    run = waiting_run(tmp_path)
    write(tmp_path / "collect.0", "wait")
    process = running_in_a_process(run)
    files = RunFiles(tmp_path).submission(run.submission)
    before = states_of(run)

    HereExecutor().cancel([job_id(files, job) for job in run.jobs])

    assert before["collect_0"] is Phase.RUNNING
    assert before["merge"] is Phase.QUEUED
    assert set(states_of(run).values()) == {Phase.CANCELLED}
    assert process.wait(10) == 1


def test_the_units_of_an_array_are_its_tasks() -> None:
    job: PlannedJob = planned(options(num_chunks=3)).jobs[0]

    assert unit_ids(job, "7") == ("7_0", "7_1", "7_2")

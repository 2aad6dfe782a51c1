"""What is said of a run: files, ledger and executor put together."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import typer
from cluster_runs import World, collected, finish, world

from palestra.cli.clustering import runs as commands
from palestra.cli.commands.cluster import cluster, register
from palestra.cluster import ledger
from palestra.cluster.executors import ClusterUnreachable, JobState, Phase, unit_ids
from palestra.cluster.executors.here import job_id
from palestra.cluster.following import RunStatus, Standing, active_units, status_of
from palestra.cluster.plan import After
from palestra.cluster.shard import ShardCounter
from palestra.cluster.submitter import refuse_running
from palestra.cluster.units import folder_of, read_run
from palestra.errors import ConfigError, InputDataError
from palestra.settings import FollowArgs, LogsArgs, RetryFailedArgs
from palestra.system import Process


class Site:
    """An executor that says what a test tells it to, and counts how often it is asked."""

    def __init__(self, **states: JobState) -> None:
        self.states = states
        self.asked = 0
        self.gpu_questions = 0
        self.cancelled: list[str] = []

    def gpu_hours(self, ids: Iterable[str], /) -> float | None:
        self.gpu_questions += 1
        return None

    def status(self, ids: Iterable[str], /) -> Mapping[str, JobState]:
        self.asked += 1
        unknown = JobState(Phase.UNKNOWN)
        return {name: self.states.get(f"job{name}", unknown) for name in ids}

    def cancel(self, ids: Iterable[str], /) -> None:
        self.cancelled += ids


class GoneSite(Site):
    def gpu_hours(self, ids: Iterable[str], /) -> float | None:
        return None

    def status(self, ids: Iterable[str], /) -> Mapping[str, JobState]:
        raise ClusterUnreachable("squeue: no answer")


@pytest.fixture
def made(tmp_path: Path) -> World:
    """Two chunks as array 1, merge 2, profile 3."""
    made = world(tmp_path, tasks=4, chunks=2)
    for number, job in enumerate(made.run.jobs, start=1):
        event: dict[str, Any] = {"event": "submitted", "time": 1.0, "submission": "0001"}
        event |= {"job": job.name, "job_id": str(number), "shards": list(job.shards)}
        ledger.append(made.files.ledger, event)
    return made


def look(made: World, site: Any) -> RunStatus:
    return status_of(made.files, read_run(made.files), site)


def standings(found: RunStatus) -> dict[str, Standing]:
    return {one.unit.name: one.standing for one in found.units}


RUNNING, QUEUED = JobState(Phase.RUNNING), JobState(Phase.QUEUED)


def test_one_question_tells_of_every_job(made: World) -> None:
    site = Site(job1_0=RUNNING, job1_1=QUEUED, job2=QUEUED, job3=QUEUED)
    found = look(made, site)
    assert list(standings(found).values()) == ["running", "queued", "queued", "queued"]
    assert (site.asked, found.active, found.done) == (1, True, False)


def test_who_asks_again_and_again_asks_one_question_each_time(made: World) -> None:
    site = Site(job1_0=RUNNING, job1_1=QUEUED, job2=QUEUED)

    status = status_of(made.files, made.run, site, counter=ShardCounter())
    active = active_units(made.files, made.run, site)

    assert (site.asked, site.gpu_questions) == (2, 0)
    assert active == {"rollouts-chunk0", "rollouts-chunk1", "merge"}
    assert active == {unit.unit.name for unit in status.units if unit.standing.active}


def test_a_unit_that_never_starts_is_not_active(made: World) -> None:
    failed = JobState(Phase.FAILED, "FAILED", "1:0")
    site = Site(job1_0=failed, job1_1=failed, job2=QUEUED, job3=QUEUED)

    assert active_units(made.files, made.run, site) == frozenset()


def test_a_shard_is_done_when_its_file_says_so_whatever_the_queue_remembers(made: World) -> None:
    collected(made, "rollouts-chunk0")
    finish(made, "rollouts-chunk0")
    collected(made, "rollouts-chunk1", but=1)
    done = JobState(Phase.DONE)
    found = look(made, Site(job1_0=JobState(Phase.FAILED), job1_1=done))
    assert standings(found)["rollouts-chunk0"] is Standing.DONE
    assert standings(found)["rollouts-chunk1"] is Standing.FAILED
    assert found.units[1].reason == "its job ended without an error, but the shard has no done file"
    assert dict(found.rollouts()) == {"expected": 4, "scored": 3, "failed": 0, "left": 1}


def test_a_dependant_of_a_failed_job_never_starts_and_the_ledger_says_why(made: World) -> None:
    failed = JobState(Phase.FAILED, "NODE_FAIL")
    cancelled = JobState(Phase.CANCELLED, "DependencyNeverSatisfied")
    site = Site(job1_0=failed, job1_1=failed, job2=cancelled, job3=cancelled)
    for _ in range(2):
        found = look(made, site)
    assert standings(found)["merge"] is standings(found)["profile"] is Standing.NEVER_STARTS
    told = made.events("never_starts")
    assert [event["dependant"] for event in told] == ["merge", "profile"]
    assert "rollouts-chunk0 failed: NODE_FAIL" in told[0]["reason"]


def test_a_reason_that_the_executor_repeats_is_told_once(made: World) -> None:
    result = made.files.submission("0001").job("shards", 0).result
    result.parent.mkdir(parents=True)
    result.write_text(json.dumps({"status": "failed", "reason": "driver exited with 2"}))
    failed = JobState(Phase.FAILED, "driver exited with 2 (exit code 2)", "2")

    found = look(made, Site(job1_0=failed, job1_1=failed))
    assert found.units[0].reason == "driver exited with 2"


def going_on(made: World) -> World:
    """The same, and a second array (job 9) that goes on where the first one ends."""
    first = made.run.jobs[0]
    second = replace(first, name="shards-again-1", after=(After("afterany", job=first.name),))
    made.write(jobs=(first, second, *made.run.jobs[1:]))
    event = {"event": "submitted", "time": 1.0, "submission": "0001", "job_id": "9"}
    ledger.append(made.files.ledger, {**event, "job": second.name, "shards": list(first.shards)})
    return made


def test_of_several_jobs_for_a_shard_the_one_that_runs_tells(made: World) -> None:
    failed = JobState(Phase.FAILED, "TIMEOUT")
    found = look(going_on(made), Site(job1_0=RUNNING, job1_1=failed, job9_0=QUEUED, job9_1=QUEUED))
    assert [one.standing for one in found.units[:2]] == ["running", "queued"]
    assert [one.unit.job_id for one in found.units[:2]] == ["1_0", "9_1"]
    assert [one.open_ids for one in found.units[:2]] == [("1_0", "9_0"), ("9_1",)]


def test_jobs_that_are_left_of_a_shard_that_is_done_are_known(made: World) -> None:
    collected(made, "rollouts-chunk0")
    finish(made, "rollouts-chunk0")
    one = look(going_on(made), Site(job9_0=QUEUED)).units[0]
    assert (one.standing, one.open_ids) == (Standing.DONE, ("9_0",))


def test_every_job_of_a_run_is_cancelled_also_those_that_go_on_after_others(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(job1_0=RUNNING, job1_1=RUNNING, job9_0=QUEUED, job9_1=QUEUED, job2=QUEUED)
    monkeypatch.setattr(commands, "executor_for", lambda *_, **__: site)
    commands.cancel(FollowArgs(run=str(going_on(made).files.output_dir), as_json=True))
    assert sorted(site.cancelled) == ["1_0", "1_1", "2", "9_0", "9_1"]
    assert len(made.events("cancelled")) == 5


def test_a_retry_while_all_is_under_way_says_how_much_runs_and_waits(
    made: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(job1_0=RUNNING, job1_1=QUEUED, job2=QUEUED, job3=QUEUED)
    monkeypatch.setattr(commands, "executor_for", lambda *_, **__: site)
    assert commands.retry_failed(RetryFailedArgs(run=str(made.files.output_dir), as_json=True)) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"submitted": [], "underway": {"running": 1, "queued": 3}}


@pytest.mark.parametrize(
    ("exit_code", "state", "reason"),
    [
        ("0:9", "FAILED", "killed by signal SIGKILL (out of memory?), no result was written"),
        ("0:11", "FAILED", "killed by signal SIGSEGV, no result was written"),
        ("1:0", "FAILED", "FAILED"),
        ("0:9", "NODE_FAIL", "NODE_FAIL"),
    ],
)
def test_a_supervisor_killed_by_a_signal_is_told_from_one_that_failed(
    made: World, exit_code: str, state: str, reason: str
) -> None:
    over = JobState(Phase.FAILED, state, exit_code)
    never = JobState(Phase.CANCELLED, "DependencyNeverSatisfied")
    found = look(made, Site(job1_0=over, job1_1=over, job2=never, job3=never))
    assert found.units[0].reason == reason
    assert found.units[2].reason == f"because rollouts-chunk0 failed: {reason}"


@pytest.mark.parametrize("status", ["cancelled", "failed"])
def test_what_slurm_ended_a_job_for_stands_before_what_the_supervisor_saw(
    made: World, status: str
) -> None:
    result = made.files.submission("0001").job("shards", 0).result
    result.parent.mkdir(parents=True)
    result.write_text(json.dumps({"status": status, "reason": "what it saw"}))
    told = look(made, Site(job1_0=JobState(Phase.FAILED, "TIMEOUT"))).units[0]
    assert told.reason == "TIMEOUT: what it saw"


def test_how_a_job_ended_that_could_not_say_so_is_in_the_ledger_once(made: World) -> None:
    for _ in range(2):
        look(made, Site(job1_0=JobState(Phase.FAILED, "TIMEOUT"), job1_1=RUNNING))

    (event,) = made.events("ended")
    assert (event["shard"], event["job_id"]) == ("rollouts-chunk0", "1_0")
    assert (event["status"], event["reason"]) == ("failed", "TIMEOUT")


def test_a_run_of_which_a_part_was_never_submitted_is_not_done(tmp_path: Path) -> None:
    made = world(tmp_path, tasks=1)
    event = {"event": "submitted", "submission": "0001", "job": "shards", "job_id": "1"}
    ledger.append(made.files.ledger, event)
    collected(made, "rollouts")
    finish(made, "rollouts")
    found = look(made, Site())
    assert list(standings(found).values()) == ["done", "not submitted", "not submitted"]
    assert not found.done


def test_rollouts_that_nobody_has_begun_are_expected_too(made: World) -> None:
    collected(made, "rollouts-chunk0")
    finish(made, "rollouts-chunk0")
    found = look(made, Site(job1_1=QUEUED))
    assert dict(found.rollouts()) == {"expected": 4, "scored": 2, "failed": 0, "left": 2}


def test_each_server_is_told_with_its_reason(made: World) -> None:
    folder = made.files.submission("0001").job("shards", 0).folder
    folder.mkdir(parents=True)
    server = {"name": "server", "state": "failed", "reason": "it exited with 0"}
    state = {"servers": {"expected": 1, "ready": 0, "failed": 1}, "components": [server]}
    (folder / "state.json").write_text(json.dumps(state))
    told = look(made, Site(job1_0=RUNNING)).units[0]
    assert told.servers == {"expected": 1, "ready": 0, "failed": 1}
    assert told.components == [server]


def test_a_cluster_that_gives_no_answer_is_an_error(made: World) -> None:
    with pytest.raises(ClusterUnreachable):
        look(made, GoneSite())


def test_what_was_submitted_by_hand_is_known_by_its_own_word(tmp_path: Path) -> None:
    made = world(tmp_path, tasks=4, chunks=2)
    event = {"event": "started", "submission": "0001", "job": "shards", "job_id": "9_0"}
    ledger.append(made.files.ledger, {**event, "task": 0, "shard": "rollouts-chunk0"})
    found = look(made, Site(job9_0=RUNNING))
    assert list(standings(found).values()) == ["running", *["not submitted"] * 3]


def test_logs_of_what_the_run_has_not_are_an_error_and_of_what_has_none_yet_are_not(
    made: World,
) -> None:
    folder = str(made.files.output_dir)

    with pytest.raises(ConfigError, match=r"--of rollouts-chunk7: .*did you mean"):
        commands.logs(LogsArgs(run=folder, unit="rollouts-chunk7", lines=1))

    assert commands.logs(LogsArgs(run=folder, unit="rollouts-chunk1", lines=1)) == 0


def test_jobs_of_which_not_all_are_named_are_said_to_be_more(tmp_path: Path) -> None:
    made = world(tmp_path, tasks=4, chunks=2)
    units: dict[str, Any] = {}
    for job in made.run.jobs:
        number = job_id(made.submission, job)
        event: dict[str, Any] = {"event": "submitted", "time": 1.0, "submission": "0001"}
        ledger.append(made.files.ledger, event | {"job": job.name, "job_id": number, "shards": []})
        told = {"state": "queued", "reason": "", "exit_code": ""}
        units |= dict.fromkeys(unit_ids(job, number), told)
    queue = {"process": asdict(Process.this()), "units": units}
    (made.submission.folder / "queue.json").write_text(json.dumps(queue))

    with pytest.raises(ConfigError, match=r"^4 jobs .*shards_1, .*merge, …\)"):
        refuse_running(made.files, timeout_s=5)


def test_a_merge_by_hand_is_among_the_commands_that_are_listed() -> None:
    register(typer.Typer())

    shown = {command.name for command in cluster.registered_commands if not command.hidden}
    assert "merge-shards" in shown
    assert "ray-node" not in shown


def test_a_folder_that_is_no_runs_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="is not the output folder of a cluster run"):
        read_run(folder_of(str(tmp_path)))
    with pytest.raises(InputDataError, match="there is no run 'nobody-knows-it'"):
        folder_of("nobody-knows-it")


@pytest.mark.parametrize(
    ("reason", "log", "told"),
    [
        ("driver exited with 2", "a\nerror: no such key\nhint: export it\n", ": no such key"),
        ("merge was ended by 9", "a\nValueError: torn\n\n", ": ValueError: torn"),
        ("driver exited with 1", "", ""),
        ("driver exited with 1", "ERROR: no pip\nsrun: launch/slurm: _step_signal\n", ": no pip"),
        (
            "driver exited with 1",
            "KeyError: 1\nsrun: error: node1: Exited with 1\n",
            ": KeyError: 1",
        ),
        ("driver exited with 1", "srun: error: no such step\n", ": srun: error: no such step"),
        ("server ended early: it exited with 0", "(Press CTRL+C to quit)\n", ""),
        ("server ended early: it exited with 0", "error: no space\n", ": no space"),
        ("it serves a, and not b", "GET /v1/models\n", ""),
    ],
)
def test_where_a_program_merely_exited_its_last_error_is_told(
    made: World, reason: str, log: str, told: str
) -> None:
    result = made.files.submission("0001").job("shards", 0).result
    result.parent.mkdir(parents=True)
    result.write_text(json.dumps({"status": "failed", "reason": reason, "log": log}))

    assert look(made, Site(job1_0=JobState(Phase.FAILED))).units[0].reason == reason + told

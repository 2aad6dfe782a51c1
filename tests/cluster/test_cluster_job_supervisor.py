"""A job from start to finish, with real processes: what it says, and what it leaves behind."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster_runs import World, driver, model_server, python, restarting, service, world

from palestra.cluster.lease import Holder
from palestra.cluster.plan import Component, OnExit, Policy, Probe, Setup

pytestmark = pytest.mark.slow

COLLECTS = python(
    """
import os, pathlib, re
plan = pathlib.Path(os.environ["PALESTRA_JOB_DIR"]).parents[3]
given = plan / "cluster" / "inputs" / "rollouts.jsonl"
(plan / "rollouts_materialized_inputs.jsonl").write_bytes(given.read_bytes())
(plan / "rollouts.jsonl").write_bytes(given.read_bytes())
"""
)
"""A driver that finishes at once: its rows are scored as they are."""
SLEEPS = python("import time; time.sleep(600)")


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def alive(mark: str) -> list[int]:
    """Processes that were started with `mark` in their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_services_are_ready_before_the_main_step_and_gone_after_it(tmp_path: Path) -> None:
    made = world(tmp_path, model_server(), driver(COLLECTS))
    code, said = made.supervise()
    assert (code, made.result()["status"]) == (0, "done"), said
    assert made.done("rollouts")["expected"] == made.done("rollouts")["scored"] == 4
    assert made.done("rollouts")["code_version"] == "tests"
    assert alive(str(tmp_path)) == []


def test_a_driver_that_exits_well_without_its_rows_has_failed(tmp_path: Path) -> None:
    code, _ = (made := world(tmp_path, driver(python("pass")))).supervise()
    assert code != 0
    assert "some rollouts did not end" in made.result()["reason"]
    assert [event["dependant"] for event in made.events("never_starts")] == ["merge", "profile"]


@pytest.mark.parametrize("code", [0, 3])
def test_a_service_that_exits_early_is_a_failure_that_names_it(tmp_path: Path, code: int) -> None:
    dies = model_server("--die-after", "2", "--exit", str(code), "--pause", "0.1")
    made = world(tmp_path, dies, driver())
    exit_code, said = made.supervise()
    assert exit_code == 12
    assert made.result()["component"] == "server"
    assert f"server ended early: it exited with {code}" in made.result()["reason"]
    assert "the server has had enough" in made.result()["log"]
    assert "because" not in said
    assert "shards failed" in made.events("never_starts")[0]["reason"].replace("rollouts", "shards")


def test_a_service_is_started_again_as_often_as_the_plan_says(tmp_path: Path) -> None:
    dies = service(python("raise SystemExit(0)"), on_exit=restarting(2))
    made = world(tmp_path, dies, driver(SLEEPS))
    code, _ = made.supervise()
    assert code == 12
    assert "after 2 restarts" in made.result()["reason"]
    assert [name.rsplit("_", 1)[1] for name in made.logs()] == ["0.log", "1.log", "2.log"]
    assert len(made.events("restarted")) == 2


def test_a_service_that_may_be_missed_is(tmp_path: Path) -> None:
    gone = dataclasses.replace(
        service(python("raise SystemExit(1)")),
        name="cache",
        on_exit=OnExit("ignore"),  # type: ignore[arg-type]
    )
    made = world(tmp_path, gone, driver(COLLECTS))
    code, said = made.supervise()
    assert code == 0, said
    assert made.events("ignored")[0]["component"] == "cache"


@pytest.mark.parametrize(
    ("server", "code"),
    [
        (model_server("--model", "another"), 13),
        (model_server("--key", "of another job"), 14),
        (service(SLEEPS, probe=Probe("/v1/models", deadline_s=1.0, interval_s=0.2)), 11),
        (service(("/no/such/program",)), 12),
    ],
)
def test_each_way_not_to_be_ready_has_its_exit_code(
    tmp_path: Path, server: Component, code: int
) -> None:
    made = world(tmp_path, server, driver(SLEEPS))
    assert made.supervise()[0] == code
    assert made.result()["component"] == "server"
    assert not any("driver" in name for name in made.logs())


def test_a_server_that_stops_answering_is_noticed_during_the_run(tmp_path: Path) -> None:
    probe = Probe("/v1/models", deadline_s=30, interval_s=0.1, attempt_timeout_s=0.3)
    made = world(tmp_path, model_server(probe=probe), driver(SLEEPS))
    process = made.start()
    until(lambda: any("driver" in name for name in _logs(made)), "the driver did not start")
    # The last is the server, before it comes who minds it.
    server = max(p for p in alive("answering_server.py") if p in _below(process.pid))
    os.kill(server, signal.SIGSTOP)
    try:
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 11
    assert "has not answered for" in made.result()["reason"]


def _logs(made: World) -> list[str]:
    return made.logs() if Path(made.run.log_dir).exists() else []


def _below(pid: int) -> list[int]:
    from palestra.cluster.supervisor.processes import _children

    return _children(pid)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_no_orphans_however_the_supervisor_ends(tmp_path: Path, how: signal.Signals) -> None:
    mark = str(tmp_path / "detached")
    detaches = python(
        f"import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', {mark!r}],"
        " start_new_session=True)\ntime.sleep(600)"
    )
    made = world(tmp_path, driver(detaches))
    process = made.start()
    # Its minder, itself, and what it detached.
    until(lambda: len(alive(mark)) == 3, "the detached process did not start")
    process.send_signal(how)
    process.communicate(timeout=60)
    until(lambda: alive(mark) == [], f"left behind: {alive(mark)}")
    assert process.returncode != 0


def test_a_driver_that_does_not_drain_in_time_is_ended_and_the_result_says_why(
    tmp_path: Path,
) -> None:
    made = world(
        tmp_path, driver(python("import time; print('runs', flush=True); time.sleep(600)"))
    )
    jobs = (dataclasses.replace(made.run.jobs[0], signal_s=1), *made.run.jobs[1:])
    process = made.write(jobs=jobs).start()
    logs = Path(made.run.log_dir)
    until(lambda: any(log.stat().st_size for log in logs.glob("*driver*")), "it did not start")
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=60)
    assert (process.returncode, made.result()["status"]) == (75, "drained")
    assert made.result()["reason"].startswith("driver was ended: it did not finish its requests")


def test_a_time_limit_ahead_stops_admission_and_what_is_left_is_resumed(tmp_path: Path) -> None:
    made = world(tmp_path, model_server("--pause", "0.4"), driver(), tasks=30)
    made.write(collect=dataclasses.replace(made.run.collect, num_samples_in_parallel=2))
    process = made.start()
    output = made.files.shard("rollouts").output
    until(lambda: output.exists() and output.stat().st_size > 0, "nothing was scored")
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=60)
    assert (process.returncode, made.result()["status"]) == (75, "drained")
    assert made.result()["counts"]["left"] > 0
    assert not made.files.shard("rollouts").failures.exists()
    made.write(collect=dataclasses.replace(made.run.collect, num_samples_in_parallel=16))
    assert made.supervise()[0] == 0
    keys = [json.loads(line)["_ng_task_index"] for line in output.read_text().splitlines()]
    assert sorted(keys) == list(range(30))


def test_two_jobs_on_one_node_never_talk_to_each_others_servers(tmp_path: Path) -> None:
    made = [
        world(tmp_path / name, model_server("--pause", "0.02", port_range=_ports()), driver())
        for name in ("one", "two")
    ]
    running = [one.start() for one in made]
    said = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    states = [json.loads(one.submission.job("shards").state.read_bytes()) for one in made]
    addresses = [state["components"][0]["address"] for state in states]
    assert addresses[0] != addresses[1]
    # What they were known by is a key, and gone with them.
    assert not any(one.submission.job("shards").endpoint("server").exists() for one in made)


def _ports() -> tuple[int, int]:
    return (21_700, 21_704)


def test_the_key_of_a_job_stands_in_no_command_line(tmp_path: Path) -> None:
    looks = """
import os, pathlib, sys
key = os.environ["PALESTRA_NONCE"].encode()
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    try:
        assert key not in path.read_bytes(), path.read_bytes()
    except OSError:
        pass
"""
    made = world(tmp_path, model_server(), driver(python(looks + COLLECTS[2])))
    assert made.supervise()[0] == 0, made.result()
    told = [path for path in tmp_path.rglob("*") if path.suffix in {".json", ".jsonl", ".log"}]
    left = [path for path in told if b'"nonce":' in path.read_bytes()]
    assert left == []


def test_the_ledger_names_the_last_error_of_a_failed_driver(tmp_path: Path) -> None:
    program = "import sys; print('error: no such key', flush=True); sys.exit(2)"
    made = world(tmp_path, driver(python(program)))

    made.supervise()

    assert made.events("ended")[0]["reason"] == "driver exited with 2: no such key"


def test_a_folder_that_cannot_be_written_ends_the_job_in_words(tmp_path: Path) -> None:
    made = world(tmp_path, model_server(), driver())
    (made.submission.folder / "run").write_text("a file, and no folder")
    code, said = made.supervise()
    assert code == 18
    assert "cannot write the files of the run" in said
    assert "Traceback" not in said
    assert made.events("ended")[0]["status"] == "failed"


def test_an_endpoint_of_an_earlier_start_is_not_believed(tmp_path: Path) -> None:
    made = world(tmp_path)
    job = made.submission.job("shards")
    job.folder.mkdir(parents=True)
    stale = {"host": "127.0.0.1", "port": 9, "nonce": "of an earlier start"}
    job.endpoint("server").write_text(json.dumps(stale))
    done = subprocess.run(
        [*driver().argv[:5], str(made.submission.plan), "rollouts"],
        env={**os.environ, "PALESTRA_JOB_DIR": str(job.folder), "PALESTRA_NONCE": "ours"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "by an earlier start of this job" in done.stderr


def test_a_shard_that_is_done_is_not_run_again(tmp_path: Path) -> None:
    made = world(tmp_path, driver(COLLECTS))
    assert made.supervise()[0] == 0
    broken = (dataclasses.replace(made.run.jobs[0], components=(driver(python("1/0")),)),)
    made.write(jobs=(*broken, *made.run.jobs[1:]))
    assert made.supervise()[0] == 0
    assert made.result()["reason"] == "it was done already"


def test_what_is_done_is_set_aside_once_when_it_is_to_run_again(tmp_path: Path) -> None:
    made = world(tmp_path, driver(COLLECTS))
    assert made.supervise()[0] == 0
    made.write(rerun_done=True)
    assert made.supervise()[0] == 0
    assert made.supervise()[0] == 0
    for name in ("rollouts.jsonl", "rollouts_materialized_inputs.jsonl"):
        assert len(list(made.files.output_dir.glob(f"{name}.bak-*"))) == 1


def test_metrics_of_what_is_set_aside_go_with_it(tmp_path: Path) -> None:
    """A run of a single shard has them beside it, and none could begin there otherwise."""
    made = world(tmp_path, driver(COLLECTS))
    assert made.supervise()[0] == 0
    metrics = made.files.output_dir / "rollouts_aggregate_metrics.json"
    metrics.write_text("[]")
    made.write(rerun_done=True)
    assert made.supervise()[0] == 0
    assert not metrics.exists()


def test_commands_around_the_main_step_decide_too(tmp_path: Path) -> None:
    made = world(tmp_path, _with_setup("echo before", "exit 5"))
    assert made.supervise()[0] == 5
    made.write(jobs=(dataclasses.replace(made.run.jobs[0], components=(_with_setup("", ""),)),))
    assert made.supervise()[0] == 0


@pytest.mark.parametrize("after", ["", "touch after"])
def test_a_main_step_with_commands_around_it_is_told_to_end_itself(
    tmp_path: Path, after: str
) -> None:
    said = tmp_path / "said"
    ends = python(
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), said.write_text('bye'),"
        " sys.exit(0)))\n"
        f"said = pathlib.Path({str(said)!r})\nsaid.write_text('here')\ntime.sleep(600)"
    )
    setup = Setup(before="true", after=f"cd {tmp_path}; {after}" if after else "")
    process = world(tmp_path, driver(ends, setup=setup)).start()
    until(said.exists, "the main step did not start")
    process.terminate()
    process.communicate(timeout=60)
    assert said.read_text() == "bye"


def _with_setup(before: str, after: str) -> Component:
    return driver(COLLECTS, setup=Setup("echo installed", before, after))


def test_a_supervisor_needs_nothing_but_a_bare_python(tmp_path: Path) -> None:
    made = world(tmp_path, driver((sys.executable, *COLLECTS[1:])))
    bare: dict[str, Any] = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-I", "-S", *made.command()[1:]],
        env=bare,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_driver_whose_shard_is_anothers_ends(tmp_path: Path) -> None:
    """As what a lost node leaves behind would: its supervisor is gone, and it is not."""
    made = world(tmp_path)
    made.write(policy=Policy("scripted", base_url="http://127.0.0.1:9/v1", api_key_env="THE_KEY"))
    lease = made.files.shard("rollouts").lease
    lease.write_text(json.dumps(dataclasses.asdict(Holder("8", 0, "there", "", 1, "1", number=5))))
    ours = {"PALESTRA_LEASE": str(lease), "PALESTRA_LEASE_NUMBER": "4", "THE_KEY": "of-the-tests"}
    done = subprocess.run(
        [*driver().argv[:5], str(made.submission.plan), "rollouts"],
        env={**os.environ, **ours},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in {128 + signal.SIGTERM, -signal.SIGTERM}
    assert "job 8 (start 0), process 1 on there now runs this shard" in done.stderr

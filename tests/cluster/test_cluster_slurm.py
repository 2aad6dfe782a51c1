"""The whole of it on a real Slurm of two nodes: submitted, run, merged, profiled."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
import pytest
from slurm_site import slurm_site, wait_until

from installed_wheel import Installation
from palestra.cluster import Submission, ledger, rollouts, run_cmd
from palestra.cluster.executors import Phase, executor_for, unit_ids
from palestra.cluster.executors.slurm import SlurmExecutor
from palestra.cluster.following import Standing, status_of
from palestra.cluster.layout import RunFiles
from palestra.cluster.units import read_run
from palestra.config import PACKAGE_ROOT
from palestra.errors import ConfigError
from palestra.schema import key_of, read_jsonl

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SERVER = Path(__file__).with_name("answering_server.py")
TASKS = "resources_servers/mcqa/data/example.jsonl"


@pytest.fixture(scope="module", autouse=True)
def _site() -> Iterator[None]:
    with slurm_site():
        yield


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALESTRA_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def submit(**given: Any) -> Submission:
    asked: dict[str, Any] = {
        "cluster": {
            "executor": "slurm",
            "probe": {"deadline_s": 120, "interval_s": 0.5},
            **given.pop("on", {}),
        },
        "config_paths": [
            "resources_servers/mcqa/configs/mcqa.yaml",
            "responses_api_models/openai_model/configs/openai_model.yaml",
        ],
        "input_file": TASKS,
        "agent_name": "mcqa_simple_agent",
        "output_dir": "out",
        "model": "scripted",
        "server_type": "generic",
        "server_cpu": True,
        "server_entrypoint": f"{sys.executable} {SERVER} --host {{host}} --port {{port}}",
        "time": "10",
    }
    return rollouts(**{**asked, **given})


def states(submission: Submission) -> dict[str, Phase]:
    ids = [
        unit for job in submission.run.jobs for unit in unit_ids(job, submission.job_ids[job.name])
    ]
    return {unit: told.state for unit, told in executor_for("slurm").status(ids).items()}


def to_the_end(submission: Submission, seconds: float = 240) -> dict[str, Phase]:
    wait_until(lambda: all(s.over for s in states(submission).values()), seconds=seconds)
    return states(submission)


def nodes_of(job_id: str) -> set[str]:
    told = subprocess.run(
        ["scontrol", "-o", "show", "job", job_id],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(re.findall(r" NodeList=(\S+)", told.stdout))


def logs_of(submission: Submission) -> str:
    files = sorted(Path(submission.run.log_dir).glob("*batch*"))
    return "\n".join(f"{path.name}:\n{path.read_text()[-1500:]}" for path in files)


SOLUTION = """```python
from itertools import groupby
input()
print(max(len(list(days)) for _, days in groupby(input().split())))
```
"""
"""Of the first task of code_gen alone."""


@pytest.mark.skipif(not shutil.which("bwrap"), reason="the sandbox needs bubblewrap")
def test_two_seeds_of_four_chunks_become_one_profile(tmp_path: Path) -> None:
    (tmp_path / "solution").write_text(SOLUTION)
    server = f"{sys.executable} {SERVER} --host {{host}} --port {{port}}"
    submission = submit(
        config_paths=[
            "resources_servers/code_gen/configs/code_gen.yaml",
            "responses_api_models/openai_model/configs/openai_model.yaml",
        ],
        input_file="resources_servers/code_gen/data/example.jsonl",
        agent_name="code_gen_simple_agent",
        server_entrypoint=f"{server} --says {tmp_path}/solution",
        with_sandbox=True,
        num_random_seeds=2,
        num_chunks=4,
        num_repeats=2,
    )

    ended = to_the_end(submission)

    files = RunFiles(tmp_path / "out")
    assert set(ended.values()) == {Phase.DONE}, logs_of(submission)
    assert len(nodes_of(submission.job_ids["collect"])) == 2
    found = status_of(files, read_run(files), executor_for("slurm"))
    assert found.done
    assert dict(found.rollouts()) == {"expected": 20, "scored": 20, "failed": 0, "left": 0}
    keys = [key_of(line.row) for line in read_jsonl(files.merged.output)]
    assert [(key.task, key.rollout) for key in keys] == [(t, r) for t in range(5) for r in range(4)]
    profile = [line.row for line in read_jsonl(files.reward_profiling)]
    assert [row["num_rollouts"] for row in profile] == [4] * 5
    # Programs have run, in the sandbox of each job.
    assert [row["mean/reward"] for row in profile] == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert files.aggregate_metrics.exists()


ARRAY_TASKS = int(os.environ.get("PALESTRA_TEST_ARRAY_TASKS", "4"))
"""How many jobs the large array has; it was run with 40, of 200 rollouts each."""
ARRAY_ROLLOUTS = int(os.environ.get("PALESTRA_TEST_ARRAY_ROLLOUTS", "20"))


def test_every_task_of_a_large_array_gives_its_share(tmp_path: Path) -> None:
    first = next(iter(read_jsonl(PACKAGE_ROOT / TASKS))).row
    rows = (orjson.dumps({**first, "number": n}) for n in range(ARRAY_TASKS * 5))
    (tmp_path / "tasks.jsonl").write_bytes(b"\n".join(rows) + b"\n")
    submission = submit(
        input_file="tasks.jsonl", num_chunks=ARRAY_TASKS, num_repeats=ARRAY_ROLLOUTS // 5
    )

    ended = to_the_end(submission, seconds=60 + 15 * ARRAY_TASKS)

    merged = RunFiles(tmp_path / "out").merged.output
    assert set(ended.values()) == {Phase.DONE}, logs_of(submission)
    assert len({key_of(line.row) for line in read_jsonl(merged)}) == ARRAY_TASKS * ARRAY_ROLLOUTS


def test_a_command_is_a_job_that_is_followed_and_cancelled_as_any_other(tmp_path: Path) -> None:
    def told(*words: str) -> str:
        command = [sys.executable, "-m", "palestra", "cluster", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        return done.stdout

    on = {"executor": "slurm"}
    long = run_cmd(cluster=on, command="sleep 600", expname="long", num_gpus=0, time="10")
    short = run_cmd(cluster=on, command="hostname; echo $SLURM_JOB_ID", expname="short", time="10")

    assert set(to_the_end(short).values()) == {Phase.DONE}
    assert f"\n{short.job_ids['command']}\n" in told("logs", "short", "--of", "command")
    assert "short: done 1" in told("status", "short")
    told("cancel", "long")
    assert set(to_the_end(long).values()) == {Phase.CANCELLED}


PIPELINE = f"""
from nemo_skills.pipeline.cli import nemo_gym_rollouts, run_cmd, wrap_arguments

cluster = {{"executor": "slurm", "probe": {{"deadline_s": 120, "interval_s": 0.5}}}}
run_cmd(
    ctx=wrap_arguments(""),
    cluster=cluster,
    command="echo 'hello  from' $SLURM_JOB_PARTITION",
    expname="hello",
    partition="other",
    num_gpus=0,
    time="10",
)
nemo_gym_rollouts(
    ctx=wrap_arguments(
        "+agent_name=mcqa_simple_agent "
        "+num_samples_in_parallel=64 "
        "+responses_create_params.temperature=1.0 "
    ),
    cluster=cluster,
    config_paths="resources_servers/mcqa/configs/mcqa.yaml,"
    "responses_api_models/openai_model/configs/openai_model.yaml",
    input_file="{TASKS}",
    output_dir="rollouts",
    model="scripted",
    server_type="generic",
    server_cpu=True,
    server_entrypoint="{sys.executable} {SERVER} --host {{host}} --port {{port}}",
    policy_api_key="dummy",
    partition="other",
    exclusive=True,
    time="10",
)
"""


def test_the_fields_script_runs_on_a_cluster_from_an_installed_wheel(
    tmp_path: Path, installation: Installation
) -> None:
    def typed(*words: str) -> int:
        done = subprocess.run(
            words, env=installation.environment, capture_output=True, check=False, timeout=60
        )
        return done.returncode

    (tmp_path / "submit.py").write_text(PIPELINE)

    assert typed("python", "submit.py") == 0

    for folder in ("hello", "rollouts"):
        status = ("palestra", "cluster", "status", folder)
        wait_until(lambda status=status: typed(*status) != 3, seconds=240)
        assert typed(*status) == 0
    (log,) = (tmp_path / "hello" / "logs").glob("command_command_*.log")
    assert log.read_text() == "hello  from other\n"
    rows = [line.row for line in read_jsonl(tmp_path / "rollouts" / "rollouts.jsonl")]
    assert [row["responses_create_params"]["temperature"] for row in rows] == [1.0] * 5


def test_a_shard_that_goes_back_into_the_queue_leaves_the_others_running(tmp_path: Path) -> None:
    """The last one: its number in Slurm is that of the whole array."""
    slow = f"{sys.executable} {SERVER} --host {{host}} --port {{port}} --pause 1"
    submission = submit(
        num_random_seeds=2, num_repeats=4, num_samples_in_parallel=1, server_entrypoint=slow
    )
    files = RunFiles(tmp_path / "out")
    outputs = [files.shard(f"rollouts-rs{seed}").output for seed in (0, 1)]
    wait_until(lambda: all(lines_of(path) for path in outputs), seconds=120)

    last = f"{submission.job_ids['collect']}_1"
    subprocess.run(["scancel", "--batch", "--signal=USR1", last], check=True, timeout=60)
    wait_until(lambda: len(endings(files)) == 2, seconds=120)
    executor_for("slurm").cancel(submission.job_ids.values())

    assert endings(files) == {"rollouts-rs1": "drained", "rollouts-rs0": "done"}


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def endings(files: RunFiles) -> dict[str, str]:
    """How the last start of each shard ended."""
    ended = (event for event in ledger.events(files.ledger) if event["event"] == "ended")
    return {event["shard"]: event["status"] for event in ended}


def test_a_dependant_of_a_failed_job_never_starts(tmp_path: Path) -> None:
    submission = submit(preprocess_cmd="exit 3")

    ended = to_the_end(submission)

    by_job = {job.name: ended[submission.job_ids[job.name]] for job in submission.run.jobs}
    assert by_job == {"collect": Phase.FAILED, "merge": Phase.CANCELLED, "profile": Phase.CANCELLED}
    assert not RunFiles(tmp_path / "out").merged.manifest.exists()
    with pytest.raises(ConfigError, match="did not succeed"):
        submit(run_after=submission.run.name, output_dir="other")


def test_a_variable_without_a_value_is_refused_when_submitting(tmp_path: Path) -> None:
    on = {"inherit_env": ["NOT_SET_HERE"]}
    before = queued()

    with pytest.raises(ConfigError, match="the variable NOT_SET_HERE, which is not set"):
        submit(on=on, limit=1)

    assert not (tmp_path / "out").exists()
    assert queued() == before
    dry = submit(on=on, limit=1, dry_run=True)
    assert [text for text in dry.notices if "warning: inherit_env" in text]


def test_a_variable_without_a_value_is_refused_when_retrying(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SET_FIRST", "a value")
    to_the_end(submit(on={"inherit_env": ["SET_FIRST"]}, limit=1, preprocess_cmd="exit 3"))
    monkeypatch.delenv("SET_FIRST")
    before = queued()

    done = subprocess.run(
        [sys.executable, "-m", "palestra", "cluster", "retry-failed", "out"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 2
    assert "inherit_env of the cluster config names the variable SET_FIRST" in done.stderr
    assert queued() == before
    assert RunFiles(tmp_path / "out").submissions() == ("0001",)


def queued() -> list[str]:
    """Every job that Slurm knows of, however it ended."""
    told = subprocess.run(
        ["squeue", "-h", "-a", "-t", "all", "-o", "%i"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return sorted(told.stdout.split())


def test_parts_of_two_partitions_run_as_one_heterogeneous_job() -> None:
    submission = submit(on={"partition": "main", "partitions": {"driver": "other"}}, limit=1)

    assert set(to_the_end(submission).values()) == {Phase.DONE}, logs_of(submission)


def test_what_a_dry_run_has_written_can_be_submitted_by_hand(tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s 50%j & $(odd); {job} "ü"'
    folder = submit(dry_run=True, limit=1, num_chunks=2, output_dir=str(odd)).folder

    done = subprocess.run(
        [folder / "submit.sh"], capture_output=True, text=True, check=True, timeout=60
    )

    ids = [line.split()[1] for line in done.stdout.splitlines()]
    ask = executor_for("slurm").status
    wait_until(lambda: all(told.state.over for told in ask(ids).values()), seconds=120)
    assert {told.state for told in ask(ids).values()} == {Phase.DONE}
    assert len(list(read_jsonl(odd / "rollouts.jsonl"))) == 2
    assert {path.name for path in tmp_path.iterdir()} <= {odd.name, "state"}


@pytest.mark.skipif(
    find_spec("ray") is None or "PALESTRA_TEST_RAY_ON_SLURM" not in os.environ,
    reason="tried without Slurm in test_cluster_ray; here with PALESTRA_TEST_RAY_ON_SLURM=1",
)
def test_heavy_verifiers_run_on_a_ray_cluster_of_two_nodes() -> None:
    submission = submit(
        config_paths=[
            "resources_servers/math_with_judge/configs/math_with_judge.yaml",
            "responses_api_models/openai_model/configs/openai_model.yaml",
        ],
        input_file="resources_servers/math_with_judge/data/example.jsonl",
        agent_name="math_with_judge_simple_agent",
        ray_nodes=2,
        limit=2,
    )

    ended = to_the_end(submission)

    assert set(ended.values()) == {Phase.DONE}, logs_of(submission)
    logs = {path.name.split("_")[1]: path for path in Path(submission.run.log_dir).glob("*_0.log")}
    assert "Connected to Ray cluster" in logs["driver"].read_text()
    assert len(list(Path(submission.run.log_dir).glob("rollouts_ray_*.log"))) == 2


@pytest.mark.skipif(
    "PALESTRA_TEST_TIME_LIMIT" not in os.environ, reason="takes minutes: PALESTRA_TEST_TIME_LIMIT=1"
)
def test_what_a_time_limit_cut_short_is_gone_on_with() -> None:
    on = {"requeue": False, "partition": "short"}
    slow = f"{sys.executable} {SERVER} --host {{host}} --port {{port}} --pause 2.5"
    submission = submit(
        on=on,
        time="1",
        num_repeats=4,
        num_samples_in_parallel=1,
        dependent_jobs=3,
        server_entrypoint=slow,
    )

    to_the_end(submission, seconds=600)

    files = RunFiles(Path(submission.run.output_dir))
    first = executor_for("slurm").status([submission.job_ids["collect"]])
    told = first[submission.job_ids["collect"]]
    assert told.state is Phase.FAILED
    keys = [key_of(line.row) for line in read_jsonl(files.merged.output)]
    assert len(keys) == len(set(keys)) == 20, logs_of(submission)


BLOCKS = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [10, 15]); "
"""No SIGUSR1 and no SIGTERM reaches what follows, as where a file system hangs."""


def interpreter(path: Path, first: str) -> str:
    """A Python that runs `first` in each process before anything else."""
    path.write_text(
        f"#!{sys.executable}\n{first}os.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]])\n"
    )
    path.chmod(0o755)
    return str(path)


@pytest.mark.alone
def test_a_shard_at_its_time_limit_without_any_warning_is_gone_on_with(tmp_path: Path) -> None:
    python, server = tmp_path / "python", tmp_path / "server"
    server.write_text(f'exec {sys.executable} {SERVER} "$@" --pause 6\n')
    asked: dict[str, Any] = {
        "num_repeats": 4,
        "num_samples_in_parallel": 1,
        "server_entrypoint": f"bash {server} --host {{host}} --port {{port}}",
    }
    to_the_end(submit(on={"python": interpreter(python, BLOCKS)}, time="1", **asked))

    files = RunFiles(tmp_path / "out")
    shard = status_of(files, read_run(files), executor_for("slurm")).units[0]
    before = lines_of(files.shard("rollouts").output)

    assert (shard.standing, shard.reason[:7]) == (Standing.FAILED, "TIMEOUT")
    ended = [event for event in ledger.events(files.ledger) if event["event"] == "ended"]
    assert (ended[-1]["shard"], ended[-1]["reason"]) == ("rollouts", shard.reason)
    assert 0 < len(before) < 20
    server.write_text(f'exec {sys.executable} {SERVER} "$@"\n')
    again = submit(**asked)
    assert set(to_the_end(again).values()) == {Phase.DONE}, logs_of(again)
    # The merged rows are those of the shard: the run has only one.
    assert set(before) <= set(lines_of(files.merged.output))
    assert len(lines_of(files.merged.output)) == 20


def test_the_site_says_how_large_an_array_may_be() -> None:
    assert SlurmExecutor().max_array_size() == 1001


def test_a_cluster_that_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from palestra.cluster.executors import ClusterUnreachable

    monkeypatch.setenv("SLURM_CONF", "/nonexistent/slurm.conf")

    with pytest.raises(ClusterUnreachable):
        SlurmExecutor(timeout_s=3).status(["1"])

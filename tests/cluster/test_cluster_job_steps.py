"""The commands that run components: what `srun` and containers are told."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cluster_runs import World, driver, model_server, service, world

from palestra.cluster.plan import Component, Mount, Role, Setup
from palestra.cluster.supervisor.steps import (
    BadPlan,
    JobTask,
    StepPlace,
    argv_of,
    env_of,
    read_task,
    with_setup,
)

VLLM = Component(
    "server",
    Role.SERVER,
    ("vllm", "serve", "--port", "{port}", "--json", '{"a": 1}'),
    container="/images/vllm.sqsh",
    cpus=8,
    gpus=2,
    mounts=(Mount("/data", "/data"), Mount("/models", "/m", ("ro",))),
    workdir="/work",
    env={"SEED": "{server_seed}"},
)


def task_of(tmp_path: Path, *components: Component, **changes: Any) -> JobTask:
    made = world(tmp_path, *components, **{"executor": "slurm", **changes})
    return read_task(made.submission.plan, "shards", 0)


def argv(task: JobTask, place: StepPlace | None = None) -> list[str]:
    return argv_of(task, task.job.components[0], place or StepPlace({"{port}": "4000"}), ["SEED"])


def test_a_step_shares_the_job_and_ends_with_its_first_failure(tmp_path: Path) -> None:
    command = argv(task_of(tmp_path, model_server(cpus=3), driver()))
    assert command[0] == "srun"
    assert {"--overlap", "--kill-on-bad-exit=1", "--cpus-per-task=3", "--ntasks=1"} <= {*command}


def test_pyxis_flags_are_given_to_pyxis_alone(tmp_path: Path) -> None:
    flags = [
        f for f in argv(task_of(tmp_path, VLLM, driver(), runtime="pyxis")) if "container" in f
    ]
    assert flags == [
        "--container-image=/images/vllm.sqsh",
        "--no-container-mount-home",
        "--container-mounts=/data:/data,/models:/m:ro",
        "--container-workdir=/work",
    ]
    plain = argv(task_of(tmp_path, VLLM, driver(), runtime="none"))
    assert not any("container" in flag for flag in plain)
    assert "--gpus-per-node=2" in plain


@pytest.mark.parametrize(
    ("runtime", "first", "mount"),
    [
        ("apptainer", ["apptainer", "exec", "--no-home", "--nv"], "--bind=/models:/m:ro"),
        ("singularity", ["singularity", "exec", "--no-home", "--nv"], "--bind=/models:/m:ro"),
        ("podman", ["podman", "run", "--rm", "--network=host"], "--volume=/models:/m:ro"),
        ("enroot", ["enroot", "start"], "--mount=/models:/m:ro"),
    ],
)
def test_other_runtimes_stand_around_the_command(
    tmp_path: Path, runtime: str, first: list[str], mount: str
) -> None:
    command = argv(task_of(tmp_path, VLLM, driver(), runtime=runtime, executor="local"))
    assert command[: len(first)] == first
    assert mount in command
    assert command[-6:] == ["vllm", "serve", "--port", "4000", "--json", '{"a": 1}']
    assert ("--env=SEED" in command) == (runtime in {"podman", "enroot"})


def test_enroot_enters_the_folder_by_itself(tmp_path: Path) -> None:
    command = argv(task_of(tmp_path, VLLM, driver(), runtime="enroot", executor="local"))

    image = command.index(str(VLLM.container))
    assert command[image + 1 : image + 5] == ["sh", "-c", 'cd "$0" && exec "$@"', "/work"]


def test_each_group_of_a_heterogeneous_job_is_named(tmp_path: Path) -> None:
    made = world(tmp_path, VLLM, driver(group=1), executor="slurm")
    two = made.run.jobs[0].allocations * 2
    jobs = (_with(made, allocations=two), *made.run.jobs[1:])
    task = read_task(made.write(jobs=jobs).submission.plan, "shards", 0)
    assert "--het-group=0" in argv(task)
    assert "--het-group=1" in argv_of(task, task.job.main, StepPlace({}), [])


def _with(made: World, **changes: Any) -> Any:
    import dataclasses

    return dataclasses.replace(made.run.jobs[0], **changes)


def test_a_node_of_several_runs_what_is_its_own(tmp_path: Path) -> None:
    many = service(("head", "{node_rank}"), worker_argv=("worker", "{node_rank}"), nodes=2, tasks=2)
    task = task_of(tmp_path, many, driver())
    place = StepPlace({"{node_rank}": "1"}, ("n2",), one_of_many=True, rank=1)
    command = argv(task, place)
    assert {"--nodes=1", "--ntasks=1", "--nodelist=n2"} <= {*command}
    assert command[-2:] == ["worker", "1"]


def test_secrets_reach_only_components_that_inherit_them(tmp_path: Path) -> None:
    task = task_of(
        tmp_path, model_server(), driver(inherit=("THE_KEY",)), secrets=("THE_KEY", "OTHER_KEY")
    )
    base = {"THE_KEY": "canary", "OTHER_KEY": "canary", "PATH": "/bin"}
    server, main = task.job.components
    ours = {"PATH": "/bin", "PALESTRA_SERVER_KEY": "{nonce}"}
    assert env_of(task, server, StepPlace({}), base) == ours
    assert env_of(task, main, StepPlace({}), base) == {"PATH": "/bin", "THE_KEY": "canary"}
    assert "canary" not in json.dumps(argv(task))


def test_a_sandbox_sees_nothing_that_looks_like_a_secret(tmp_path: Path) -> None:
    sandbox = Component("sandbox", Role.SANDBOX, ("x",), env={"PALESTRA_SANDBOX_TOKEN": "{nonce}"})
    task = task_of(tmp_path, sandbox, driver())
    base = {"AWS_SECRET_ACCESS_KEY": "x", "HF_TOKEN": "x", "KEYBOARD": "us", "PATH": "/bin"}
    seen = env_of(task, task.job.components[0], StepPlace({"{nonce}": "n"}), base)
    assert seen == {"KEYBOARD": "us", "PATH": "/bin", "PALESTRA_SANDBOX_TOKEN": "n"}
    assert env_of(task, task.job.main, StepPlace({}), base) == base


@pytest.mark.parametrize(("marks", "times"), [(("a", "a", "a"), 1), (("a", "b", "c"), 3)])
def test_what_is_installed_is_installed_once_where_it_is_the_same(
    tmp_path: Path, marks: tuple[str, ...], times: int
) -> None:
    step = driver(
        setup=Setup('test ! -e alone; touch alone; sleep 0.2; rm alone; echo x >> "$OUT"')
    )
    command = with_setup(task_of(tmp_path, step).job.main, ["true"])
    env = {"TMPDIR": str(tmp_path), "OUT": str(tmp_path / "installed"), "PATH": "/usr/bin:/bin"}
    running = [
        subprocess.Popen(command, env={**env, "PALESTRA_INSTALL": mark}, cwd=tmp_path)
        for mark in marks
    ]
    assert [process.wait(30) for process in running] == [0, 0, 0]
    assert (tmp_path / "installed").read_text() == "x\n" * times


def test_commands_before_and_after_stand_around_the_main_step_alone(tmp_path: Path) -> None:
    task = task_of(tmp_path, model_server(), driver(setup=Setup("install it", "before", "after")))
    assert "bash" not in argv(task)
    command = with_setup(task.job.main, ["main", "step"])
    assert command[:2] == ["bash", "-c"]
    assert command[4:] == ["install it", "before", "after", "main", "step"]


def test_what_is_no_plan_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with pytest.raises(BadPlan, match="No such file"):
        read_task(path, "shards", 0)
    path.write_text('{"format": 99}')
    with pytest.raises(BadPlan, match="format is 99"):
        read_task(path, "shards", 0)


def test_a_plan_names_its_jobs_when_one_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BadPlan, match=r"no job 'merg' \(jobs: shards, merge, profile\)"):
        read_task(world(tmp_path).submission.plan, "merg", 0)

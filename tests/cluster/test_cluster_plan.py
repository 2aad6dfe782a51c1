"""Planning is pure: options and a cluster in, jobs with their components out."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
from planning import HOSTED, PYXIS, cluster, facts, options, planned

from palestra.cluster.components import allocations
from palestra.cluster.plan import After, Component, OnExit, Policy, Role, from_json, to_json
from palestra.cluster.planner import plan_run, replan
from palestra.cluster.supervisor.steps import StepPlace, argv_of, read_task
from palestra.errors import ConfigError

SPLIT = {"partition": "gpu", "partitions": {"driver": "cpu", "sandbox": "cpu"}}


def component(name: str, **given: Any) -> Component:
    return Component(name, Role.SERVER, ("x",), **given)


def test_an_allocation_is_the_maximum_over_components_in_any_order() -> None:
    parts = (
        component("a", nodes=2, tasks=2, cpus=4, gpus=8),
        component("b", cpus=16),
        component("c", tasks=4, cpus=2),
    )

    found = {allocations(order, (None,)) for order in itertools.permutations(parts)}

    (asked,) = found.pop()
    assert not found
    assert (asked.nodes, asked.tasks_per_node, asked.gpus_per_node) == (2, 4, 8)
    assert asked.tasks_per_node * asked.cpus_per_task == 16


def test_dependencies_are_the_jobs_whatever_the_order_of_its_components() -> None:
    asked = options(**HOSTED, with_sandbox=True, run_after="earlier")
    run = planned(asked, after=(After("afterok", job_id="7"),))
    job = run.jobs[0]

    for order in itertools.permutations(job.components):
        assert dataclasses.replace(job, components=order).after == (After("afterok", job_id="7"),)


def test_a_judge_has_a_server_and_gpus_of_its_own() -> None:
    judge = {"type": "vllm", "model": "/models/judge", "gpus": 2}
    run = planned(options(**HOSTED, server={"judge": judge}))

    policy_server, judge_server, _driver = run.jobs[0].components
    assert [policy_server.name, judge_server.name] == ["server", "server-judge"]
    assert policy_server.argv[:2] == ("env", "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7")
    assert judge_server.argv[:2] == ("env", "CUDA_VISIBLE_DEVICES=8,9")
    assert run.jobs[0].allocations[0].gpus_per_node == 10
    assert run.further_models == (
        Policy(model="/models/judge", server="server-judge", name="judge"),
    )


def test_a_plan_with_a_judge_is_read_as_it_was_written() -> None:
    run = planned(options(**HOSTED, server=("judge.type=vllm", "judge.model=j", "judge.cpu=true")))

    assert from_json(to_json(run)) == run


@pytest.mark.parametrize("seeds", [1, 3])
def test_every_heterogeneous_job_keeps_its_dependencies(seeds: int) -> None:
    asked = options(**HOSTED, with_sandbox=True, num_random_seeds=seeds)
    run = planned(asked, cluster(**SPLIT), after=(After("afterok", job_id="7"),))

    collecting = [job for job in run.jobs if job.shards]
    assert len(collecting) == seeds
    assert all(job.after == (After("afterok", job_id="7"),) for job in collecting)
    assert all(len(job.allocations) == 2 and not job.array for job in collecting)
    assert {a.job for a in run.job("merge").after} == {job.name for job in collecting}


def test_parts_of_different_partitions_are_groups_and_the_drivers_comes_first() -> None:
    run = planned(options(**HOSTED, with_sandbox=True), cluster(**SPLIT))

    job = run.jobs[0]
    assert {part.name: part.group for part in job.components} == {
        "server": 1,
        "sandbox": 0,
        "driver": 0,
    }
    assert [a.partition for a in job.allocations] == ["cpu", "gpu"]
    assert [a.gpus_per_node for a in job.allocations] == [0, 8]
    assert run.job("merge").allocations[0].partition == "cpu"


def test_a_plan_goes_to_json_and_back() -> None:
    asked = options(**HOSTED, num_random_seeds=2, num_chunks=3, with_sandbox=True)
    run = planned(asked, cluster(**PYXIS, on_exit={"server": "restart(2)"}))

    assert from_json(to_json(run)) == run
    assert run.jobs[0].components[0].on_exit == OnExit("restart", 2)  # type: ignore[arg-type]


def test_the_same_question_has_the_same_answer() -> None:
    asked = options(**HOSTED, num_random_seeds=2)

    assert to_json(planned(asked)) == to_json(planned(asked))


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, ["rollouts"]),
        ({"num_random_seeds": 1}, ["rollouts-rs0"]),
        ({"num_chunks": 2}, ["rollouts-chunk0", "rollouts-chunk1"]),
        ({"random_seeds": "7", "num_chunks": 1}, ["rollouts-rs7-chunk0"]),
    ],
)
def test_a_shard_is_named_after_the_parts_that_a_run_has(
    given: dict[str, Any], names: list[str]
) -> None:
    assert [shard.name for shard in planned(options(**given)).shards] == names


def test_shards_are_tasks_of_one_array_followed_by_merge_and_profile() -> None:
    run = planned(options(num_random_seeds=2, num_chunks=4, array_cap=3))

    collect, merge, profile = run.jobs
    assert (collect.array, len(collect.shards), collect.array_cap) == (True, 8, 3)
    assert merge.after == (After("afterok", job="collect"),)
    assert profile.after == (After("afterok", job="merge"),)


def test_an_array_is_split_above_the_largest_that_the_site_takes() -> None:
    run = planned(options(num_chunks=10), max_array_size=4)

    collecting = [job for job in run.jobs if job.shards]
    assert [len(job.shards) for job in collecting] == [4, 4, 2]
    assert sum((job.shards for job in collecting), ()) == tuple(s.name for s in run.shards)
    assert {a.job for a in run.job("merge").after} == {job.name for job in collecting}


def test_several_arrays_keep_the_cap_by_running_one_after_another() -> None:
    run = planned(options(num_chunks=10, array_cap=2), max_array_size=4)

    first, second, third = [job for job in run.jobs if job.shards]
    assert first.after == ()
    assert second.after == (After("afterany", job=first.name),)
    assert third.after == (After("afterany", job=second.name),)


def test_jobs_that_go_on_past_a_time_limit_follow_each_other_whatever_happened() -> None:
    run = planned(options(num_chunks=2, dependent_jobs=2))

    names = [job.name for job in run.jobs]
    assert names == ["collect", "collect-again-1", "collect-again-2", "merge", "profile"]
    assert run.jobs[2].after == (After("aftercorr", job="collect-again-1"),)
    assert run.job("merge").after == (After("afterok", job="collect-again-2"),)


def test_each_job_comes_after_those_it_depends_on() -> None:
    run = planned(options(num_chunks=9, dependent_jobs=1, array_cap=1), max_array_size=2)

    seen: set[str] = set()
    for job in run.jobs:
        assert {after.job for after in job.after} <= seen
        seen.add(job.name)


def test_a_sandbox_gets_no_mounts_no_secrets_unless_it_is_asked_for() -> None:
    on = cluster(**PYXIS, inherit_env=["HF_TOKEN"])
    key = {"server_address": "http://h/v1", "model": "m", "policy_api_key_env": "KEY"}
    bare = planned(options(with_sandbox=True, **key), on).jobs[0]
    kept = planned(options(with_sandbox=True, keep_mounts_for_sandbox=True, **key), on).jobs[0]

    sandbox, driver = bare.components
    assert (sandbox.mounts, sandbox.inherit) == ((), ())
    assert driver.inherit == ("KEY", "HF_TOKEN")
    assert kept.components[0].mounts == driver.mounts


def test_commands_around_the_main_step_are_its_alone() -> None:
    asked = options(
        **HOSTED, installation_command="make", preprocess_cmd="echo a", postprocess_cmd="echo b"
    )
    server, driver = planned(asked).jobs[0].components

    assert (driver.setup.install, driver.setup.before, driver.setup.after) == (
        "make",
        "echo a",
        "echo b",
    )
    assert server.setup.install == server.setup.before == server.setup.after == ""


def test_nothing_is_installed_unless_a_checkout_is_given() -> None:
    without = planned().jobs[0].main.setup.install
    given = planned(options(gym_path="/my checkout")).jobs[0].main.setup.install

    assert without == ""
    assert given.endswith("-m pip install -e '/my checkout'")


def test_vllm_gets_its_gpus_its_seed_and_a_key_of_the_job() -> None:
    run = planned(options(**HOSTED, num_random_seeds=2))
    server = run.jobs[0].components[0]

    assert server.argv[:3] == ("vllm", "serve", "/models/m")
    assert server.argv[-2:] == ("--tensor-parallel-size", "8")
    assert "{server_seed}" in server.argv
    assert server.env["VLLM_API_KEY"] == "{nonce}"
    assert len({shard.server_seed for shard in run.shards}) == 2


def test_copies_of_vllm_share_its_gpus_behind_one_address() -> None:
    server = planned(options(**HOSTED, server_args="--data-parallel-size 4")).jobs[0].components[0]

    assert server.argv[server.argv.index("--tensor-parallel-size") + 1] == "2"
    assert server.argv[-2:] == ("--data-parallel-size", "4")


def test_vllm_over_nodes_has_a_head_and_workers_without_an_address() -> None:
    server = planned(options(**HOSTED, server_nodes=2)).jobs[0].components[0]

    assert (server.nodes, server.tasks) == (2, 2)
    assert server.argv[-8:-6] == ("--nnodes", "2")
    assert server.argv[-2:] == ("--master-port", "{head_port}")
    assert server.worker_argv == (*server.argv, "--headless")


def test_a_part_of_the_shards_is_not_merged() -> None:
    asked = options(num_chunks=4, chunk_ids="1,3")
    run = planned(asked, wanted=("rollouts-chunk1", "rollouts-chunk3"), complete=False)

    assert [job.name for job in run.jobs] == ["collect"]
    assert run.jobs[0].shards == ("rollouts-chunk1", "rollouts-chunk3")
    assert len(run.shards) == 4


def test_shards_that_failed_are_planned_again_with_what_follows_them() -> None:
    run = planned(options(num_chunks=6), max_array_size=3)

    again = replan(run, ["rollouts-chunk4"], submission="0002", complete=True)

    assert [(job.name, job.shards, job.array) for job in again.jobs] == [
        ("collect-2", ("rollouts-chunk4",), False),
        ("merge", (), False),
        ("profile", (), False),
    ]
    assert again.job("merge").after == (After("afterok", job="collect-2"),)
    assert again.shards == run.shards


def test_an_input_that_nobody_could_read_yet_is_prepared_by_a_job_before_all_others() -> None:
    run = planned(materialized=False, after=(After("afterok", job_id="7"),))

    assert [job.name for job in run.jobs] == ["prepare", "collect", "merge", "profile"]
    assert run.jobs[0].after == (After("afterok", job_id="7"),)
    assert run.jobs[1].after == (After("afterok", job="prepare"),)
    assert [part.role for part in run.jobs[0].components] == [Role.PREPARE]


def test_nodes_of_one_server_meet_at_a_port_of_their_job() -> None:
    for kind in ("vllm", "sglang"):
        asked = options(**{**HOSTED, "server_type": kind}, server_nodes=2)
        server = planned(asked).jobs[0].components[0]

        assert any("{head_port}" in word for word in server.argv)


def test_a_path_that_no_mount_can_be_written_with_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be mounted"):
        planned(options(), cluster(**PYXIS), output_dir="/lustre/a:b,c")

    assert planned(options(), output_dir="/lustre/a:b,c")


@pytest.mark.parametrize(
    ("runtime", "words"),
    [
        ("pyxis", ["--container-image=gym.sqsh", "--container-mounts={}"]),
        ("apptainer", ["apptainer", "exec", "--bind={}", "gym.sqsh"]),
        ("podman", ["podman", "run", "--volume={}", "gym.sqsh", "--env=HF_HOME"]),
    ],
)
def test_rows_that_only_a_container_can_read_are_stamped_in_one(
    tmp_path: Path, runtime: str, words: list[str]
) -> None:
    asked = options(mounts="/nfs/data:/data:ro", installation_command="pip install it")
    on = cluster(**{**PYXIS, "runtime": runtime}, env={"HF_HOME": "/models/hf"})
    run = planned(asked, on, materialized=False, input_file="/data/in.jsonl")
    plan = tmp_path / "plan.json"
    plan.write_bytes(to_json(run))
    task = read_task(plan, "prepare", 0)
    place = StepPlace({"{plan}": "/lustre/out/cluster/0001/plan.json"})

    command = argv_of(task, task.job.main, place, list(task.job.main.env))

    mounts = ["/lustre/models:/models:ro", "/nfs/data:/data:ro"]
    mounts += [f"{path}:{path}" for path in ("/lustre/out", "/lustre/out/logs")]
    wanted = [",".join(sorted(mounts))] if runtime == "pyxis" else mounts
    found = {w if "mounts=" not in w else _sorted_mounts(w) for w in command}
    assert {word.format(m) for word in words for m in wanted} <= found
    main = ["python3", "-m", "palestra", "cluster", "prepare-inputs"]
    assert command[-6:] == [*main, "/lustre/out/cluster/0001/plan.json"]
    assert "pip install it" in command


def _sorted_mounts(flag: str) -> str:
    name, _, listed = flag.partition("=")
    return f"{name}={','.join(sorted(listed.split(',')))}"


def test_the_programs_code_comes_first_on_the_path() -> None:
    run = planned(code="/out/code", workdir="/out/code")

    assert run.jobs[0].main.env["PYTHONPATH"] == "/out/code"
    assert run.jobs[0].main.workdir == "/out/code"


def test_no_variable_of_any_plan_holds_an_expression_of_the_shell() -> None:
    for kind in ("vllm", "sglang", "llama_cpp"):
        asked = options(**{**HOSTED, "server_type": kind}, with_sandbox=True)
        images = {**PYXIS, "containers": dict.fromkeys(("gym", kind), "image")}
        for on in (cluster(), cluster(**images, env={"A": "1"})):
            run = plan_run(asked, on, "x", facts(asked))
            values = [v for job in run.jobs for p in job.components for v in p.env.values()]
            assert not [value for value in values if "$" in value or "`" in value]


@pytest.mark.parametrize(("limit", "before"), [("4:00:00", 120), ("1", 15), ("0:02", 1)])
def test_a_short_job_is_not_warned_before_it_can_begin(limit: str, before: int) -> None:
    assert planned(options(time=limit)).jobs[0].warning_s == before


def test_ports_come_from_the_configured_range() -> None:
    asked = options(**HOSTED, with_sandbox=True)
    server, sandbox, driver = planned(asked, cluster(port_range=[20000, 20100])).jobs[0].components

    assert server.port_range == sandbox.port_range == (20000, 20100)
    assert driver.port_range is None

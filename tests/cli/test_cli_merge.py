"""`palestra merge` and `ng_aggregate_rollouts`: shards that jobs left, merged by their users."""

from pathlib import Path

import pytest
from cli_world import AGENT, MULTI_STEP, OPENAI, TASKS, Done, FakeEndpoint, World

RUN_FILES = ("", "_materialized_inputs", "_failures")


def job(fake: FakeEndpoint, output: str, *arguments: str) -> list[str]:
    """The command of one job."""
    return [
        *("collect", "--config", MULTI_STEP, "--config", OPENAI, *fake.policy),
        *("--agent", AGENT, "--input", TASKS, "--output", output, *arguments),
        *("--repeats", "2", "--progress", "none", "++disable_aggregation=true"),
    ]


def collected(world: World, fake: FakeEndpoint, of: int = 2) -> Path:
    """A folder of shards that as many jobs have collected."""
    for index in range(of):
        output = f"shards/shard{index}.jsonl"
        done = world.run("palestra", *job(fake, output, world.head, "--shard", f"{index}/{of}"))
        assert done.code == 0, done.err
    return world.folder / "shards"


def merge(world: World, *arguments: str) -> Done:
    return world.run("palestra", "merge", *arguments, world.head)


def made_by_hand(world: World, keys: str = "0:0 0:1 1:0", missing: str = "") -> None:
    """Scored rows as another tool leaves them, `task:rollout`, in `runs/a.jsonl`."""
    (world.folder / "runs").mkdir()
    rows = [
        f'{{"_ng_task_index": {task}, "_ng_rollout_index": {rollout}, "reward": 1.0}}\n'
        for task, rollout in (key.split(":") for key in keys.split())
    ]
    world.write("runs/a.jsonl", "".join(row for row in rows if missing not in row or not missing))
    world.write("runs/a_materialized_inputs.jsonl", "".join(rows))


def test_the_accounting_and_the_paths_are_printed(world: World) -> None:
    made_by_hand(world, keys="1:0 0:1 0:0")
    done = merge(world, "all.jsonl", "runs/a.jsonl")

    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "requested 3 = scored 3 + failed 0",
        "  all.jsonl",
        "  all_materialized_inputs.jsonl",
    ]
    assert [row["_ng_task_index"] for row in world.rows("all.jsonl")] == [0, 0, 1]


def test_without_agents_it_says_how_to_get_metrics(world: World) -> None:
    made_by_hand(world)
    done = merge(world, "all.jsonl", "runs")

    assert done.code == 0
    assert "no aggregate metrics: no fleet answers" in done.err
    assert "--config" in done.err


@pytest.mark.slow
def test_gaps_exit_with_1_and_write_nothing(world: World) -> None:
    made_by_hand(world, missing='"_ng_task_index": 1')
    done = merge(world, "all.jsonl", "runs")

    assert done.code == 1
    assert "error: 1 of 3 rollouts are missing\n" in done.err
    assert "neither scored nor given up: 1:0" in done.err
    assert not (world.folder / "all.jsonl").exists()


@pytest.mark.slow
def test_gaps_are_accepted_on_demand_and_counted(world: World) -> None:
    made_by_hand(world, missing='"_ng_task_index": 1')
    done = merge(world, "all.jsonl", "runs", "--allow-partial")

    assert done.code == 0, done.err
    assert "requested 3 = scored 2 + failed 0 + not run 1" in done.out
    assert "rollouts: 2 of 3 have ended (66.7 %); tasks: 1 complete, 0 partial" in done.out


@pytest.mark.slow
def test_merging_again_is_fine_and_merging_something_else_is_not(world: World) -> None:
    made_by_hand(world)
    assert merge(world, "all.jsonl", "runs").code == 0
    again = merge(world, "all.jsonl", "runs")
    assert again.code == 0
    assert "all.jsonl exists already" in again.err

    world.write("runs/a.jsonl", (world.folder / "runs/a.jsonl").read_text().replace("1.0", "0.0"))
    text = merge(world, "all.jsonl", "runs").refused()
    assert "all.jsonl exists already and has other content" in text
    assert merge(world, "all.jsonl", "runs", "--overwrite").code == 0
    assert (world.folder / "all.jsonl.bak").exists()


@pytest.mark.parametrize(
    ("shard", "says"),
    [
        ("nothing.jsonl", "shard nothing.jsonl does not exist"),
        ("*.jsonl", "no file matches *.jsonl"),
        ("all.jsonl", "shard all.jsonl does not exist"),
        ("runs/a_materialized_inputs.jsonl", "no shards to merge in runs/a_materialized"),
    ],
)
def test_what_is_no_shard_is_one_clear_error(world: World, shard: str, says: str) -> None:
    made_by_hand(world)

    assert says in merge(world, "all.jsonl", shard).refused()


def test_an_unknown_setting_is_refused(world: World) -> None:
    made_by_hand(world)

    assert "allow_partail" in merge(world, "all.jsonl", "runs", "++allow_partail=true").refused()


def test_a_shard_may_have_an_equals_sign_in_its_name(world: World) -> None:
    made_by_hand(world)
    (world.folder / "runs").rename(world.folder / "temperature=1")

    assert merge(world, "all.jsonl", "temperature=1").code == 0


def test_the_fields_command_needs_agents(world: World) -> None:
    made_by_hand(world)
    done = world.run(
        "ng_aggregate_rollouts", "+input_glob=runs", "+output_jsonl_fpath=all.jsonl", world.head
    )

    assert done.code != 0
    assert "no fleet answers" in done.err


def test_the_fields_command_needs_to_know_what_to_merge(world: World) -> None:
    text = world.run("ng_aggregate_rollouts", world.head).refused()

    assert "input_glob: is required" in text
    assert "output_jsonl_fpath: is required" in text


def test_the_fields_command_refuses_an_output_that_readers_would_not_find(world: World) -> None:
    files = ("+input_glob=runs", "+output_jsonl_fpath=all")
    text = world.run("ng_aggregate_rollouts", *files, world.head).refused()

    assert "output_jsonl_fpath: should end with .jsonl, such as all/rollouts.jsonl" in text


@pytest.mark.slow
def test_shards_of_jobs_merge_to_the_whole_run_with_its_metrics(
    world: World, fake: FakeEndpoint
) -> None:
    collected(world, fake, of=3)
    fake.models_status = 500  # the model may be gone by now
    done = merge(
        world, "all/run.jsonl", "shards/*", *fake.policy, "--config", MULTI_STEP, "-c", OPENAI
    )

    assert done.code == 0, done.err
    assert "requested 10 = scored 10 + failed 0" in done.out
    assert "mean/reward" in done.out
    assert "all/run_aggregate_metrics.json" in done.out
    keys = [(r["_ng_task_index"], r["_ng_rollout_index"]) for r in world.rows("all/run.jsonl")]
    assert keys == [(task, rollout) for task in range(5) for rollout in range(2)]


@pytest.mark.slow
def test_a_missing_job_is_named(world: World, fake: FakeEndpoint) -> None:
    collected(world, fake, of=3)
    done = merge(world, "all.jsonl", "shards/shard0.jsonl", "shards/shard2.jsonl")

    assert done.code == 1
    assert "of 3 shards these are missing: 1" in done.err


@pytest.mark.slow
def test_a_job_with_other_sampling_is_named(world: World, fake: FakeEndpoint) -> None:
    collected(world, fake, of=1)
    hotter = ["++responses_create_params.temperature=1.5", world.head, "--shard", "0/1"]
    assert world.run("palestra", *job(fake, "shards/hot.jsonl", *hotter)).code == 0
    text = merge(world, "all.jsonl", "shards").refused()

    assert "1 of 2 shards belong to another run" in text
    assert "temperature: " in text


@pytest.mark.slow
def test_a_merged_run_profiles_like_the_run_that_was_never_cut(
    world: World, fake: FakeEndpoint
) -> None:
    assert world.run("palestra", *job(fake, "once/run.jsonl", world.head)).code == 0
    collected(world, fake, of=3)
    assert merge(world, "cut/run.jsonl", "shards").code == 0
    for folder in ("once", "cut"):
        inputs = f"{folder}/run_materialized_inputs.jsonl"
        done = world.run(
            "palestra", "profile", "--inputs", inputs, "--rollouts", f"{folder}/run.jsonl"
        )
        assert done.code == 0, done.err

    def written(name: str) -> list[bytes]:
        return [(world.folder / folder / name).read_bytes() for folder in ("once", "cut")]

    for name in ("run_materialized_inputs.jsonl", "run_reward_profiling.jsonl"):
        once, cut = written(name)
        assert once == cut


@pytest.mark.slow
@pytest.mark.parametrize(
    ("globs", "merge_shards"),
    [('"shards/shard0*,shards/shard1*"', "true"), ("[shards/shard0*,shards/shard1*]", "false")],
)
def test_the_fields_command_aggregates_what_jobs_left(
    world: World, fake: FakeEndpoint, globs: str, merge_shards: str
) -> None:
    collected(world, fake)
    done = world.run(
        "ng_aggregate_rollouts",
        *(f"+config_paths=[{MULTI_STEP},{OPENAI}]", *fake.policy, world.head),
        *(f"+input_glob={globs}", "+output_jsonl_fpath=all/run.jsonl"),
        f"+merge_shards={merge_shards}",
    )

    assert done.code == 0, done.err
    assert (world.folder / "all/run_aggregate_metrics.json").exists()
    assert (world.folder / "all/run.jsonl").exists() == (merge_shards == "true")
    assert [name for name in world.files() if "merging" in name] == []

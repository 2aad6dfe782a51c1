"""`palestra profile` and `ng_reward_profile`, as their users type them."""

import gzip
import json

import pytest
from cli_world import AGENT, MULTI_STEP, OPENAI, World

REF = {"type": "responses_api_agents", "name": AGENT}
INPUTS = "+materialized_inputs_jsonl_fpath=run_materialized_inputs.jsonl"


def made(world: World, scored: str, asked: str = "0:0 0:1 1:0 1:1", stem: str = "run") -> None:
    """A run's files; `scored` has `task:rollout=reward`."""
    inputs = [key(word) | {"responses_create_params": {"input": "hi"}} for word in asked.split()]
    world.write(f"{stem}_materialized_inputs.jsonl", lines(inputs))
    words = (word.split("=") for word in scored.split())
    rollouts = [key(word) | {"reward": json.loads(reward)} for word, reward in words]
    world.write(f"{stem}.jsonl", lines(rollouts))


WHOLE = "0:0=1 0:1=0 1:0=0 1:1=0"


def key(word: str) -> dict[str, object]:
    task, rollout = map(int, word.split(":"))
    return {"_ng_task_index": task, "_ng_rollout_index": rollout, "agent_ref": REF}


def lines(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_whole_run_is_a_table_and_its_files(world: World) -> None:
    made(world, "0:0=1 0:1=0 1:0=0 1:1=0")
    done = world.run("ng_reward_profile", INPUTS, "+rollouts_jsonl_fpath=run.jsonl")

    assert done.code == 0, done.err
    assert "4/4   0.250 [0.000, 1.000]    0.250    0.500" in done.out
    assert "all requested" not in done.out
    assert done.out.splitlines()[-4:] == [
        "  run_reward_profiling.jsonl",
        "  run_agent_metrics.json",
        "  run_report.html",
        "the lowest reward: palestra show run.jsonl 0:1",
    ]


def test_no_reward_is_the_lowest_of_equal_ones(world: World) -> None:
    made(world, "0:0=1 0:1=1 1:0=1 1:1=1")
    done = world.run("ng_reward_profile", INPUTS, "+rollouts_jsonl_fpath=run.jsonl")

    assert done.out.splitlines()[-1] == "a rollout: palestra show run.jsonl 0:0"


def test_a_run_with_gaps_is_refused_with_the_way_out(world: World) -> None:
    made(world, "0:0=1 1:0=0")
    said = world.run("ng_reward_profile", INPUTS, "+rollouts_jsonl_fpath=run.jsonl").refused()

    assert "2 of 4 rollouts are missing from run.jsonl: 0:1, 1:1" in said
    assert "+allow_partial_rollouts=true" in said
    assert "+resume_from_cache=true" in said
    assert not (world.folder / "run_reward_profiling.jsonl").exists()


def test_part_of_a_run_is_counted_and_told_in_both_views(world: World) -> None:
    made(world, "0:0=1 0:1=0 1:0=0")
    done = world.run(
        *("ng_reward_profile", INPUTS, "+rollouts_jsonl_fpath=run.jsonl"),
        "++allow_partial_rollouts=True",
    )

    assert done.code == 0, done.err
    first, *_ = done.out.splitlines()
    assert first == ("rollouts: 3 of 4 completed (75.0 %); tasks: 1 complete, 1 partial, 0 dropped")
    over_scored, over_requested = (line for line in done.out.splitlines() if "0.2" in line)
    assert "3/4" in over_scored
    assert "not ended 1" in over_scored
    assert "1.000 (over 1 of 2 tasks)" in done.out
    assert "0.250–0.500" in over_requested  # noqa: RUF001  # a range takes an en dash


def test_shards_and_packed_files_need_no_inputs_named(world: World) -> None:
    made(world, "0:0=1", asked="0:0", stem="part0")
    made(world, "1:0=0", asked="1:0", stem="part1")
    packed = world.folder / "part1.jsonl"
    packed.with_name("part1.jsonl.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    done = world.run("palestra", "profile", "--rollouts", "part?.jsonl*")

    assert done.code == 0, done.err
    assert "2/2" in done.out
    assert [row["mean/reward"] for row in world.rows("part_reward_profiling.jsonl")] == [1, 0]


def test_rollouts_given_as_inputs_are_recognised(world: World) -> None:
    made(world, "0:0=1")
    said = world.run(
        *("palestra", "profile", "--inputs", "run.jsonl", "--rollouts", "run.jsonl")
    ).refused()

    assert "run.jsonl holds rollouts, not materialized inputs: line 1 (task 0, rollout 0)" in said


def test_settings_of_a_collection_are_named_as_unused(world: World) -> None:
    done = world.run(
        "ng_reward_profile", "+output_jsonl_fpath=o", "+rollouts_jsonl_fpath=run.jsonl"
    )

    assert "ng_reward_profile does not use +output_jsonl_fpath: it reads" in done.err


def test_nothing_to_profile_is_refused(world: World) -> None:
    said = world.run("palestra", "profile").refused()

    assert "--rollouts is required" in said
    assert "palestra profile ROLLOUTS.jsonl" in said


def test_the_environments_own_metrics_need_its_config_and_no_model(world: World) -> None:
    made(world, "0:0=1 0:1=0 1:0=0 1:1=0")
    done = world.run(
        *("palestra", "profile", "--rollouts", "run.jsonl", "--aggregate", world.head),
        *("--config", MULTI_STEP, "--config", OPENAI),
    )

    assert done.code == 0, done.err
    (agent,) = json.loads((world.folder / "run_aggregate_metrics.json").read_text())
    assert agent["agent_ref"] == REF
    assert agent["key_metrics"] == {"mean/reward": 0.25}
    assert "  run_aggregate_metrics.json" in done.out


def test_metrics_are_asked_for_one_plain_file_only(world: World) -> None:
    made(world, "0:0=1 0:1=0 1:0=0 1:1=0")
    world.write("extra.jsonl", "")
    done = world.run(
        *("palestra", "profile", "--inputs", "run_materialized_inputs.jsonl", "--aggregate"),
        *("--rollouts", "run.jsonl", "--rollouts", "extra.jsonl", world.head),
    )

    assert done.code == 2
    assert "`palestra merge` merges shards" in done.err


def test_a_run_may_be_given_without_a_flag(world: World) -> None:
    made(world, WHOLE)
    done = world.run("palestra", "profile", "run.jsonl")

    assert done.code == 0, done.err


def test_an_output_that_cannot_be_written_is_named(world: World) -> None:
    made(world, WHOLE)
    (world.folder / "run_agent_metrics.json").mkdir()
    said = world.run("palestra", "profile", "run.jsonl").refused()

    assert "run_agent_metrics.json: it is a folder" in said


def test_names_from_data_are_shown_and_do_nothing(world: World) -> None:
    made(world, WHOLE)
    for name in ("run.jsonl", "run_materialized_inputs.jsonl"):
        path = world.folder / name
        ref = json.dumps({**REF, "name": "evil\x1b[31m\u202e"})
        path.write_text(path.read_text().replace(json.dumps(REF), ref))
    done = world.run("palestra", "profile", "run.jsonl")

    assert "evil" in done.out
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out


@pytest.mark.parametrize("command", ["profile", "show"])
def test_scores_that_are_doubtful_are_followed_by_a_warning(world: World, command: str) -> None:
    made(world, WHOLE)
    rows = world.rows("run.jsonl")
    rows[0] |= {"reward": 2.5, "outside_reward_rules": [0.0, 1.0]}
    rows[1] |= {"tool_failures": [{"tool": "look_up", "type": "KeyError"}]}
    for row in rows:
        row |= {"reward_components": {"layout": 1.0}, "unused_weights": ["format"]}
    world.write("run.jsonl", lines(rows))

    done = world.run("palestra", command, "run.jsonl")

    warnings = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    parts = ("tool failures", "'format'", "(2.5)")
    assert [part in text for part, text in zip(parts, warnings, strict=True)] == [True] * 3
    assert all("palestra diagnose run.jsonl" in text for text in warnings)
    assert "that may come of the weights" in warnings[2]


def test_rewards_outside_the_rules_are_followed_by_how_they_are_declared(world: World) -> None:
    made(world, WHOLE)
    rows = world.rows("run.jsonl")
    rows[0] |= {"reward": 2.5, "outside_reward_rules": [0.0, 1.0]}
    world.write("run.jsonl", lines(rows))

    assert "RewardRules(highest=2.5)" in world.run("palestra", "profile", "run.jsonl").err


@pytest.mark.parametrize("command", ["profile", "show"])
def test_scores_that_are_not_doubtful_have_no_warning(world: World, command: str) -> None:
    made(world, WHOLE)

    assert "warning" not in world.run("palestra", command, "run.jsonl").err

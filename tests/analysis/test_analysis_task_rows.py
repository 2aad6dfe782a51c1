"""The row of a task, field by field, and the files as bytes."""

import gzip
import json
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palestra.analysis import (
    agent_metrics,
    load_run,
    profile_tasks,
    write_agent_metrics,
    write_reward_profiling,
)
from palestra.errors import InputDataError
from palestra.schema import RunPaths
from profiled_runs import AGENT, Run, failed, lines, materialized, scored

REWARDS = st.sampled_from([0.0, 1.0, 0.1, 0.7, -1.0, 2.5])
ROWS = st.lists(
    st.builds(
        lambda task, rollout, reward, tokens, extra: scored(
            task, rollout, reward, tokens=tokens, **extra
        ),
        st.integers(0, 4),
        st.integers(0, 3),
        REWARDS,
        st.integers(0, 9),
        st.fixed_dictionaries({}, optional={"accuracy": st.booleans(), "score": REWARDS}),
    ),
    min_size=1,
    unique_by=lambda row: (row["_ng_task_index"], row["_ng_rollout_index"]),
)


def test_a_task_row_has_the_fields_of_the_contract(tmp_path: Path) -> None:
    rows = [scored(3, 1, 0.0, tokens=30), scored(3, 0, 1.0, tokens=10, accuracy=True)]
    inputs = [materialized(3, rollout, seed=rollout) for rollout in range(3)]
    failures = [failed(3, 2, "timeout")]
    run = Run.write(tmp_path, rows, inputs=inputs, failures=failures)
    (row,) = profile_tasks(run.load(allow_partial=True))

    head = dict(list(row.items())[:6])
    assert head == {
        "_ng_task_index": 3,
        "sample": {
            "responses_create_params": inputs[0]["responses_create_params"],
            "agent_ref": AGENT,
            "seed": 0,
        },
        "num_rollouts": 2,
        "expected_num_rollouts": 3,
        "missing_num_rollouts": 1,
        "reward_profile_completion_pct": pytest.approx(200 / 3),
    }
    assert [row[f"{name}/output_tokens"] for name in ("mean", "max", "min", "median")] == [
        20.0,
        30.0,
        10.0,
        20.0,
    ]
    assert row["std/output_tokens"] == pytest.approx(200**0.5)
    assert (row["mean/accuracy"], row["std/accuracy"]) == (1.0, 0.0)
    assert row["outcomes"] == {"scored": 2, "timeout": 1}


def test_rollout_infos_hold_every_number_a_rollout_has(tmp_path: Path) -> None:
    rows = [scored(3, 1, 0, tokens=30), scored(3, 0, 1.0, tokens=10, accuracy=True)]
    (row,) = profile_tasks(Run.write(tmp_path, rows).load())

    first, second = row["rollout_infos"]
    assert json.dumps(first) == json.dumps(
        {
            "rollout_id": "3:0",
            "_ng_task_index": 3,
            "_ng_rollout_index": 0,
            "reward": 1.0,
            "accuracy": 1,
            "input_tokens": 7,
            "output_tokens": 10,
        }
    )
    assert "accuracy" not in second
    assert second["rollout_id"] == "3:1"


def test_what_rewards_say_about_a_task(tmp_path: Path) -> None:
    rows = [scored(0, i, reward, tokens=i) for i, reward in enumerate([0.0, 1.0, 1.0, 1.0])]
    (row,) = profile_tasks(Run.write(tmp_path, rows).load())

    assert row["pass_rate"] == 0.75
    assert row["learnability"] == 0.1875
    low, high = row["learnability_interval"]
    assert low < 0.1875 < high == 0.25
    assert row["reward_histogram"]["counts"] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 3]
    assert len(row["reward_histogram"]["edges"]) == 11
    assert row["reward_length_correlation"] == pytest.approx(
        statistics.correlation([0, 1, 1, 1], [0, 1, 2, 3])
    )


def test_a_task_whose_rollouts_lack_a_field_has_no_statistics_of_it(tmp_path: Path) -> None:
    rows = [scored(0, 0, 1.0), scored(1, 0, 1.0, accuracy=False)]
    without, with_field = profile_tasks(Run.write(tmp_path, rows).load())

    assert not any(name.endswith("/accuracy") for name in without)
    assert with_field["mean/accuracy"] == 0.0
    assert without["reward_length_correlation"] is None


def reference(rows: list[dict[str, Any]], field: str) -> dict[str, float]:
    values = [
        float(source[field])
        for row in rows
        for source in (row["response"]["usage"], row)
        if field in source
    ]
    if not values:
        return {}
    return {
        f"mean/{field}": statistics.fmean(values),
        f"max/{field}": max(values),
        f"min/{field}": min(values),
        f"median/{field}": statistics.median(values),
        f"std/{field}": statistics.stdev(values) if len(values) > 1 else 0.0,
    }


@given(ROWS)
@settings(max_examples=30, deadline=None)
def test_statistics_are_those_of_the_rows(rows: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        profiled = list(profile_tasks(Run.write(Path(folder), rows).load()))

    for row in profiled:
        own = [r for r in rows if r["_ng_task_index"] == row["_ng_task_index"]]
        for field in ("reward", "accuracy", "score", "output_tokens"):
            found = {name: row[name] for name in row if name.endswith(f"/{field}")}
            assert found == pytest.approx(reference(own, field), abs=1e-12)


def written(folder: Path, rows: list[Any], inputs: list[Any], failures: list[Any]) -> list[bytes]:
    run = Run.write(folder, rows, inputs=inputs, failures=failures)
    frame = run.load(allow_partial=True, group_by="task_name")
    write_reward_profiling(frame, run.paths.reward_profiling)
    write_agent_metrics(frame, run.paths.agent_metrics)
    return [run.paths.reward_profiling.read_bytes(), run.paths.agent_metrics.read_bytes()]


@pytest.mark.slow
@given(ROWS, st.data())
@settings(max_examples=30, deadline=None)
def test_the_order_of_rows_never_changes_a_byte(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    for place, row in enumerate(rows):
        row["agent_ref"] = {"name": f"agent_{place % 3}"}
    inputs = [materialized(task, rollout, n=rollout) for task in range(5) for rollout in range(4)]
    failures = [failed(0, 0, "timeout"), failed(0, 0, "infra_error"), failed(1, 1, "data_error")]
    shuffled = [data.draw(st.permutations(group)) for group in (rows, inputs, failures)]
    with TemporaryDirectory() as folder:
        in_order = written(Path(folder), rows, inputs, failures)
        assert written(Path(folder), *shuffled) == in_order


@given(ROWS, st.data())
@settings(max_examples=20, deadline=None)
def test_cutting_a_run_into_shards_never_changes_a_byte(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    inputs = [materialized(task, rollout) for task in range(5) for rollout in range(4)]
    shard_of = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    with TemporaryDirectory() as folder:
        whole = written(Path(folder), rows, inputs, [])
        asked = Path(folder, "rollouts_materialized_inputs.jsonl").rename(Path(folder, "asked"))
        Path(folder, "rollouts.jsonl").unlink()
        for shard in range(3):
            own = [row for row, of in zip(rows, shard_of, strict=True) if of == shard]
            Path(folder, f"rollouts{shard}.jsonl").write_text(lines(own))
        frame = load_run(asked, f"{folder}/rollouts*.jsonl", allow_partial=True)
        paths = RunPaths.for_files(frame.rollout_places.files)
        write_reward_profiling(frame, paths.reward_profiling)
        write_agent_metrics(frame, paths.agent_metrics)
        assert [paths.reward_profiling.read_bytes(), paths.agent_metrics.read_bytes()] == whole


def test_only_the_profile_is_left_beside_the_run(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    before = set(tmp_path.iterdir())
    write_reward_profiling(run.load(), run.paths.reward_profiling)

    assert set(tmp_path.iterdir()) - before == {tmp_path / "rollouts_reward_profiling.jsonl"}


def test_inputs_that_changed_meanwhile_leave_the_old_profile(tmp_path: Path) -> None:
    run = Run.write(tmp_path, [scored(0, 0, 1.0)])
    run.paths.reward_profiling.write_text("old")
    frame = run.load()
    run.paths.materialized_inputs.write_text(lines([materialized(8, 0)]))

    with pytest.raises(InputDataError, match="changed while it was being profiled"):
        write_reward_profiling(frame, run.paths.reward_profiling)

    assert run.paths.reward_profiling.read_text() == "old"
    assert not list(tmp_path.glob("*.tmp")) + list(tmp_path.glob(".*.tmp"))


def test_samples_of_compressed_inputs_are_read_in_any_order(tmp_path: Path) -> None:
    inputs = [materialized(task, 0, n=task) for task in (2, 0, 1)]
    run = Run.write(tmp_path, [scored(task, 0, 1.0) for task in range(3)])
    packed = tmp_path / "inputs.jsonl.gz"
    packed.write_bytes(gzip.compress(lines(inputs).encode()))

    rows = profile_tasks(load_run(packed, run.paths.output))

    assert [row["sample"]["n"] for row in rows] == [0, 1, 2]


def test_samples_keep_what_json_libraries_lose(tmp_path: Path) -> None:
    inputs = [materialized(0, 0, seed=2**90, text="\ud800")]
    run = Run.write(tmp_path, [scored(0, 0, 1.0)], inputs=inputs)
    write_reward_profiling(run.load(), run.paths.reward_profiling)

    sample = json.loads(run.paths.reward_profiling.read_text())["sample"]
    assert (sample["seed"], sample["text"]) == (2**90, "\ud800")


@pytest.mark.parametrize("task", [2**70, "\ud800", 'a "quoted" one', ""])
def test_a_task_may_have_any_number_or_name(tmp_path: Path, task: int | str) -> None:
    run = Run.write(tmp_path, [scored(task, 0, 1.0)], inputs=[materialized(task, 0, n=1)])
    write_reward_profiling(run.load(), run.paths.reward_profiling)

    row = json.loads(run.paths.reward_profiling.read_text())
    assert (row["_ng_task_index"], row["sample"]["n"]) == (task, 1)
    assert row["rollout_infos"][0]["rollout_id"] == f"{task}:0"


def test_an_agent_has_the_statistics_of_all_its_rollouts(tmp_path: Path) -> None:
    other = {"name": "another"}
    rows = [scored(0, 0, 1.0), scored(1, 0, 0.0), scored(2, 0, 0.5, agent_ref=other)]
    found = agent_metrics(Run.write(tmp_path, rows).load())

    assert [row["agent_ref"] for row in found] == [other, AGENT]
    assert [row["mean/reward"] for row in found] == [0.5, 0.5]
    assert found[1]["std/reward"] == pytest.approx(0.5**0.5)


def test_a_rollout_without_an_agent_has_that_of_its_materialized_row(tmp_path: Path) -> None:
    row = scored(0, 0, 1.0)
    del row["agent_ref"]

    assert agent_metrics(Run.write(tmp_path, [row]).load())[0]["agent_ref"] == AGENT

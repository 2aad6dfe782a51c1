"""Comparing and scoring runs from Python."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from palestra import api
from palestra.analysis import RateBand, SelectionCriteria
from palestra.errors import BadInput, InputDataError
from palestra.rollouts import provenance_path


def write_run(
    folder: Path, rewards: Sequence[float], *, question: str = "q", repeats: int = 1
) -> str:
    """The files of a run with `repeats` rollouts per task."""
    folder.mkdir()
    indices = [divmod(position, repeats) for position in range(len(rewards))]
    keys = [{"_ng_task_index": task, "_ng_rollout_index": rollout} for task, rollout in indices]
    rows = [
        {"reward": reward, "response": {"model": "tiny"}, **key}
        for key, reward in zip(keys, rewards, strict=True)
    ]
    inputs = [{"responses_create_params": {"input": question}, **key} for key in keys]
    for name, made in (("rollouts", rows), ("rollouts_materialized_inputs", inputs)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    return str(folder / "rollouts.jsonl")


def test_a_better_run_has_a_positive_difference(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", [0, 0, 1, 0]), write_run(tmp_path / "b", [1, 0, 1, 1])

    reward = api.compare(a, b).metrics[0]

    assert (reward.name, reward.difference.value) == ("reward", 0.5)


def test_a_run_is_not_compared_with_itself(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [0, 1])

    with pytest.raises(InputDataError, match="was passed twice"):
        api.compare(run, run)


def test_runs_of_one_name_are_seeds_and_the_model_names_the_others(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, [0, 1]) for name in ("one", "two", "three")]

    table = api.scores([("ours", runs[0]), ("ours", runs[1]), ("", runs[2])], k=1)

    assert [(model.name, len(model.runs)) for model in table.models] == [("ours", 2), ("tiny", 1)]


def test_runs_over_other_rows_have_no_common_table(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", [1]), write_run(tmp_path / "b", [1], question="another")

    with pytest.raises(InputDataError):
        api.scores([("a", a), ("b", b)])


def test_a_profile_is_a_value_and_files(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [0, 1, 1, 0])

    profile = api.profile(run)

    assert profile.summary.total.scored == 4
    assert [path.name for path in profile.rollouts] == ["rollouts.jsonl"]
    assert profile.paths.reward_profiling.exists()
    assert profile.paths.report.exists()


def test_selected_tasks_say_how_they_were_asked_for(tmp_path: Path) -> None:
    run, out = write_run(tmp_path / "a", [0, 1, 1]), tmp_path / "learn.jsonl"
    criteria = SelectionCriteria(band=RateBand.parse("0.5..1"))

    selection = api.select(run, criteria, out=out, command="a notebook")

    assert list(selection.kept) == [1, 2]
    assert len(out.read_text().splitlines()) == 2
    assert json.loads(provenance_path(out).read_text())["command"] == "a notebook"


def test_tasks_that_are_solved_sometimes_are_selected_without_a_criterion(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [0, 1, 1, 1], repeats=2)

    assert list(api.open_run(run).select().kept) == [0]
    assert list(api.select(run, SelectionCriteria()).kept) == [0]


def test_requests_without_a_reward_are_counted_by_class(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [1, 1])
    path = Path(run)
    path.write_text(path.read_text().splitlines(keepends=True)[0])

    selection = api.select(run, SelectionCriteria(by_learnability=True))

    assert selection.failures == {"never ended": 1}


def test_an_output_that_readers_would_not_find_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [1])

    with pytest.raises(BadInput, match=r"such as .*all/rollouts\.jsonl"):
        api.merge([run], tmp_path / "all", allow_partial=True)


def test_a_merge_returns_the_merged_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [1, 0])
    path = Path(run)
    path.write_text(path.read_text().splitlines(keepends=True)[0])

    merged = api.merge([run], tmp_path / "all.jsonl", allow_partial=True)

    assert (merged.scored, merged.requested) == (1, 2)
    assert merged.outcomes == {"scored": 1, "not ended": 1}

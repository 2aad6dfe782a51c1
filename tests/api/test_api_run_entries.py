"""Which runs there are, how far each came, and what they scored."""

from pathlib import Path

import pytest

from listed_runs import answered, failure, write_run
from palestra.api import RunState, list_runs, run_entry
from palestra.engine import Accounting
from palestra.errors import ConfigError, InputDataError
from palestra.rollouts import Progress, ReverifyPaths, ShardOf, announced
from palestra.schema import RunPaths
from profiled_runs import scored


@pytest.fixture(autouse=True)
def _no_run_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALESTRA_RUN_DIR", str(tmp_path / "run-dir"))


def test_a_run_says_what_ran_and_what_it_scored(tmp_path: Path) -> None:
    rows = [scored(task, 0, float(task % 2)) for task in range(8)]
    output = write_run(tmp_path / "a", rows, requested=8)
    [entry] = list_runs(tmp_path)

    assert (entry.environment, entry.model, entry.path) == ("sums", "tiny", output)
    assert (entry.state, entry.scored, entry.failed) == (RunState.DONE, 8, 0)
    assert entry.mean_reward == 0.5
    assert entry.interval is not None
    assert entry.interval[0] < 0.5 < entry.interval[1]


def test_the_newest_run_is_first(tmp_path: Path) -> None:
    for name, started_at in (("old", 1e9), ("new", 1.7e9), ("middle", 1.2e9)):
        write_run(tmp_path / name, [scored(0, 0, 1)], requested=1, started_at=started_at)

    names = [entry.path.parent.name for entry in list_runs(tmp_path)]
    assert names == ["new", "middle", "old"]


def test_a_run_that_has_not_ended_is_stopped_at_its_part(tmp_path: Path) -> None:
    rows = [scored(0, 0, 1), scored(1, 0, 0)]
    write_run(tmp_path / "a", rows, requested=4, failures=[failure(2, "no number")])
    [entry] = list_runs(tmp_path)

    assert (entry.state, entry.ended) == (RunState.STOPPED, 0.75)
    assert (entry.scored, entry.failed) == (2, 1)


def test_an_attempt_that_may_be_followed_by_another_has_not_ended(tmp_path: Path) -> None:
    failures = [failure(1, "no number", terminal=False)]
    write_run(tmp_path / "a", [scored(0, 0, 1)], requested=2, failures=failures)

    assert list_runs(tmp_path)[0].failed == 0


def test_a_run_of_failures_alone_has_no_mean(tmp_path: Path) -> None:
    failures = [failure(task, "no number") for task in range(2)]
    write_run(tmp_path / "a", [], requested=2, failures=failures)
    [entry] = list_runs(tmp_path)

    assert (entry.state, entry.failed, entry.mean_reward) == (RunState.DONE, 2, None)


def test_what_was_not_verified_again_has_ended(tmp_path: Path) -> None:
    failures = [failure(1, "no number", terminal=False)]
    output = write_run(tmp_path / "a", [scored(0, 0, 1)], requested=2, failures=failures)
    RunPaths(output).manifest.unlink()
    ReverifyPaths(output).manifest.write_text("{}")
    [entry] = list_runs(tmp_path)

    assert (entry.state, entry.scored, entry.failed) == (RunState.DONE, 1, 1)


def test_a_run_that_a_command_works_on_is_running(tmp_path: Path) -> None:
    output = write_run(tmp_path / "a", [scored(0, 0, 1)], requested=4)
    progress = Progress(Accounting(4))
    with announced(output, progress):
        [entry] = list_runs(tmp_path)

    assert entry.state is RunState.RUNNING


def test_the_shards_of_a_run_are_one_line(tmp_path: Path) -> None:
    for index in range(2):
        shard = ShardOf(index, 2, requested=2, tasks=2)
        write_run(tmp_path / f"shard-{index}", [scored(0, 0, 1)], requested=1, shard=shard)
    [entry] = list_runs(tmp_path)

    assert (entry.path, entry.requested) == (tmp_path, 2)


def test_a_run_whose_manifest_is_broken_is_listed_with_the_reason(tmp_path: Path) -> None:
    output = write_run(tmp_path / "a", [scored(0, 0, 1)], requested=1)
    output.with_name("rollouts_manifest.json").write_text("{")

    assert list_runs(tmp_path)[0].problem == "rollouts_manifest.json cannot be read"


@pytest.mark.parametrize(
    "name", ["a", "a/rollouts", "a/rollouts.jsonl", "a/rollouts_failures.jsonl"]
)
def test_a_run_is_found_by_its_folder_its_stem_and_its_files(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / "a", [scored(0, 0, 1)], requested=1)

    assert run_entry(tmp_path / name).scored == 1


def test_a_folder_with_several_runs_is_no_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / name, [answered(0, 1)], requested=1)

    with pytest.raises(InputDataError, match="2 runs"):
        run_entry(tmp_path)


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        list_runs(tmp_path / "nowhere")

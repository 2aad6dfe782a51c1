"""Looking at a run again and again, and its rewards once it is done."""

import json
import threading
from pathlib import Path

import pytest
from cluster_runs import World, world

from palestra.cli.clustering import runs as commands
from palestra.cli.clustering.watching import MOST_BYTES, FollowedLogs, until_true
from palestra.cluster.shard import count, write_done
from palestra.errors import ConfigError
from palestra.schema import RunPaths
from palestra.settings import LogsArgs, RunStatusArgs

PROFILE = [
    {
        "agent_ref": {"name": "agent"},
        "summary": {
            "mean_reward": {"scored": 0.5, "interval": [0.25, 0.75]},
            "pass@k": [{"k": 1, "scored": 0.5}, {"k": 2, "scored": 0.8}],
        },
    }
]


def test_what_is_appended_to_a_log_is_printed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\ntw")
    followed = FollowedLogs(lambda: [log])

    followed.print_new()
    with log.open("a") as file:
        file.write("o\n")
    followed.print_new()
    followed.print_new()

    assert capsys.readouterr().out.splitlines()[1:] == ["one", "two"]


def test_a_log_that_appears_later_is_printed_under_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    followed = FollowedLogs(lambda: sorted(tmp_path.glob("*.log")))
    followed.print_new()
    for name in ("a", "b"):
        (tmp_path / f"{name}.log").write_text(f"line of {name}\n")

    followed.print_new()

    printed = capsys.readouterr().out.splitlines()
    assert printed[1::2] == ["line of a", "line of b"]
    assert [line.rpartition("/")[2] for line in printed[::2]] == ["a.log", "b.log"]


def test_at_the_end_of_a_log_all_of_it_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    lines = [f"line {number:09}" for number in range(2 * MOST_BYTES // 15 + 1)]
    log.write_text("\n".join(lines))

    FollowedLogs(lambda: [log]).print_new(to_end=True)

    assert capsys.readouterr().out.splitlines()[1:] == lines


def test_a_line_without_an_end_waits_until_nothing_more_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\n\ntwo")
    followed = FollowedLogs(lambda: [log])

    followed.print_new()
    before = capsys.readouterr().out.splitlines()[1:]
    followed.print_new(to_end=True)

    assert before == ["one", ""]
    assert capsys.readouterr().out.splitlines() == ["two"]


def test_logs_that_are_followed_are_no_document(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--follow and --json"):
        commands.logs(LogsArgs(run=str(tmp_path), follow=True, as_json=True))


def test_what_is_looked_at_again_is_looked_at_until_it_is_true() -> None:
    answers = iter([False, False, True])

    until_true(lambda: next(answers), 0.001)

    assert list(answers) == []


def test_a_watched_run_is_printed_when_it_changes_and_watched_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = finished(tmp_path)

    watching = threading.Thread(
        target=commands.status,
        args=(RunStatusArgs(run=str(made.files.output_dir), watch=True, as_json=True),),
    )
    watching.start()
    watching.join(20)

    assert not watching.is_alive()
    printed = capsys.readouterr().out.splitlines()
    assert [json.loads(text)["active"] for text in printed] == [False]


def finished(tmp_path: Path) -> World:
    """A run whose only shard is done, with a profile."""
    made = world(tmp_path, tasks=2)
    files = made.files.shard(made.run.shards[0].name)
    rows = [
        json.loads(line) for line in made.files.given_inputs(files.name).read_text().splitlines()
    ]
    files.materialized_inputs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scored = [{**row, "reward": float(number)} for number, row in enumerate(rows)]
    files.output.write_text("".join(json.dumps(row) + "\n" for row in scored))
    write_done(files, count(files), {})
    RunPaths(made.files.merged.output).agent_metrics.write_text(json.dumps(PROFILE))
    return made


def test_a_done_file_names_the_mean_reward_of_its_shard(tmp_path: Path) -> None:
    made = finished(tmp_path)

    done = json.loads(made.files.shard(made.run.shards[0].name).done.read_text())

    assert done["mean_reward"] == 0.5


def test_a_shard_with_a_row_without_a_reward_has_no_mean(tmp_path: Path) -> None:
    made = finished(tmp_path)
    files = made.files.shard(made.run.shards[0].name)
    files.output.write_text(files.output.read_text().replace('"reward": 1.0', '"reward": null'))

    assert count(files).mean_reward is None


def test_the_status_of_a_run_shows_the_reward_of_each_shard(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = finished(tmp_path)

    commands.status(RunStatusArgs(run=str(made.files.output_dir), as_json=True))

    [shard] = [
        unit for unit in json.loads(capsys.readouterr().out)["units"] if unit["kind"] == "shard"
    ]
    assert shard["mean_reward"] == 0.5


def test_the_reward_of_a_whole_run_has_its_interval_and_pass_at_k() -> None:
    line = commands.reward_line({"agent": "agent", **PROFILE[0]["summary"]})

    assert line == "agent: mean reward 0.500 [0.250, 0.750] pass@1 0.500 pass@2 0.800"


def test_a_pass_at_k_over_few_tasks_says_over_how_many() -> None:
    views = [{"k": k, "scored": 0.5, "tasks_scored": tasks} for k, tasks in ((1, 40), (8, 7))]
    summary = {"mean_reward": {"scored": 0.5, "interval": None}, "pass@k": views}

    line = commands.reward_line({"agent": "agent", **summary})

    assert line.endswith("pass@1 0.500 pass@8 0.500 (over 7 of 40 tasks)")

"""Files that only grow, row by whole row, and what a kill or a full disk makes of them."""

import subprocess
import sys
from pathlib import Path

import pytest
from scripted_runs import answer, paths, read_rows

from palestra.errors import InfraError, InputDataError
from palestra.rollouts import FailedRow, Journal, JournalFailed, Scored, repair
from palestra.rollouts.results import failed, scored
from palestra.schema import RunPaths


def row(task: int, rollout: int = 0) -> dict[str, object]:
    return {"_ng_task_index": task, "_ng_rollout_index": rollout, "agent_ref": {"name": "agent"}}


def a_score(task: int) -> Scored:
    return scored(row(task), answer(1.0))


def a_failure(task: int) -> FailedRow:
    return failed(
        row(task), InfraError("gone"), attempt=1, max_attempts=3, started_at=0.0, elapsed_s=0.1
    )


def test_scores_and_failures_go_to_their_own_files(tmp_path: Path) -> None:
    with Journal(paths(tmp_path)) as journal:
        journal.append(a_score(1))
        journal.append(a_failure(2))
        journal.append(a_score(3))
        journal.sync()

    assert [r["_ng_task_index"] for r in read_rows(paths(tmp_path).output)] == [1, 3]
    assert [r["_ng_task_index"] for r in read_rows(paths(tmp_path).failures)] == [2]


def test_a_row_is_on_disk_when_it_is_acknowledged(tmp_path: Path) -> None:
    with Journal(paths(tmp_path)) as journal:
        journal.append(a_score(1))

        assert len(read_rows(paths(tmp_path).output)) == 1


def test_it_adds_to_what_is_there(tmp_path: Path) -> None:
    for task in (1, 2):
        with Journal(paths(tmp_path)) as journal:
            journal.append(a_score(task))

    assert [r["_ng_task_index"] for r in read_rows(paths(tmp_path).output)] == [1, 2]


def test_a_run_without_failures_has_no_failures_file(tmp_path: Path) -> None:
    with Journal(paths(tmp_path)) as journal:
        journal.append(a_score(1))

    assert not paths(tmp_path).failures.exists()


def test_files_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    paths(tmp_path).failures.mkdir()
    with pytest.raises(InputDataError, match=r"run_failures\.jsonl: Is a directory"):
        Journal(paths(tmp_path)).__enter__()


def test_a_closed_journal_takes_nothing(tmp_path: Path) -> None:
    with pytest.raises(JournalFailed, match="not open"):
        Journal(paths(tmp_path)).append(a_score(1))


def test_a_full_disk_is_a_journal_failure_that_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").symlink_to("/dev/full")
    with Journal(paths(tmp_path)) as journal, pytest.raises(JournalFailed) as caught:
        journal.append(a_score(1))

    assert "No space left on device" in caught.value.message
    assert "--resume" in caught.value.hint


def test_a_file_that_cannot_be_synced_is_a_journal_failure(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").symlink_to("/dev/full")
    with Journal(paths(tmp_path)) as journal, pytest.raises(JournalFailed, match=r"run\.jsonl"):
        journal.sync()


FILL = """
import resource, sys
from pathlib import Path
from palestra.errors import Outcome
from palestra.engine import ScoredEnding
from palestra.schema import RunPaths
from palestra.rollouts import Journal, JournalFailed, Scored
from palestra.schema import RolloutKey
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with Journal(RunPaths(Path(sys.argv[1]))) as journal:
    for length in (600, 700, 300, 500, 50):
        line = b'"' + b"x" * (length - 2) + b'"'
        try:
            journal.append(Scored(RolloutKey(0, 0), ScoredEnding(Outcome.SCORED, 1.0), line))
        except JournalFailed:
            print("failed", length)
"""


def test_a_row_that_did_not_fit_leaves_only_whole_rows(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(output)], capture_output=True, text=True, check=True
    )

    assert done.stdout == "failed 700\nfailed 500\n"
    assert [len(line) for line in output.read_text().splitlines()] == [600, 300, 50]


WHOLE = b'{"a": 1}\n\n{"b": "\xc3\xa9"}\n{"c": 3}\n'


@pytest.mark.parametrize("size", range(len(WHOLE) + 1))
def test_repair_keeps_the_whole_lines_of_a_file_cut_anywhere(tmp_path: Path, size: int) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(WHOLE[:size])
    kept = WHOLE[: WHOLE.rfind(b"\n", 0, size) + 1]

    assert repair(path) == size - len(kept)
    assert path.read_bytes() == kept


def test_repair_finds_the_line_break_before_a_very_long_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"whole\n" + b"x" * 200_000)

    assert repair(path) == 200_000
    assert path.read_bytes() == b"whole\n"


def test_there_is_nothing_to_repair_in_a_missing_file(tmp_path: Path) -> None:
    assert repair(tmp_path / "run.jsonl") == 0
    assert list(tmp_path.iterdir()) == []


def test_every_file_of_a_run_stands_beside_its_output(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "rollouts.v2.jsonl")

    assert [path.name for path in run.recorded()] == [
        "rollouts.v2.jsonl",
        "rollouts.v2_materialized_inputs.jsonl",
        "rollouts.v2_failures.jsonl",
        "rollouts.v2_manifest.json",
        "rollouts.v2_aggregate_metrics.json",
    ]

"""By which run's rewards the tasks of a file were chosen."""

import json
from pathlib import Path
from typing import Any

import pytest

from palestra.rollouts import provenance_path
from palestra.rollouts.lineage import SelectedFrom, selections

RUN = {"rollouts": ["/runs/r.jsonl"], "rewards_digest": "d"}


def selected(tasks: Path, run: dict[str, Any]) -> list[SelectedFrom]:
    """The runs that chose `tasks`, of which the provenance names two tasks of `run`."""
    fields = {"tasks": [1, 2], "run": run, "criteria": {"failed": False}}
    provenance_path(tasks).write_text(json.dumps(fields))
    return list(selections([tasks]))


@pytest.mark.parametrize(("run_tasks", "runs"), [(3, 1), (2, 0)])
def test_a_part_of_the_tasks_was_chosen_and_all_of_them_were_not(
    run_tasks: int, runs: int, tmp_path: Path
) -> None:
    assert len(selected(tmp_path / "sel.jsonl", {**RUN, "tasks": run_tasks})) == runs


def test_a_file_of_an_older_version_says_only_what_it_knows(tmp_path: Path) -> None:
    earlier = {"rollouts": ["/runs/earlier.jsonl"], "rewards_digest": "e"}

    [origin] = selected(tmp_path / "sel.jsonl", {**RUN, "selected_from": [earlier]})

    assert origin.rewards_digest == "e"


def test_a_compressed_selection_has_the_provenance_of_the_plain_one(tmp_path: Path) -> None:
    selected(tmp_path / "sel.jsonl", {**RUN, "tasks": 3})

    assert len(list(selections([tmp_path / "sel.jsonl.gz"]))) == 1

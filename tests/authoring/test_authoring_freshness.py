"""Data that no longer fits its environment is told, in one note."""

import json
from pathlib import Path
from typing import Any

import pytest

from palestra.authoring import scaffold
from palestra.authoring.folders import foreign_rollouts, rejected_rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A new environment's folder."""
    return scaffold("fresh_env", tmp_path)


def rows(folder: Path, name: str = "example.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "data" / name).read_text().splitlines()]


def test_what_a_new_folder_holds_belongs_together(folder: Path) -> None:
    assert rejected_rows(folder, rows(folder)) == ""
    assert foreign_rollouts(rows(folder, "example_rollouts.jsonl"), rows(folder)) == ""


def test_rows_without_a_field_that_the_verifier_asks_for_now_are_named(folder: Path) -> None:
    (field,) = {"expected_answer"} & rows(folder)[0].keys()
    stale = [{name: row[name] for name in row if name != field} for row in rows(folder)]

    note = rejected_rows(folder, [rows(folder)[0], *stale[1:2]])

    assert note.startswith("row 1: ")
    assert field in note


def test_rollouts_of_other_rows_are_named(folder: Path) -> None:
    recorded = rows(folder, "example_rollouts.jsonl")

    note = foreign_rollouts(recorded, rows(folder)[:3])

    assert note.startswith("rollouts of none of the rows in example.jsonl: 3, 4;")


def test_an_environment_that_cannot_be_made_here_is_left_to_its_tests(folder: Path) -> None:
    (folder / "app.py").write_text("import a_package_that_nobody_has\n")

    assert rejected_rows(folder, [{"whatever": 1}]) == ""

"""A field to group rollouts by that no row has is named before anything runs."""

from pathlib import Path

import pytest
from scripted_runs import task, write_rows

from palestra.rollouts import unknown_field
from palestra.settings import InputFile


@pytest.fixture
def inputs(tmp_path: Path) -> list[InputFile]:
    write_rows(tmp_path / "tasks.jsonl", [{**task(1), "topic": "algebra"}, task(2)])
    return [InputFile(tmp_path / "tasks.jsonl")]


def test_a_field_that_no_row_has_is_named_with_the_nearest(inputs: list[InputFile]) -> None:
    problem = unknown_field("topc", inputs)

    assert "'topc'" in problem
    assert "did you mean 'topic'" in problem


@pytest.mark.parametrize("path", ["topic", "topic.level", "agent_ref.name", "response.status"])
def test_a_field_of_a_row_or_of_every_result_is_known(path: str, inputs: list[InputFile]) -> None:
    assert unknown_field(path, inputs) == ""

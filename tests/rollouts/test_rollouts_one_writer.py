"""Two collections never write to the same files."""

from pathlib import Path

import pytest

from palestra.errors import InputDataError
from palestra.rollouts import Journal
from palestra.rollouts.journal import check_free
from palestra.schema import RunPaths


def test_a_second_writer_is_refused_while_the_first_is_there(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run.jsonl")

    with Journal(paths), pytest.raises(InputDataError, match="another collection"):
        check_free(paths.output)

    check_free(paths.output)


def test_a_journal_that_cannot_be_opened_leaves_the_writer_alone(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run.jsonl")

    with Journal(paths), pytest.raises(InputDataError, match="another collection"), Journal(paths):
        pass

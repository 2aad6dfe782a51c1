"""Rows that the command makes become a file when the run begins, and not before."""

from dataclasses import replace
from pathlib import Path

import pytest

from palestra.errors import InputDataError
from palestra.rollouts import begin, discard, plan, read_manifest
from palestra.settings import CollectSettings, InputFile

CONTENT = b'{"responses_create_params": {"input": "a"}}\n'


def settings(folder: Path, content: bytes = CONTENT) -> CollectSettings:
    made = InputFile(folder / "run" / "r_tasks.jsonl", agent="agent", content=content)
    return CollectSettings(inputs=(made,), output_jsonl_fpath=folder / "run" / "r.jsonl")


def test_rows_that_are_made_are_written_once_the_run_begins(tmp_path: Path) -> None:
    planned = plan(settings(tmp_path), agents={"agent"}, semantics={}, version="1")
    tasks = tmp_path / "run" / "r_tasks.jsonl"
    assert not tasks.exists()

    begun = begin(planned)

    assert tasks.read_bytes() == CONTENT
    assert read_manifest(begun.paths.manifest).inputs == (str(tasks),)
    discard(begun)  # nothing was recorded
    assert not tasks.parent.exists()


def test_a_refused_plan_leaves_the_rows_of_the_run_that_is_there(tmp_path: Path) -> None:
    begin(plan(settings(tmp_path), agents={"agent"}, semantics={}, version="1"))
    other = replace(settings(tmp_path, CONTENT.replace(b'"a"', b'"b"')), resume_from_cache=True)

    with pytest.raises(InputDataError, match="input rows differ"):
        plan(other, agents={"agent"}, semantics={}, version="1")

    assert (tmp_path / "run" / "r_tasks.jsonl").read_bytes() == CONTENT

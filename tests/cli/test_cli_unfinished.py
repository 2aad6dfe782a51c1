"""Which unfinished run `eval … --resume` goes on with."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from palestra.api import unfinished_run
from palestra.errors import ConfigError
from palestra.rollouts import Journal, begin, intended, plan
from palestra.schema import RunPaths
from palestra.settings import CollectSettings, InputFile

MADE_FROM: dict[str, Any] = {"agents": {"agent"}, "semantics": {"temperature": 1.0}, "version": "1"}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings(moment: str, rows: str = "ab") -> CollectSettings:
    """Of a run over a file of rows, the same one for every run."""
    tasks = Path("tasks.jsonl").absolute()
    tasks.write_text(
        "".join(json.dumps({"responses_create_params": {"input": text}}) + "\n" for text in rows)
    )
    output = Path(f"runs/env-20260101-{moment}/rollouts.jsonl").absolute()
    return CollectSettings(inputs=(InputFile(tasks, agent="agent"),), output_jsonl_fpath=output)


def begun(moment: str) -> RunPaths:
    return begin(plan(settings(moment), **MADE_FROM)).paths


def resumed(rows: str = "ab", *, max_attempts: int = 3) -> Path:
    run, agents = intended(settings("235959", rows), **MADE_FROM)
    return unfinished_run("env", run, agents, max_attempts=max_attempts)


def test_looking_for_the_run_to_resume_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    newest = begun("000001")
    monkeypatch.setattr(tempfile, "mkdtemp", pytest.fail)
    before = sorted(Path.cwd().rglob("*"))

    assert resumed() == newest.output
    assert sorted(Path.cwd().rglob("*")) == before


def test_other_rows_in_the_same_file_are_another_run() -> None:
    newest = [begun("000001"), begun("000002")][-1]
    assert resumed() == newest.output

    with pytest.raises(ConfigError, match="2 of 2 left; the input rows differ"):
        resumed("xy")


def test_a_run_that_another_process_is_writing_is_left_to_it() -> None:
    older, newer = begun("000001"), begun("000002")

    with Journal(newer):
        assert resumed() == older.output
        older.manifest.unlink()
        with pytest.raises(ConfigError, match="being written by another collection"):
            resumed()


@pytest.mark.parametrize(("max_attempts", "goes_on"), [(3, False), (4, True)])
def test_as_many_attempts_as_were_spent_are_no_more(max_attempts: int, goes_on: bool) -> None:
    run = begin(plan(settings("000001"), **MADE_FROM))
    paths = run.paths
    run.manifest.write(paths.manifest, ended_counts={"timeout": 2})
    spent = {"attempt": 3, "_ng_failure_class": "timeout", "_ng_failure_terminal": True}
    rows = [{"_ng_task_index": n, "_ng_rollout_index": 0, "retriable": True} for n in (0, 1)]
    paths.failures.write_text("".join(json.dumps({**row, **spent}) + "\n" for row in rows))

    if goes_on:
        assert resumed(max_attempts=max_attempts) == paths.output
    else:
        with pytest.raises(ConfigError, match="there is no unfinished run"):
            resumed(max_attempts=max_attempts)

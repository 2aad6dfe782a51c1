"""What a collection prints when it has ended."""

import json
from pathlib import Path

import pytest

from palestra.cli.collecting import report
from palestra.engine import Accounting
from palestra.errors import Outcome
from palestra.rollouts import Collected, Manifest, PreparedRun
from palestra.schema import RunPaths
from palestra.settings import CollectSettings


def failure(task: int) -> str:
    fields = {"_ng_task_index": task, "_ng_rollout_index": 0, "attempt": 1, "message": "it broke"}
    ending = {"_ng_failure_class": "environment_error", "_ng_failure_terminal": True}
    return json.dumps({**fields, **ending}) + "\n"


def test_the_failed_rollout_to_look_at_is_the_first_in_the_order_of_the_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = RunPaths(Path("r.jsonl"))
    paths.failures.write_text(failure(1) + failure(0))  # in the order in which they ended
    accounting = Accounting(2)
    accounting.ended[Outcome.ENVIRONMENT_ERROR] = 2
    run = PreparedRun(paths, Manifest("digest", {}, 2, 2, "1"), accounting, frozenset())

    code = report(Collected(accounting), run, CollectSettings((), paths.output), metrics=False)

    printed = capsys.readouterr().err
    assert code == 1
    assert "palestra show r.jsonl 0:0 shows the first failed rollout" in printed
    assert "`palestra select r.jsonl --failed --out r_again.jsonl` writes their tasks" in printed

"""Tables at the widths of terminals: numbers whole, lines no longer than the terminal."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from palestra.cli.fleet_commands import show_instances, show_statuses
from palestra.cli.profiling_commands import profile_files
from palestra.cli.tables import print_key_metrics, print_table
from palestra.fleet import InstanceState, ServerStatus

WIDTHS = (60, 80, 100, 120, 200)
SHAPES: dict[str, tuple[str, str, list[tuple[Any, ...]]]] = {
    # columns, those of numbers, rows
    "profile": (
        "group,tasks,scored,mean reward,pass@1,pass@4,never,sometimes,always,tokens out,failures",
        "tasks,scored,mean reward,pass@1,pass@4,never,sometimes,always,tokens out",
        [
            (
                "extract_environment_agent",
                400,
                "15964/16000",
                "0.414 [0.387, 0.441]",
                "0.414",
                "0.871 (300 tasks)",
                "10%",
                "47%",
                "43%",
                "402",
                "infra_error 3, verifier_error 36",
            )
        ],
    ),
    "verify-env": (
        "check,result,probes,findings,note",
        "probes,findings",
        [("injection", "skipped", 12345, 678, "no right answer is known for these rows, so " * 3)],
    ),
    "cluster": (
        "unit,standing,rollouts,job,reason",
        "rollouts",
        [("servers/rollouts-007", "running", "1048576/1048576", "4123456_12", "Priority " * 9)],
    ),
    "reverify": (
        "environment,rows,unchanged,changed,no previous,failed,mean reward",
        "rows,unchanged,changed,no previous,failed,mean reward",
        [("my_environment", 16000, 15964, 36, 0, 12, "0.41423 -> 0.51423")],
    ),
    "compare": (
        "metric,before,after,difference,interval,decision",
        "before,after,difference,interval",
        [("mean reward", "0.41423", "0.51423", "+0.10000", "[0.08123, 0.12345]", "better")],
    ),
}
NUMBER = re.compile(r"[\d.,/%+\[\]-]*\d[\d.,/%+\[\]-]*")

Printed = Callable[[int], str]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Standard output taken for a terminal of so many columns."""

    def of(columns: int) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "dumb-but-coloured")
        monkeypatch.setenv("COLUMNS", str(columns))

    return of


def plain(text: str) -> list[str]:
    return re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_number_is_broken_and_no_line_is_longer_than_the_terminal(
    shape: str,
    width: int,
    terminal: Callable[[int], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal(width)
    columns, numeric, rows = SHAPES[shape]

    print_table(columns.split(","), rows, right=numeric)

    lines = plain(capsys.readouterr().out)
    assert max(map(len, lines)) <= width
    names = columns.split(",")
    for row in rows:
        for name, cell in zip(names, row, strict=True):
            if name in numeric.split(","):
                assert any(str(cell) in line for line in lines), (name, cell)
        for number in NUMBER.findall(" ".join(map(str, row))):
            assert any(number in line for line in lines), number


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_of_servers_names_the_columns_it_has_no_room_for(
    width: int, terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(width)
    server = SimpleNamespace(
        name="my_environment_agent",
        server_type="responses_api_agents",
        role="agent",
        placement="process",
        urls=["http://127.0.0.1:54321"],
        state="ready",
    )

    show_instances([server])

    lines = plain(capsys.readouterr().out)
    assert max(map(len, lines)) <= width
    assert any("my_environment_agent" in line and "54321" in line for line in lines)
    shown = any("responses_api_agents" in line for line in lines)
    assert shown is not any("not shown" in line and "type" in line for line in lines)


def test_the_status_of_servers_breaks_no_address_and_no_number(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(60)
    url = "http://127.0.0.1:54321"
    server = ServerStatus(
        "weather_agent",
        "responses_api_agents",
        url,
        41234,
        12.0,
        InstanceState.STUCK,
        "it stands still",
    )

    show_statuses([server])

    lines = plain(capsys.readouterr().out)
    assert max(map(len, lines)) <= 60
    for whole in (url, "41234", "✗ weather_agent", "stuck", "it stands still"):
        assert any(whole in line for line in lines), whole


def test_the_profile_of_a_run_fits_80_columns(
    tmp_path: Path, terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(80)
    key = '"_ng_task_index":0,"_ng_rollout_index":0,"agent_ref":{"name":"an_environment_agent"}'
    (tmp_path / "r.jsonl").write_text(f'{{"reward":0.4142,"response":{{}},{key}}}\n')
    (tmp_path / "r_materialized_inputs.jsonl").write_text(
        f'{{"responses_create_params":{{}},{key}}}\n'
    )

    profile_files(None, tmp_path / "r.jsonl", allow_partial=False, group_by=None)

    lines = plain(capsys.readouterr().out)
    table = [line for line in lines if str(tmp_path) not in line]
    assert max(map(len, table)) <= 80
    assert any(re.search(r"mean reward +0\.414", line) for line in table)


def test_key_metrics_keep_their_names_and_numbers_whole(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    terminal(60)
    name = "mean/a_metric_with_a_long_name/of_some_category_of_tasks"
    entries = [{"agent_ref": {"name": "agent"}, "key_metrics": {name: 418.4123}}]

    print_key_metrics(entries, tmp_path / "none.jsonl")

    lines = plain(capsys.readouterr().out)
    assert max(map(len, lines)) <= 60
    assert any("418.4" in line for line in lines)


def test_means_of_what_the_tasks_hold_are_no_key_metrics(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    inputs = tmp_path / "inputs.jsonl"
    inputs.write_text('{"id": 2, "label": 418}\n')
    metrics = {"mean/reward": 0.5, "mean/id": 2.0, "mean/label": 418.0, "mean/accuracy": 0.5}
    metrics |= {"mean/_ng_attempt_index": 3, "mean/previous_reward": 0.25}

    print_key_metrics([{"agent_ref": {"name": "agent"}, "key_metrics": metrics}], inputs)

    out = capsys.readouterr().out
    assert "mean/reward" in out
    assert "mean/accuracy" in out
    assert "mean/id" not in out
    assert "mean/label" not in out
    assert "mean/_ng_attempt_index" not in out
    assert "mean/previous_reward" not in out


def test_what_is_piped_is_neither_cut_nor_turned(capsys: pytest.CaptureFixture[str]) -> None:
    columns, numeric, rows = SHAPES["profile"]

    print_table(columns.split(","), rows, right=numeric, spare="tokens out")

    [line] = [line for line in capsys.readouterr().out.splitlines() if "extract_env" in line]
    assert all(str(cell) in line for cell in rows[0])

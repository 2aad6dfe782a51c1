"""The command that collects a selection."""

import shlex
from pathlib import Path

import pytest

from palestra.cli.recollecting import command_for

EVAL = "palestra eval g.py --model local --repeats 4"
COLLECT = "palestra collect --config c.yaml --agent a"
NG = "ng_collect_rollouts +config_paths=[c.yaml] +agent_name=a"


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        (EVAL, f"{EVAL} --input sel.jsonl"),
        (f"{EVAL} -o r.jsonl --limit 5", f"{EVAL} --input sel.jsonl --output sel_rollouts.jsonl"),
        (
            f"{COLLECT} --input=t.jsonl -or.jsonl --resume --on-stale restart --shard 1/2 +limit=3",
            f"{COLLECT} --input sel.jsonl --output sel_rollouts.jsonl",
        ),
        (
            "gym eval run --benchmark b --split train -o r.jsonl --overwrite",
            "gym eval run --benchmark b --input sel.jsonl --output sel_rollouts.jsonl",
        ),
        (
            f"{NG} +input_jsonl_fpath=t.jsonl ++output_jsonl_fpath=r.jsonl +overwrite=true",
            f"{NG} +input_jsonl_fpath=sel.jsonl +output_jsonl_fpath=sel_rollouts.jsonl",
        ),
        (
            "palestra eval g.py --judge 'limit=3 words' --output o.jsonl",
            "palestra eval g.py --judge 'limit=3 words' --input sel.jsonl --output sel_rollouts.jsonl",
        ),
        ("palestra eval g.py --set -input", "palestra eval g.py --set -input --input sel.jsonl"),
        (
            "palestra eval g.py --set output=x",
            "palestra eval g.py --set output=x --input sel.jsonl",
        ),
        ("palestra eval limit --json limit=3", "palestra eval limit --json --input sel.jsonl"),
        (
            "gym eval run --no-serve +limit=3 -v --agent -a -o r.jsonl",
            "gym eval run --no-serve -v --agent -a --input sel.jsonl --output sel_rollouts.jsonl",
        ),
        ("__main__.py eval g.py", "palestra eval g.py --input sel.jsonl"),
        ("palestra.evaluate('g.py', model='local')", ""),
        ("palestra reverify --rollouts r.jsonl", ""),
        ("", ""),
    ],
)
def test_the_command_reads_the_selection_and_writes_elsewhere(
    recorded: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert shlex.split(command_for(recorded, Path("sel.jsonl"))) == shlex.split(expected)


def test_an_output_that_exists_is_not_written_again(tmp_path: Path) -> None:
    (tmp_path / "sel_rollouts_failures.jsonl").touch()

    command = command_for(f"{COLLECT} -o r.jsonl", tmp_path / "sel.jsonl")

    assert shlex.split(command)[-1] == str(tmp_path / "sel_rollouts_2.jsonl")

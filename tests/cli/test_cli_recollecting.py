"""The command that collects a selection."""

import shlex
from pathlib import Path

import pytest

from palestra.cli.recollecting import command_for, in_words_of_run
from palestra.rollouts import Manifest
from palestra.schema import SELECT_FAILED, RunPaths

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


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        (NG, "+resume_from_cache=true with a higher +max_attempts=N; --allow-partial"),
        ("gym eval run -o r.jsonl", "--resume with a higher +max_attempts=N; --allow-partial"),
        (EVAL, "--resume with a higher --max-attempts; --allow-partial"),
        ("", "--resume with a higher --max-attempts; --allow-partial"),
    ],
)
def test_advice_about_a_run_has_the_flags_of_the_command_that_collected_it(
    recorded: str, expected: str, tmp_path: Path
) -> None:
    paths = RunPaths(tmp_path / "r.jsonl")
    Manifest("digest", {}, 1, 1, "1", command=recorded).write(paths.manifest)

    words = in_words_of_run(paths.output, "--resume with a higher --max-attempts; --allow-partial")

    assert words == expected


def test_advice_about_a_run_names_its_path_and_a_file_that_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    Path("out/r.jsonl").touch()
    Path("out/r_again.jsonl").touch()

    advice = in_words_of_run("out/r.jsonl", f"`{SELECT_FAILED}` writes them")

    assert advice == "`palestra select out/r.jsonl --failed --out out/r_again_2.jsonl` writes them"


def test_advice_about_shards_names_their_glob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("part0.jsonl").touch()
    Path("part1.jsonl").touch()

    advice = in_words_of_run("part*.jsonl", SELECT_FAILED)

    assert shlex.split(advice)[2:] == ["part*.jsonl", "--failed", "--out", "part_again.jsonl"]

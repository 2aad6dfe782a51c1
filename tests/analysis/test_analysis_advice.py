"""Advice about a run, for the users of the program that collected it."""

import shlex
from pathlib import Path

import pytest

from palestra.analysis import advice_about
from palestra.rollouts import Manifest
from palestra.schema import SELECT_FAILED, RunPaths

EVAL = "palestra eval g.py --model local --repeats 4"
NG = "ng_collect_rollouts +config_paths=[c.yaml] +agent_name=a"


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

    words = advice_about(paths.output)("--resume with a higher --max-attempts; --allow-partial")

    assert words == expected


def test_advice_about_a_run_names_its_path_and_a_file_that_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    Path("out/r.jsonl").touch()
    Path("out/r_again.jsonl").touch()

    advice = advice_about("out/r.jsonl")(f"`{SELECT_FAILED}` writes them")

    assert advice == "`palestra select out/r.jsonl --failed --out out/r_again_2.jsonl` writes them"


VERIFIED = "palestra reverify {0} {1} --with-failures --output {2} --config c.yaml` scores 1"


def test_advice_about_a_run_that_was_copied_is_about_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out 2").mkdir()
    Path("out 2/r.jsonl").touch()
    recorded = VERIFIED.format("--rollouts", "out/r.jsonl", "out/r_reverified.jsonl")

    advice = advice_about("out 2/r.jsonl")(recorded)

    assert advice == VERIFIED.format("--rollouts", "'out 2/r.jsonl'", "'out 2/r_reverified.jsonl'")


def test_advice_about_a_run_in_its_place_keeps_the_recorded_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.jsonl").touch()
    recorded = VERIFIED.format("--rollouts", "r.jsonl", "elsewhere.jsonl")

    assert advice_about("r.jsonl")(recorded) == recorded


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ("--config c.yaml", "--config {}/c.yaml"),
        ("--environment e.py:E", "--environment {}/e.py:E"),
        (
            "'+config_paths=[c.yaml,mcqa/absent.yaml]'",
            "'+config_paths=[{}/c.yaml,mcqa/absent.yaml]'",
        ),
        ("--environment mcqa", "--environment mcqa"),
        ("--config /c.yaml", "--config /c.yaml"),
    ],
)
def test_advice_names_files_of_the_folder_of_the_collection_as_seen_from_here(
    recorded: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected, here = tmp_path / "collected", tmp_path / "here"
    for file in (collected / "out/r.jsonl", collected / "c.yaml", collected / "e.py"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (collected / "mcqa").mkdir()
    here.mkdir()
    files = "--rollouts out/r.jsonl --with-failures --output out/r_reverified.jsonl"

    monkeypatch.chdir(here)
    advice = advice_about("../collected/out/r.jsonl")(f"reverify {files} {recorded}` scores it")

    assert advice.endswith(f"{expected.format('../collected')}` scores it")


def test_advice_about_shards_names_their_glob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("part0.jsonl").touch()
    Path("part1.jsonl").touch()

    advice = advice_about("part*.jsonl")(SELECT_FAILED)

    assert shlex.split(advice)[2:] == ["part*.jsonl", "--failed", "--out", "part_again.jsonl"]


RAISE = "raise it: ++responses_create_params.max_output_tokens=N"
RENAME = "then ++policy_model_name=NAME"
MOVE = "give ++policy_base_url=http://HOST:PORT/v1"


@pytest.mark.parametrize(
    ("recorded", "advice", "expected"),
    [
        ("palestra eval g.py --model local", RAISE, "raise it: --max-output-tokens N"),
        ("palestra eval g.py ++responses_create_params.max_output_tokens=4", RAISE, RAISE),
        ("palestra collect g.py --output r.jsonl", RAISE, RAISE),
        ("gym eval run -o r.jsonl", RAISE, "raise it: --max-output-tokens N"),
        (NG, RAISE, RAISE),
        ("palestra.evaluate('g.py')", RAISE, 'raise it: sampling={"max_output_tokens": N}'),
        ("palestra eval g.py --model vllm:m@http://h/v1", RENAME, "then --model vllm:NAME@http://h/v1"),
        ("palestra eval g.py --model=vllm:http://h/v1", RENAME, RENAME),
        ("palestra eval g.py --model vllm:m@http://h/v1", MOVE, "give --model vllm:m@http://HOST:PORT/v1"),
        ("palestra collect g.py --model vllm:http://h/v1", MOVE, "give --model vllm:http://HOST:PORT/v1"),
        ("palestra collect g.py ++policy_base_url=http://h/v1", MOVE, MOVE),
    ],
)  # fmt: skip
def test_advice_gives_a_setting_as_the_command_takes_it(
    recorded: str, advice: str, expected: str, tmp_path: Path
) -> None:
    paths = RunPaths(tmp_path / "r.jsonl")
    Manifest("digest", {}, 1, 1, "1", command=recorded).write(paths.manifest)

    assert advice_about(paths.output)(advice) == expected

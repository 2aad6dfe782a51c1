"""`--json`: one document on standard output, the value of Python's front door; all else beside it."""

import contextlib
import io
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_world import FakeEndpoint, World

import palestra
from listed_runs import COLLECTORS, answered, failure, write_run, write_unfinished
from palestra.cli.console import say_json, stdout_for_json
from palestra.cli.main import app

NOISY = """import os
import subprocess

from palestra import environment

print("noise of the import")


@environment(data=[{"q": "a", "want": "done"}], prompt="{q}", gold="{want}")
def verify(answer: str, want: str) -> float:
    print("noise of the verifier")
    os.write(1, b"noise of a library\\n")
    subprocess.run(["echo", "noise of a child"], check=True)
    return float(answer == want)
"""
MAKE_OR_SERVE = {
    "benchmark prepare",
    "cluster merge-runs",
    "cluster merge-shards",
    "cluster rollouts",
    "cluster run-cmd",
    "completion",
    "dataset delete",
    "dataset download",
    "dataset import",
    "dataset migrate",
    "dataset upload",
    "init",
    "models fetch",
    "render-prompts",
    "run",
    "sandbox serve",
    "serve-model llama-cpp",
    "serve-model vllm",
    "serve-rollouts",
    "skills install",
}
"""Commands that have no result but what they start, send or write."""


@pytest.fixture
def runs(world: World) -> World:
    """A folder with two runs of three tasks; in one a rollout failed."""
    write_run(world.folder / "a", [answered(n, float(n > 1)) for n in range(3)], requested=3)
    rollouts = [answered(0, 1.0), answered(1, 1.0)]
    write_run(world.folder / "b", rollouts, requested=3, failures=[failure(2, "no number")])
    return world


def document(world: World, *words: str) -> Any:
    """The one document of a command that ends well."""
    done = world.run("palestra", *words, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def plain(value: object) -> Any:
    return json.loads(json.dumps(value))


RESULTS: dict[str, Callable[[Path], Any]] = {
    "profile a": lambda at: palestra.open_run(at / "a").profile().to_dict(),
    "scores a --k 1": lambda at: palestra.scores([str(at / "a")], k=1).to_dict(),
    "diagnose a": lambda at: {**palestra.open_run(at / "a").diagnose().to_dict(), "run": "a"},
    "show b 2:0": lambda at: palestra.open_run(at / "b").rollout(2, 0).to_dict(),
    "runs .": lambda at: [entry.to_dict() for entry in palestra.runs(at)],
}


@pytest.mark.parametrize("words", RESULTS)
def test_the_document_is_what_python_returns(
    runs: World, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = document(runs, *words.split())
    monkeypatch.chdir(runs.folder)

    assert out == plain(RESULTS[words](Path()))


def test_a_run_is_shown_with_its_failures(runs: World) -> None:
    out = document(runs, "show", "b")

    assert palestra.open_run(runs.folder / "b").to_dict().items() <= out.items()
    assert [group["task"] for group in out["failures"]] == [2]


def test_a_comparison_has_its_gate(runs: World) -> None:
    out = document(runs, "compare", "a", "b")

    assert (out["tasks"], out["gate"]) == (3, None)


def test_a_selection_has_its_criteria_and_verdicts(runs: World) -> None:
    out = document(runs, "select", "a", "--band", "0.5..1", "--out", "kept.jsonl")

    assert (out["kept"], out["counts"]["too hard"]) == ([2], 2)
    assert out["out"] == "kept.jsonl"


def test_a_failed_run_has_a_document_too(runs: World) -> None:
    done = runs.run("palestra", "diagnose", "b", "--json")

    (counts,) = json.loads(done.out)["counts"].values()
    assert (done.code, counts["failed"]) == (1, 1)


@pytest.mark.parametrize(("collector", "resume"), COLLECTORS.items())
def test_advice_in_json_is_that_of_the_terminal(world: World, collector: str, resume: str) -> None:
    write_unfinished(world.folder / "a", collector)
    diagnosed = json.loads(world.run("palestra", "diagnose", "a", "--json").out)
    rollout = document(world, "show", "a", "1:0")
    [counts] = diagnosed["counts"].values()
    printed = world.run("palestra", "diagnose", "a").out

    assert f"{resume} with a higher" in counts["what_helps"]
    assert f"what helps: {counts['what_helps']}" in printed
    assert all(finding["next_action"] in printed for finding in diagnosed["findings"])
    assert rollout["remedy"].startswith(resume)
    assert rollout["attempts"][0]["hint"].startswith(f"{resume} with")
    assert rollout["remedy"] in world.run("palestra", "show", "a", "1:0").out


def test_wrong_input_has_no_document(runs: World) -> None:
    done = runs.run("palestra", "profile", "nope.jsonl", "--json")

    assert done.refused()
    assert done.out == ""


def test_two_things_cannot_have_standard_output(world: World) -> None:
    words = ("eval", "mcqa", "--model", "local", "--json", "--json-events", "-")

    assert "--json and --json-events -" in world.run("palestra", *words).refused()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "has"),
    [
        (("eval", "noisy.py", "--model"), "outcomes"),
        (("collect", "noisy.py", "--output", "c/r.jsonl", "--model"), "outcomes"),
        (("doctor", "noisy.py", "--model"), "findings"),
        (("verify-env", "noisy.py"), "checks"),
        (("test", "noisy.py"), ""),
    ],
)
def test_what_authors_code_prints_is_beside_the_document(
    world: World, fake: FakeEndpoint, words: tuple[str, ...], has: str
) -> None:
    world.write("noisy.py", NOISY)
    model = ("openai:tiny", *fake.policy) if words[-1] == "--model" else ()
    done = world.run("palestra", *words, *model, "--json")

    assert has in json.loads(done.out) or not has, done.err
    assert "noise" not in done.out
    assert "noise of the" in done.err


@pytest.mark.slow
def test_reverified_rows_are_counted_in_a_document(world: World, fake: FakeEndpoint) -> None:
    world.write("noisy.py", NOISY)
    model = ("--model", "openai:tiny", *fake.policy)
    run = document(world, "eval", "noisy.py", "--output", "a/r.jsonl", *model)
    again = document(world, "reverify", "-r", "a", "-o", "b.jsonl", "-e", "noisy.py")

    assert (run["mean_reward"], run["outcomes"]) == (1.0, {"scored": 1})
    assert (again["rows"], Path(again["output"]).name) == (1, "b.jsonl")


def test_a_program_that_keeps_both_streams_in_one_gets_the_document() -> None:
    both = io.StringIO()
    with contextlib.redirect_stdout(both), contextlib.redirect_stderr(both), stdout_for_json():
        say_json({"findings": []})

    assert json.loads(both.getvalue()) == {"findings": []}


def leaves(command: Any, *words: str) -> Iterator[tuple[str, Any]]:
    """Each command that users call, with the words that name it."""
    below = getattr(command, "commands", {})
    for name, inner in below.items():
        yield from leaves(inner, *words, name)
    if not below and not command.hidden:
        yield " ".join(words), command


def test_every_command_with_a_result_has_the_flag() -> None:
    commands = dict(leaves(typer.main.get_command(app)))
    del commands["gym"]  # which has flags of its own
    without = {
        words
        for words, command in commands.items()
        if not any("--json" in parameter.opts for parameter in command.params)
    }

    assert without == MAKE_OR_SERVE


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_full_disk_behind_standard_output_is_one_error(world: World, flags: list[str]) -> None:
    words = shlex.join([str(world.scripts / "palestra"), "list", *flags])
    command = ["sh", "-c", f"{words} > /dev/full"]
    done = subprocess.run(command, check=False, cwd=world.folder, capture_output=True, text=True)

    assert done.returncode == 1
    assert done.stderr.splitlines()[0].startswith("error: cannot write what the command prints: ")
    assert len(done.stderr.splitlines()) == 2

"""What people expect of any command line: short help, examples, plain text, completion."""

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_world import World

import palestra
from palestra.cli.completing import candidates, completion, script_path
from palestra.cli.examples import EXAMPLES
from palestra.cli.main import app
from palestra.settings import CompletionArgs

ROOT: Any = typer.main.get_command(app)


def leaves(command: Any, *words: str) -> Iterator[tuple[str, Any]]:
    """Each command that users call, with the words that name it."""
    below = getattr(command, "commands", {})
    for name, inner in below.items():
        yield from leaves(inner, *words, name)
    if not below and not command.hidden:
        yield " ".join(words), command


def above() -> Any:
    """The context of a group in the root, for a command in it."""
    root = ROOT.make_context("palestra", [], resilient_parsing=True)
    return ROOT.make_context("group", [], parent=root, resilient_parsing=True)


COMMANDS = dict(leaves(ROOT))
del COMMANDS["gym"]  # which has a help of its own


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_examples_in_its_help(words: str) -> None:
    command = COMMANDS[words]
    context = command.make_context(words, [], parent=above(), resilient_parsing=True)
    help_text = command.get_help(context)

    assert "Examples:" in help_text
    assert all(line in help_text for line in EXAMPLES[words])


@pytest.mark.parametrize("line", sorted({line for lines in EXAMPLES.values() for line in lines}))
def test_every_example_is_a_command_line_that_is_understood(line: str) -> None:
    words = shlex.split(line)[1:]
    command = ROOT
    while (below := getattr(command, "commands", {})) and words[0] in below:
        command = below[words.pop(0)]
    command = below.get("check", command)

    assert command.make_context(line, words, parent=above())


@pytest.mark.parametrize("words", [(), ("list",), ("eval",), ("cluster", "status")])
def test_the_short_flag_shows_the_help_everywhere(world: World, words: tuple[str, ...]) -> None:
    short, long = (world.run("palestra", *words, flag) for flag in ("-h", "--help"))

    assert (short.code, short.out) == (0, long.out)
    assert short.out.startswith("Usage: palestra")


def test_the_version_is_a_flag_of_the_root(world: World) -> None:
    done = world.run("palestra", "--version")

    assert (done.code, done.out.split()[:2]) == (0, ["palestra", palestra.__version__])


@pytest.mark.parametrize("words", [("--no-color", "list"), ("list", "--no-color")])
def test_no_color_may_stand_anywhere(world: World, words: tuple[str, ...]) -> None:
    world.environment["FORCE_COLOR"] = "1"

    assert "\x1b" in world.run("palestra", "list").out
    assert "\x1b" not in world.run("palestra", *words).out


@pytest.mark.parametrize("variable", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_the_environment_can_ask_for_plain_text(world: World, variable: tuple[str, str]) -> None:
    name, value = variable
    world.environment |= {"FORCE_COLOR": "1", name: value}

    assert "\x1b" not in world.run("palestra", "list").out


def test_no_color_behind_a_program_is_the_programs(world: World) -> None:
    done = world.run("palestra", "cluster", "run-cmd", "--dry-run", "echo", "--no-color")

    assert "No such option" not in done.err


def test_a_misspelt_command_and_a_misspelt_flag_get_the_nearest(world: World) -> None:
    assert "did you mean 'show'" in world.run("palestra", "shwo").err
    assert "--repeats" in world.run("palestra", "eval", "mcqa", "--repets", "3").err


@pytest.mark.parametrize(
    "words",
    [
        ("version",),
        ("list",),
        ("list", "--kind", "models"),
        ("show", "mcqa"),
        ("runs",),
    ],
)
def test_json_is_one_document_on_standard_output(world: World, words: tuple[str, ...]) -> None:
    done = world.run("palestra", *words, "--json")

    assert done.code == 0
    json.loads(done.out)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("palestra ", "list"),
        ("palestra sh", "show"),
        ("palestra cluster ", "status"),
        ("palestra eval --rep", "--repeats"),
        ("palestra eval mc", "mcqa"),
        ("palestra --ver", "--version"),
        ("palestra show 'mc", "mcqa"),
    ],
)
def test_words_are_completed(line: str, expected: str) -> None:
    assert expected in [value for value, _ in candidates(ROOT, line)]


def test_files_are_left_to_the_shell() -> None:
    assert list(candidates(ROOT, "palestra profile runs/")) == []
    assert list(candidates(ROOT, "palestra eval mcqa ")) == []


def test_hidden_commands_are_not_completed() -> None:
    assert "drive" not in [value for value, _ in candidates(ROOT, "palestra cluster ")]


@pytest.mark.slow
def test_bash_completes_with_the_script(world: World) -> None:
    script = world.run("palestra", "completion", "bash").out
    program = f"""{script}
COMP_LINE='palestra ev' COMP_POINT=11
_palestra
echo "${{COMPREPLY[@]}}"
"""
    path = os.pathsep.join([str(world.scripts), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
        env={**os.environ, "PATH": path},
    )

    assert done.stdout.split() == ["eval"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_installed_where_its_shell_looks(
    shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    completion(CompletionArgs(shell=shell, install=True))

    assert "PALESTRA_COMPLETE" in script_path(shell).read_text()
    assert script_path(shell).is_relative_to(tmp_path)


def test_an_unknown_shell_is_refused_with_those_there_are(world: World) -> None:
    error = world.run("palestra", "completion", "tcsh").refused()

    assert "'bash', 'zsh' or 'fish'" in error

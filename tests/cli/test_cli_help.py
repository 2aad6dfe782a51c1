"""What the commands say about themselves."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from cli_world import World

import palestra
from palestra.cli.main import app

SLOW = {
    "aiohttp",
    "fastapi",
    "numpy",
    "palestra.datasets",
    "palestra.fleet",
    "palestra.rollouts",
    "palestra.schema",
    "palestra.server",
    "palestra.transport",
}
COMMANDS = sorted(
    (command.name or getattr(command.callback, "__name__", "").replace("_", "-"))
    for command in app.registered_commands
    if not command.hidden
)


def test_the_help_lists_every_command(world: World) -> None:
    done = world.run("palestra", "--help")

    assert done.code == 0
    assert [name for name in COMMANDS if name not in done.out] == []


@pytest.mark.parametrize("group", ["", "cluster", "dataset", "benchmark", "serve-model", "models"])
def test_the_list_of_commands_cuts_no_sentence(world: World, group: str) -> None:
    done = world.run("palestra", *group.split(), "--help")

    commands = done.out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert commands
    assert [line for line in commands if not line.endswith(".") or line.endswith("...")] == []


def test_the_help_shows_what_a_flag_takes(world: World) -> None:
    out = world.run("palestra", "collect", "--help").out

    for flag in (
        "--split train|validation|benchmark|example",
        "--limit N",
        "--rollout-timeout SECONDS",
        "--min-coverage NUMBER",
        "--set KEY=VALUE",
        "--config FILE",
    ):
        assert flag in out


def test_the_commands_are_the_ones_that_work() -> None:
    assert COMMANDS == [
        "collect",
        "compare",
        "completion",
        "config",
        "diagnose",
        "eval",
        "gym",
        "init",
        "list",
        "merge",
        "pip-list",
        "prepare",
        "profile",
        "render-prompts",
        "reverify",
        "run",
        "runs",
        "scores",
        "select",
        "serve-rollouts",
        "show",
        "status",
        "test",
        "verify-env",
        "version",
        "view",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(world: World, command: str) -> None:
    done = world.run("palestra", command, "--help")

    assert done.code == 0
    assert f"Usage: palestra {command}" in done.out


def test_no_help_waits_for_code_that_only_the_command_needs() -> None:
    """What is slow to import; `benchmarks.startup` has the figures."""
    words = [(), *_paths(typer.main.get_command(app))]
    code = f"""
import contextlib, io, sys
from palestra.cli.main import app
loaded = set()
for path in {words!r}:
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
        app([*path, "--help"])
    assert "Usage: " in shown.getvalue(), path
    new = {SLOW!r} & (set(sys.modules) - loaded)
    loaded |= new
    if new:
        print(*path, "imports", *sorted(new))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50
    )

    assert done.stdout.splitlines() == []


def _paths(command: Any, *names: str) -> Iterator[tuple[str, ...]]:
    """The words that name a command, and those below it."""
    if names:
        yield names
    for name, below in getattr(command, "commands", {}).items():
        yield from _paths(below, *names, name)


@pytest.mark.parametrize("word", ["+help=true", "--help"])
def test_the_fields_commands_explain_themselves(world: World, word: str) -> None:
    done = world.run("ng_run", word)

    assert done.code == 0
    assert "ng_run: start every server of the configuration" in done.out


def test_the_list_of_commands_is_complete(world: World) -> None:
    done = world.run("ng_help")

    assert {"ng_run", "ng_status", "ng_collect_rollouts", "ng_reward_profile"} < set(
        done.out.split()
    )


def test_the_version_can_be_read_by_machines(world: World) -> None:
    facts = json.loads(world.run("ng_version", "+json=true").out)

    assert facts["palestra"] == palestra.__version__
    assert facts["dependencies"]["pydantic"]


def test_the_version_can_be_read_by_people(world: World) -> None:
    assert world.run("palestra", "version").out.startswith(f"palestra {palestra.__version__} ")


def test_an_unknown_command_is_refused(world: World) -> None:
    done = world.run("palestra", "colect")

    assert done.code == 2
    assert "no such command 'colect'" in done.err


@pytest.mark.slow
def test_without_a_fleet_the_status_says_how_to_start_one(world: World) -> None:
    ours, theirs = world.run("palestra", "status", world.head), world.run("ng_status", world.head)

    assert (ours.code, theirs.code) == (1, 0)
    assert ours.out == theirs.out == "No Palestra servers found running.\n"
    assert "palestra run" in ours.err


def test_the_configuration_is_printed_without_its_secrets(world: World) -> None:
    world.write("env.yaml", "policy_api_key: sk-very-secret-key\nother: is sk-very-secret-key\n")
    done = world.run("ng_dump_config")

    assert done.code == 0
    assert "sk-very-secret-key" not in done.out
    assert "policy_api_key: '****'" in done.out


@pytest.mark.parametrize("typed", ["ns nemo_gym_rollouts", "ns run_cmd", "nemo_gym_rollouts"])
def test_a_pipelines_command_calls_itself_what_was_typed(world: World, typed: str) -> None:
    helped, refused = (world.run(*typed.split(), option) for option in ("--help", "--no-such"))

    assert (helped.code, refused.code) == (0, 2)
    assert helped.out.startswith(f"Usage: {typed} [OPTIONS] [")
    assert f"hint: {typed} -h lists what it takes" in refused.err

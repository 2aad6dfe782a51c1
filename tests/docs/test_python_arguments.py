"""The table of arguments in `docs/how-to/python.md` is that of the functions and of the flags."""

import asyncio
import inspect
import re
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import typer.main
from documents import REPOSITORY

import palestra
from palestra.cli.main import app
from palestra.errors import ConfigError, UnknownArgument, UnusableCall

COMMANDS = {
    "evaluate": "eval",
    "collect": "collect",
    "compare": "compare",
    "scores": "scores",
    "merge": "merge",
    "Run.rollouts": "",
    "Run.profile": "profile",
    "Run.select": "select",
    "Run.reverify": "reverify",
}
"""The functions, and the command that each is."""


def listed() -> list[tuple[list[str], list[str], list[str]]]:
    """The functions, the arguments and the flags of each line of the table."""
    text = (REPOSITORY / "docs/how-to/python.md").read_text().partition("## Arguments")[2]
    lines = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return [
        (*(re.findall(r"`([^`]+)`", cells[at]) for at in (0, 1, 3)),)  # type: ignore[misc]
        for cells in lines
        if len(cells) == 4
    ]


@pytest.mark.source
@pytest.mark.parametrize("function", COMMANDS)
def test_the_arguments_of_a_function_are_listed(function: str) -> None:
    names = set(inspect.signature(attrgetter(function)(palestra)).parameters) - {"self"}

    assert {
        name for functions, own, _ in listed() if function in functions for name in own
    } == names


@pytest.mark.source
@pytest.mark.parametrize("function", COMMANDS)
def test_the_flags_that_are_listed_are_those_of_the_command(function: str) -> None:
    flags = {flag for functions, _, own in listed() if function in functions for flag in own}
    command: Any = typer.main.get_command(app)
    parameters = command.commands[COMMANDS[function]].params if flags else ()

    assert flags <= {name for parameter in parameters for name in parameter.opts}


@pytest.mark.parametrize(
    ("function", "name", "nearest"),
    [
        ("evaluate", "rollout_timeout", "'rollout_timeout_s'"),
        ("acollect", "repeat", "'repeats'"),
        ("compare", "metric", "'metrics'"),
        ("Run.select", "learnability", "'by_learnability'"),
    ],
)
def test_a_misspelt_argument_is_refused_with_the_nearest(
    function: str, name: str, nearest: str
) -> None:
    with pytest.raises(UnknownArgument, match=nearest) as caught:
        asyncio.run(attrgetter(function)(palestra)(**{name: 1}))

    assert isinstance(caught.value, TypeError)
    assert caught.value.argument == name


def test_functions_that_are_awaited_are_known_as_such() -> None:
    assert inspect.iscoroutinefunction(palestra.aevaluate)
    assert not inspect.iscoroutinefunction(palestra.evaluate)


@pytest.mark.source
def test_the_message_about_a_value_of_another_type_is_the_one_that_is_printed() -> None:
    text = (REPOSITORY / "docs/how-to/python.md").read_text().partition("## Arguments")[2]
    quoted = re.search(r"`(\w+)=([\d.]+) (should be [^`]+)`", text)
    assert quoted is not None

    with pytest.raises(ConfigError) as caught:
        palestra.evaluate("absent.py", **{quoted[1]: float(quoted[2])})

    assert caught.value.message == f"{quoted[1]}={quoted[2]} {quoted[3]}"


@pytest.mark.parametrize(
    ("function", "name", "advice"),
    [
        ("evaluate", "max_tokens", "sampling={'max_output_tokens': …}"),
        ("evaluate", "max_output_tokens", "sampling={'max_output_tokens': …}"),
        ("collect", "temperature", "sampling={'temperature': …}"),
        ("aevaluate", "api_key", "palestra.Model(NAME, api_key=…"),
        ("evaluate", "n", "'repeats'"),
        ("evaluate", "epochs", "'repeats'"),
        ("evaluate", "input", "'data'"),
        ("evaluate", "models", "'model'"),
        ("evaluate", "max_connections", "'concurrency'"),
        ("Run.profile", "by", "'group_by'"),
        ("Model", "apikey", "'api_key'"),
        ("runs", "dir", "runs has no argument 'dir'"),
    ],
)
def test_an_argument_as_other_products_call_it_is_answered_with_ours(
    function: str, name: str, advice: str
) -> None:
    with pytest.raises(UnknownArgument) as caught:
        asyncio.run(attrgetter(function)(palestra)(**{name: 1}))

    assert advice in caught.value.message


@pytest.mark.parametrize(
    ("function", "arguments"),
    [("compare", 1), ("compare", 9), ("open_run", 0), ("evaluate", 0), ("Model", 0), ("Model", 9)],
)
def test_a_call_with_too_few_or_too_many_arguments_is_refused(
    function: str, arguments: int
) -> None:
    with pytest.raises(UnusableCall, match=f"^{function}: ") as caught:
        attrgetter(function)(palestra)(*["local"] * arguments)

    assert isinstance(caught.value, TypeError)


def test_a_model_of_a_provider_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'openai'") as caught:
        palestra.Model("openia:gpt")

    assert caught.value.message.startswith("name 'openia:gpt'")


def test_a_setting_of_a_file_is_answered_with_settings(tmp_path: Path) -> None:
    file = tmp_path / "game.py"
    file.write_text(
        "from palestra import Environment\nclass Game(Environment):\n    tries: int = 1\n"
    )

    with pytest.raises(UnknownArgument) as raised:
        palestra.evaluate(str(file), tries=2)  # type: ignore[call-arg]

    assert "write settings={'tries': 2}" in raised.value.message


def test_a_setting_of_a_class_is_answered_with_settings() -> None:
    class Game(palestra.Environment):
        tries: int = 1

    with pytest.raises(UnknownArgument) as raised:
        palestra.evaluate(Game, tries=2)  # type: ignore[call-arg]

    assert "write settings={'tries': 2}" in raised.value.message

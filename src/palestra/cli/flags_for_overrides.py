"""Overrides that `palestra` has a flag for: the error names the flag to type."""

import shlex
from collections.abc import Sequence
from typing import Any

from palestra.config import error_of, is_secret_name
from palestra.errors import ConfigError, KnownCause, Problem

_TRUE = frozenset({"true", "yes", "on", "1"})


def with_flags_named(error: ConfigError, arguments: Sequence[str]) -> ConfigError:
    """Return the error in which an unknown override that is a flag of the command is answered with the
    flag. `arguments`: the command line.
    """
    if not any(problem.cause is KnownCause.MISSPELT_SETTING for problem in error.problems):
        return error
    options = _options_of(arguments)
    problems = [_with_flag(problem, options, arguments) for problem in error.problems]
    if all(new is old for new, old in zip(problems, error.problems, strict=True)):
        return error
    return error_of(problems, hint=error.hint)


def _with_flag(problem: Problem, options: Sequence[Any], arguments: Sequence[str]) -> Problem:
    key = problem.key
    typed = next((word for word in arguments if word.lstrip("+").startswith(f"{key}=")), "")
    if not key or not typed or problem.cause is not KnownCause.MISSPELT_SETTING:
        return problem
    spelled = f"--{key.replace('_', '-')}"
    option = next((item for item in options if spelled in item.opts or item.name == key), None)
    if option is None:
        return problem
    flag = spelled if spelled in option.opts else option.opts[0]
    value = typed.partition("=")[2]
    words = [flag] if option.is_flag else [flag, "VALUE" if is_secret_name(key) else value]
    if option.is_flag and value.lower() not in _TRUE:
        return problem
    return Problem(
        f"{key} is a flag of this command, not an override",
        key=key,
        hint=f"write {shlex.join(words)}",
        cause=problem.cause,
    )


def _options_of(arguments: Sequence[str]) -> list[Any]:
    """Return the options of the command that a command line calls."""
    import typer

    from palestra.cli.main import app

    command: Any = typer.main.get_command(app)
    for word in arguments:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
    if default_name := getattr(command, "default_command", ""):
        command = command.commands[default_name]
    return [item for item in command.params if item.param_type_name == "option"]

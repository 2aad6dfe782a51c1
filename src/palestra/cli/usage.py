"""Errors in a command line, as one line in the words that were typed, and exit code 2."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn, cast

import typer

from palestra.cli.console import notice

UsageError: Final = cast(type[Exception], typer.BadParameter.__base__)
"""The base class of Typer's errors in a command line, which has no public name."""
_NO_COMMAND: Final = "NoArgsIsHelpError"
"""The error of a group of commands that was called without a command: its text is the help."""
EXIT_CODE: Final = 2
_MISSPELT: Final = 0.75
"""The least similarity of a misspelt option to the one that is named. Typer's own is lower, and takes
`--temperature` for `--repeat`."""

_OF_OTHERS: Final[Mapping[str, str]] = {
    "-T": "--set KEY=VALUE",
    "-b": "--model vllm:URL",
    "-m": "--model MODEL",
    "-n": "--limit N",
    "-r": "--repeats N",
    "--data": "--input FILE",
    "--epochs": "--repeats N",
    "--judge-model": "--judge MODEL",
    "--log-dir": "--output FILE",
    "--max-connections": "--concurrency N",
    "--model-base-url": "--model vllm:URL",
    "--num-examples": "--limit N",
    "--rollouts-per-example": "--repeats N",
    "--sample-id": "--input FILE, a file with the rows of these tasks",
    "--max-concurrent": "--concurrency N",
    "--max-tokens": "--max-output-tokens N",
    "--settings": "--set KEY=VALUE",
}
"""Options of `inspect eval` and of verifiers' `vf-eval`, and arguments of `palestra.evaluate`: what
does the same here.
"""
_MEANT_COMMANDS: Final[Mapping[str, str]] = {
    "check": "doctor",
    "evaluate": "eval",
    "lint": "doctor",
    "new": "init",
    "report": "profile RUN",
    "score": "reverify",
    "serve": "run",
    "start": "run",
    "submit": "cluster rollouts",
    "validate": "doctor",
}
"""Commands that do not exist, and the one that does the work."""
_MEANT_IN_GROUPS: Final[Mapping[str, str]] = {
    "benchmark show": "show NAME",
    "models download": "models fetch local",
    "models list": "list models",
    "models pull": "models fetch local",
    "models show": "show NAME",
}
"""Commands that a group does not have, and the one that does the work."""
_ABOUT_COMPONENTS: Final = frozenset({"list", "show"})
"""Commands about components, which do not do the work of a group."""
_UNKNOWN_COMMAND: Final = re.compile(r"No such command '([^']+)'")


def run_command_line(command: Callable[..., Any], **options: Any) -> NoReturn:
    """Run a command of Typer (its `main`), and exit with its code."""
    try:
        code = command(standalone_mode=False, **options)
    except typer.Abort:
        raise SystemExit(1) from None
    except UsageError as error:
        if type(error).__name__ == _NO_COMMAND:
            notice(str(getattr(error, "message", error)))
        else:
            show_usage_error(error, sys.argv[1:])
        raise SystemExit(EXIT_CODE) from None
    raise SystemExit(code if isinstance(code, int) else 0)


def show_usage_error(error: Any, arguments: list[str]) -> None:
    """Print what is wrong with a command line, and which help to read."""
    notice(f"error: {_message(error, arguments)}")
    words = ["palestra", *(word for word in arguments[:1] if not word.startswith("-"))]
    path = error.ctx.command_path if getattr(error, "ctx", None) else " ".join(words)
    notice(f"hint: {path} -h lists what it takes")


def _message(error: Any, arguments: list[str]) -> str:
    """Return the message about an error of Typer. `arguments`: the command line."""
    parameter = getattr(error, "param", None)
    kind = type(error).__name__
    if kind == "NoSuchOption":
        return _no_such_option(error, arguments)
    if kind == "MissingParameter" and parameter is not None:
        return f"{_name(parameter, [])} is required"
    if kind == "BadParameter" and parameter is not None:
        return _about_value(error, parameter, arguments)
    if kind == "BadOptionUsage" and "requires an argument" in error.message:
        return f"{error.option_name} needs a value"
    unknown = _UNKNOWN_COMMAND.match(error.message)
    if unknown is not None and (words := _meant_command(error, unknown[1])):
        return f"no such command {unknown[1]!r}: write {words}"
    return _plain(error.message).replace("extra argument(s)", "further words")


def _meant_command(error: Any, name: str) -> str:
    """Return the command to write instead of one that its group does not have; empty when none is
    known.
    """
    context = getattr(error, "ctx", None)
    if context is None:
        return ""
    program = context.find_root()
    if name in _MEANT_COMMANDS and context is program:
        return f"{program.command_path} {_MEANT_COMMANDS[name]}"
    group = context.command_path.removeprefix(program.command_path).strip()
    if words := _MEANT_IN_GROUPS.get(f"{group} {name}"):
        return f"{program.command_path} {words}"
    if group and name in _ABOUT_COMPONENTS:
        return ""
    paths = sorted((p for p in _paths(program.command) if p[-1] == name), key=len)
    is_one = len(paths) == 1 or (len(paths) > 1 and len(paths[0]) < len(paths[1]))
    return " ".join((program.command_path, *paths[0])) if is_one else ""


def _paths(group: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command in a group and in its groups."""
    for name, command in getattr(group, "commands", {}).items():
        yield (*above, name)
        yield from _paths(command, (*above, name))


def _no_such_option(error: Any, arguments: list[str]) -> str:
    """Return the message about an option that does not exist, with the one to write instead."""
    if error.option_name.startswith("--mail-") and _takes(error, "--sbatch"):
        directive = error.option_name.removeprefix("--")
        return f"there is no option {error.option_name}: write --sbatch {directive}=VALUE"
    if (flag := _OF_OTHERS.get(error.option_name, "")) and _takes(error, flag.split()[0]):
        return f"there is no option {error.option_name}: write {flag}"
    if words := _words_for(error):
        return f"there is no option {error.option_name}: write {words}"
    if _takes(error, "--set") and (words := _as_setting(error, arguments)):
        return f"there is no option {error.option_name}: write {words}"
    from palestra.config import nearest

    near = nearest(error.option_name, error.possibilities or (), cutoff=_MISSPELT)
    suggestion = f"; did you mean {near}?" if near else ""
    return f"there is no option {error.option_name}{suggestion}"


def _as_setting(error: Any, arguments: list[str]) -> str:
    from palestra.cli.setting_words import option_as_setting

    return option_as_setting(error.option_name, arguments)


def _words_for(error: Any) -> str:
    """Return how a command is called that takes a word without a flag where a flag was typed; empty
    when it has no such word.
    """
    command = getattr(getattr(error, "ctx", None), "command", None)
    arguments = [p for p in getattr(command, "params", ()) if p.param_type_name == "argument"]
    name = error.option_name.lstrip("-").replace("-", "_")
    if not any(name in {parameter.name, parameter.name[:1]} for parameter in arguments):
        return ""
    required = [_name(parameter, []) for parameter in arguments if parameter.required]
    # Without a required word, the line would not say where the value goes.
    return " ".join((error.ctx.command_path, *required)) if required else ""


def _takes(error: Any, flag: str) -> bool:
    """Whether the command in which an error of Typer arose has the option `flag`."""
    command = getattr(getattr(error, "ctx", None), "command", None)
    return any(flag in parameter.opts for parameter in getattr(command, "params", ()))


def _about_value(error: Any, parameter: Any, arguments: list[str]) -> str:
    """Return the message about a value that a parameter does not take, with its range."""
    from pydantic import ValidationError

    from palestra.settings import is_bound, range_text, sentence_of

    name, cause = _name(parameter, arguments), error.__cause__
    if not isinstance(cause, ValidationError):
        return f"{name}: {_plain(error.message)}"
    details = cause.errors(include_url=False)[0]
    limits = {"ge": getattr(parameter, "min", None), "le": getattr(parameter, "max", None)}
    bounds = range_text(limits) if is_bound(details) else ""
    sentence = f"should be {bounds}" if bounds else sentence_of(details)
    return f"{name}: {sentence}, got {details['input']!r}"


def _name(parameter: Any, arguments: list[str]) -> str:
    """Return the name of a parameter: the flag that was typed, else its usual one."""
    from palestra.settings import is_typed

    names = [str(name) for name in parameter.opts]
    typed = next((name for name in names if is_typed(name, arguments)), names[0])
    if typed.startswith("-"):
        return typed
    return getattr(parameter, "metavar", None) or typed.upper()


def _plain(message: str) -> str:
    """Return a sentence of Typer as the middle of a message."""
    text = message.strip().removesuffix(".").replace(". Did you mean", "; did you mean")
    return text[:1].lower() + text[1:]

"""Runs a `gym` command line: finds the command, parses its words, and sets the exit code.

Exit codes: 0 for success; 1 for an error in the configuration, an unknown component, a group without
an action and a run that failed; 2 for a wrong flag, for a setting of the command that is missing or
invalid, and for rows that cannot be used.
"""

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from palestra.cli.console import (
    guarded,
    hint_of,
    in_words_called,
    notice,
    say,
    show_error,
    stdout_for_json,
)
from palestra.cli.entry import imported
from palestra.cli.guard import fork_under_guard
from palestra.cli.gym.explanation import command_help, group_help, program_help
from palestra.cli.gym.grammar import (
    HELP,
    JSON,
    PROGRAM,
    SEARCH_DIR,
    VERBOSE,
    Invocation,
    UsageError,
    parse,
)
from palestra.cli.gym.selection import with_config_files
from palestra.config import EXTRA_ROOTS, SearchPaths, nearest, override_key
from palestra.errors import ConfigError, KnownCause, PalestraError
from palestra.programs import (
    CONFIG_PATHS,
    GROUPS,
    Command,
    actions_of,
    command_at,
    is_bare,
    typed_program,
)
from palestra.settings import InvalidSettings

VERSION: Final = "--version"
VERSION_COMMAND: Final = Command("dev", "version", "", "development:version", json=True)


def main() -> NoReturn:
    """Run the console scripts `gym` and `ng`."""
    run(sys.argv[1:], program=typed_program() or PROGRAM)


def run(words: Sequence[str], *, program: str = PROGRAM) -> NoReturn:
    """Run the command line `words`, and exit with its code. `program`: its name in the help."""
    try:
        request = _request(words, program)
    except UsageError as error:
        raise SystemExit(show_error(error)) from None
    if isinstance(request, _Answer):
        say(request.text)
        raise SystemExit(request.code)
    command, invocation = request
    if command.runs_authors_code:
        fork_under_guard()
    guarded(lambda: _exit_code(command, invocation))


@dataclass(frozen=True, slots=True)
class _Answer:
    """A text that answers the command line without running a command."""

    text: str
    code: int = 0


def _request(words: Sequence[str], program: str) -> _Answer | tuple[Command, Invocation]:
    """Return the command with its parsed words, or a help text.

    Raises UsageError: a group, an action, a flag or a component is unknown.
    """
    leading, words_left = _leading(words)
    if VERSION in leading:
        words_left = [word for word in leading if word != VERSION]
        return VERSION_COMMAND, parse(VERSION_COMMAND, words_left, program=program)
    wants_help = bool(HELP & {*leading, *words_left})
    if not words_left:
        return _Answer(program_help(program), 0 if wants_help else 1)
    group, *words_left = words_left
    if group not in GROUPS:
        if homes := [home for home in GROUPS if command_at(home, group) is not None]:
            commands = ", ".join(f"`{program} {home} {group}`" for home in homes)
            raise UsageError(f"{program} has no group {group}", hint=f"did you mean {commands}?")
        raise _unknown(f"{program} has no group {group}", group, GROUPS)
    action = ""
    if command_at(group, "") is None:
        further, words_left = _leading(words_left)
        leading += further
        if not words_left:
            return _Answer(group_help(program, group), 0 if wants_help else 1)
        action, *words_left = words_left
    command = command_at(group, action)
    if command is None:
        raise _unknown(f"{program} {group} has no action {action}", action, actions_of(group))
    if wants_help:
        return _Answer(command_help(program, command))
    invocation = parse(command, [*leading, *words_left], program=program)
    _add_extra_roots(invocation)
    return command, with_config_files(invocation, SearchPaths.of(), report=notice)


def _leading(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split off the general flags in front of a group or an action."""
    words_left = list(words)
    leading: list[str] = []
    general = {*VERBOSE, *HELP, VERSION, JSON}
    while words_left and words_left[0].startswith("-"):
        word = words_left.pop(0)
        name, equals, _ = word.partition("=")
        if name not in {*general, *SEARCH_DIR.names}:
            raise _unknown(f"unknown flag {name}", name, [*general, *SEARCH_DIR.names])
        leading.append(word)
        if name in SEARCH_DIR.names and not equals and words_left:
            leading.append(words_left.pop(0))
    return leading, words_left


def _unknown(message: str, word: str, words: Sequence[str] | dict[str, str]) -> UsageError:
    near = nearest(word, words)
    listed = ", ".join(words)
    return UsageError(
        message + (f". Did you mean {near}?" if near else ""), hint=f"there are {listed}"
    )


def _add_extra_roots(invocation: Invocation) -> None:
    """Put the folders of `--search-dir` in front of those in the environment variable, which child
    processes get too.
    """
    if invocation.search_dirs:
        folders = [str(Path(folder).expanduser().absolute()) for folder in invocation.search_dirs]
        before = [os.environ[EXTRA_ROOTS]] if os.environ.get(EXTRA_ROOTS) else []
        os.environ[EXTRA_ROOTS] = os.pathsep.join([*folders, *before])


def _exit_code(command: Command, invocation: Invocation) -> int:
    """Call the function of a command, and return the exit code of `gym` for how it ended."""
    if invocation.verbose:
        logging.getLogger("palestra").setLevel(logging.DEBUG)
    on_stdout = stdout_for_json() if invocation.json else nullcontext()
    try:
        with on_stdout:
            _refuse_bare_words(command, invocation)
            code: int = imported(f"palestra.cli.gym.{command.function}")(
                invocation, list(invocation.overrides)
            )
    except UsageError as error:
        show_error(error)
        return 2
    except InvalidSettings as error:
        show_error(_in_flags_of(command, invocation, error))
        return 2
    except ConfigError as error:
        if _is_of_a_setting(invocation, error):
            show_error(error)
            return 2
        _show_config_error(error, as_json=invocation.json)
        return 1
    except PalestraError as error:
        show_error(error)
        return error.exit_code
    return code


def _refuse_bare_words(command: Command, invocation: Invocation) -> None:
    """Raise ConfigError, with the command as it is meant: a word is neither a flag nor an override."""
    if command.name or not any(map(is_bare, invocation.overrides)):
        return
    from palestra.cli.bare_overrides import Called, refuse_bare_overrides

    flags = {flag.key for flag in command.flags}
    settings = {flag.setting for flag in command.flags if flag.setting}
    refuse_bare_overrides(
        Called(
            (*invocation.program.split(), *command.words.split()),
            invocation.words,
            settings | ({CONFIG_PATHS} if "config" in flags else set()),
            needs_model="model_type" in flags,
            command=command,
            overrides=invocation.overrides,
        )
    )


def _in_flags_of(command: Command, invocation: Invocation, error: InvalidSettings) -> ConfigError:
    """Return the same error with the settings named by the flags that the command has for them."""
    if not error.settings:
        return error
    flags = {flag.setting: flag.names for flag in command.flags if flag.setting}
    problems = [problem.with_flags(flags) for problem in error.settings]
    typed = [flag.names[0] for flag in command.flags if flag.key in invocation.flags]
    by_flags = all(problem.flags for problem in problems if problem.is_missing)
    return InvalidSettings.of(problems, hint=error.hint).in_words_of(typed, by_flags=by_flags)


def _is_of_a_setting(invocation: Invocation, error: ConfigError) -> bool:
    """Whether the error is about a misspelt setting of the command, typed as an override."""
    typed = {override_key(text) for text in invocation.overrides}
    return any(
        problem.cause is KnownCause.MISSPELT_SETTING
        and problem.key in typed
        and "." not in problem.key
        for problem in error.problems
    )


def _show_config_error(error: ConfigError, *, as_json: bool) -> None:
    """Print an error on standard output, or on standard error where only JSON may be on the other."""
    (notice if as_json else say)(f"Error: {error.message_in_words(in_words_called)}")
    if hint := hint_of(error):
        notice(f"hint: {hint}")

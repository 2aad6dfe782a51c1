"""The program that the user called, and how a hint writes Palestra's commands for its users.

Hints quote commands as `palestra` spells them. A user of `gym`, `ng` or `ng_*` reads the command
that has the same work there. A command stays as it is when there is none, or when one of its flags
is missing there. Quoted overrides become the flags that `gym eval run` has for them. Flags, quoted or
in the middle of a sentence, become the overrides that `ng_*` takes. For `gym`, flags that it lacks do.
What a user of Python reads is in `python_spelling`.
"""

import re
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from palestra.errors import Phrase
from palestra.programs.gym_commands import COMMANDS, command_at
from palestra.programs.gym_selectors import flag_of_override
from palestra.programs.python_spelling import OF_COLLECTIONS, with_arguments
from palestra.programs.sentences import PALESTRA, QUOTED_COMMAND, with_each_flag

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

GYM: Final = "gym"
PYTHON: Final = "python"
"""Calls of `palestra.evaluate` and `palestra.collect`, as a program."""
_OUR_PROGRAMS: Final = frozenset({PALESTRA, "__main__.py"})
_GYM_PROGRAMS: Final = frozenset({GYM, "ng"})
_FIELD_PREFIXES: Final = ("ng_", "nemo_gym_")
"""How the names of NeMo Gym's older programs start, which Palestra has too."""
_QUOTED_OVERRIDES: Final = re.compile(r"`(\+[^`]+)`")


def typed_program() -> str:
    """Return the program that the user called, such as `gym`, `palestra gym` or `ng_run`."""
    name = Path(sys.argv[0]).name
    if name in _OUR_PROGRAMS:
        return f"{PALESTRA} {GYM}" if sys.argv[1:2] == [GYM] else PALESTRA
    return name


def has_flags(program: str) -> bool:
    """Whether the users of `program` give settings as flags of `palestra`. Those of NeMo Gym's
    programs take overrides.
    """
    return program == PALESTRA


def takes_overrides(program: str) -> bool:
    """Whether `program` is one of NeMo Gym's older programs, which have no flags."""
    return program.startswith(_FIELD_PREFIXES)


def command_words(command: str, program: str) -> str:
    """Return the words that call a command of `palestra` for users of `program`."""
    return _in_words_of(program, command) or f"{PALESTRA} {command}"


def with_commands_of(program: str, text: str) -> str:
    """Return `text` with each quoted command of `palestra` in the words of `program`, and flags as
    its users give these settings. Of a phrase, only the sentence changes.
    """
    if isinstance(text, Phrase):
        return text.spelled(partial(with_commands_of, program))

    def quoted(match: re.Match[str]) -> str:
        words = _in_words_of(program, match[1])
        return f"`{words}`" if words else match[0]

    text = with_flags_of(program, QUOTED_COMMAND.sub(quoted, text))
    return _QUOTED_OVERRIDES.sub(_as_flags, text) if _is_gym(program) else text


def with_flags_of(program: str, text: str, *, only_of_collections: bool = False) -> str:
    """Return `text` in which flags of `palestra` are given as the users of `program` do. Quoted
    commands stay as they are, and so do the flags of a clause with a command.

    `only_of_collections`: the other flags are of another program, and stay.
    """
    if program == PYTHON:
        return with_arguments(text, OF_COLLECTIONS)
    if not (_is_gym(program) or takes_overrides(program)):
        return text

    def changed(flag: str, value: str) -> str:
        if only_of_collections and not _is_of_collections(flag):
            return ""
        return _flag_of(program, flag, value)

    return with_each_flag(text, changed)


def _flag_of(program: str, flag: str, value: str) -> str:
    """Return a flag of `palestra` as users of `program` give it, with its value; empty when they
    cannot.
    """
    if _is_gym(program) and (name := _flag_of_gym(flag)):
        return f"{name} {value}".rstrip()
    from palestra.settings import settings_by_flag

    name, field = settings_by_flag().get(flag, ("", None))
    if field is None:
        return f"+config_paths=[{value or 'FILE'}]" if flag == "--config" else ""
    if field.annotation is bool:
        return f"+{name}=true {value}".rstrip()
    return f"+{name}={value or _placeholder(name, field)}"


def _is_of_collections(flag: str) -> bool:
    """Whether a flag of `palestra` is one of a collection."""
    from palestra.settings import CollectArgs, settings_by_flag

    return settings_by_flag().get(flag, ("", None))[0] in CollectArgs.model_fields


def _placeholder(name: str, field: "FieldInfo") -> str:
    """Return what stands for a value that a hint leaves open."""
    from palestra.config import Flag

    if metavar := next((item.metavar for item in field.metadata if isinstance(item, Flag)), None):
        return metavar
    if {*get_args(field.annotation), field.annotation} & {int, float}:
        return "N"
    return "FILE" if name.endswith("_fpath") else "VALUE"


def _flag_of_gym(flag: str) -> str:
    """Return the flag of `gym` for a flag of `palestra`; empty when there is none. A flag of a
    collection is one of `gym eval run`.
    """
    from palestra.settings import settings_by_flag

    name, _ = settings_by_flag().get(flag, ("", None))
    run = command_at("eval", "run")
    commands = [run] if run and _is_of_collections(flag) else COMMANDS
    flags = [flag_of_gym for command in commands for flag_of_gym in command.flags]
    names = [name for flag_of_gym in flags for name in flag_of_gym.names if name == flag]
    same = [flag_of_gym.names[0] for flag_of_gym in flags if name and flag_of_gym.setting == name]
    return next(iter((*names, *same)), "")


def _as_flags(overrides: re.Match[str]) -> str:
    """Return quoted overrides as the flags that `gym eval run` has for them. Another override stays
    as it is.
    """
    run = command_at("eval", "run")
    flags = {flag.setting: flag.names[0] for flag in run.flags if flag.setting} if run else {}
    words = []
    for word in overrides[1].split():
        name, equals, value = word.lstrip("+").partition("=")
        flag = f"{flags[name]} {value}" if equals and name in flags else flag_of_override(word)
        words.append(flag or word)
    return f"`{' '.join(words)}`"


def _is_gym(program: str) -> bool:
    return program in _GYM_PROGRAMS or program == f"{PALESTRA} {GYM}"


def _in_words_of(program: str, command: str) -> str:
    """Return the same command for users of `program`; empty when it has none."""
    name, dash, flags = command.partition(" -")
    if _is_gym(program):
        words, known_flags = _gym_command(name)
        typed_flags = {word for word in f"{dash}{flags}".split() if word.startswith("-")}
        return f"{program} {words}{dash}{flags}" if words and typed_flags <= known_flags else ""
    prefix = next((prefix for prefix in _FIELD_PREFIXES if program.startswith(prefix)), "")
    field_name = _field_names().get(name, "") if prefix and not dash else ""
    return field_name.replace("ng_", prefix, 1) if field_name else ""


def _gym_command(name: str) -> tuple[str, frozenset[str]]:
    """Return the words and the flags of the `gym` command that does what `palestra NAME` does."""
    for command in COMMANDS:
        if name in command.same_as:
            return command.words, frozenset(n for flag in command.flags for n in flag.names)
    return "", frozenset()


def _field_names() -> Mapping[str, str]:
    """Return the `ng_*` program of each command of `palestra` that has one."""
    return {
        name: field_name
        for command in COMMANDS
        for name, field_name in zip(
            command.same_as, re.findall(r"ng_\w+", command.replaces), strict=False
        )
    }

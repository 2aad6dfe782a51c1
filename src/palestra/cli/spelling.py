"""The program that the user called, and how a hint writes Palestra's commands for its users.

Hints quote commands as `palestra` spells them. A user of `gym`, `ng` or `ng_*` reads the command
that has the same work there. A command stays as it is when there is none, or when one of its flags
is missing there. Quoted overrides become the flags that `gym eval run` has for them.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PALESTRA: Final = "palestra"
GYM: Final = "gym"
_OUR_PROGRAMS: Final = frozenset({PALESTRA, "__main__.py"})
_GYM_PROGRAMS: Final = frozenset({GYM, "ng"})
_FIELD_PREFIXES: Final = ("ng_", "nemo_gym_")
"""How the names of NeMo Gym's older programs start, which Palestra has too."""
_QUOTED_OVERRIDES: Final = re.compile(r"`(\+[^`]+)`")
_QUOTED: Final = re.compile(rf"`{PALESTRA} ([^`]+)`")


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
    """Return `text` with each quoted command of `palestra` in the words of `program`."""

    def quoted(match: re.Match[str]) -> str:
        words = _in_words_of(program, match[1])
        return f"`{words}`" if words else match[0]

    text = _QUOTED.sub(quoted, text)
    return _QUOTED_OVERRIDES.sub(_as_flags, text) if _is_gym(program) else text


def _as_flags(overrides: re.Match[str]) -> str:
    """Return quoted overrides as the flags that `gym eval run` has for them. Another override stays
    as it is.
    """
    from palestra.cli.gym.commands import command_at
    from palestra.cli.gym.selection import flag_of_override

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
    from palestra.cli.gym.commands import COMMANDS

    for command in COMMANDS:
        if name in command.same_as:
            return command.words, frozenset(n for flag in command.flags for n in flag.names)
    return "", frozenset()


def _field_names() -> Mapping[str, str]:
    """Return the `ng_*` program of each command of `palestra` that has one."""
    from palestra.cli.gym.commands import COMMANDS

    return {
        name: field_name
        for command in COMMANDS
        for name, field_name in zip(
            command.same_as, re.findall(r"ng_\w+", command.replaces), strict=False
        )
    }

"""The programs by which users call Palestra: the commands of `gym`, and how the users of each program
give settings.
"""

from palestra.programs.gym_commands import (
    COMMANDS,
    EVAL,
    GROUPS,
    LISTED,
    Command,
    actions_of,
    command_at,
)
from palestra.programs.gym_flags import FlagKind, GymFlag
from palestra.programs.gym_selectors import CONFIG_PATHS, SELECTORS, Selector
from palestra.programs.spelling import (
    PALESTRA,
    command_words,
    has_flags,
    takes_overrides,
    typed_program,
    with_commands_of,
    with_flags_of,
)

__all__ = [
    "COMMANDS",
    "CONFIG_PATHS",
    "EVAL",
    "GROUPS",
    "LISTED",
    "PALESTRA",
    "SELECTORS",
    "Command",
    "FlagKind",
    "GymFlag",
    "Selector",
    "actions_of",
    "command_at",
    "command_words",
    "has_flags",
    "takes_overrides",
    "typed_program",
    "with_commands_of",
    "with_flags_of",
]

"""The programs by which users call Palestra: the commands of `gym`, how the users of each program
give settings, and which program a recorded command calls.
"""

from palestra.programs.collectors import collector_of, collector_program
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
from palestra.programs.gym_selectors import CONFIG_PATHS, SELECTORS, Selector, flag_of_override
from palestra.programs.python_spelling import (
    CALLS,
    argument_of,
    hint_with_arguments,
    with_arguments,
)
from palestra.programs.sentences import PALESTRA
from palestra.programs.spelling import (
    command_words,
    has_flags,
    takes_overrides,
    typed_program,
    with_commands_of,
    with_flags_of,
)
from palestra.programs.typed_settings import with_settings_of

__all__ = [
    "CALLS",
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
    "argument_of",
    "collector_of",
    "collector_program",
    "command_at",
    "command_words",
    "flag_of_override",
    "has_flags",
    "hint_with_arguments",
    "takes_overrides",
    "typed_program",
    "with_arguments",
    "with_commands_of",
    "with_flags_of",
    "with_settings_of",
]

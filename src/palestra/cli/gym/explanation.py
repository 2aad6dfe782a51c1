"""The help texts of `gym`, its groups and its commands."""

from palestra.cli.gym.grammar import SEARCH_DIR
from palestra.programs import COMMANDS, GROUPS, Command, FlagKind, GymFlag, actions_of

OVERRIDES = (
    "Any setting is an override: +key=value adds, ++key=value adds or changes, ~key removes."
)


def program_help(program: str) -> str:
    """Return the help of the whole program."""
    groups = [f"  {group:<9} {about}" for group, about in GROUPS.items()]
    return "\n".join(
        [
            f"Usage: {program} GROUP ACTION [flags] [overrides]",
            "",
            *groups,
            "",
            *_lines([*_GLOBAL, ("--version [--json]", "What is installed, and where.")]),
            "",
            OVERRIDES,
        ]
    )


def group_help(program: str, group: str) -> str:
    """Return the help of a group: its actions."""
    commands = [command for command in COMMANDS if command.group == group]
    width = max(len(action) for action in actions_of(group))
    return "\n".join(
        [
            f"Usage: {program} {group} ACTION [flags] [overrides]",
            "",
            *(f"  {command.action:<{width}}  {command.about}" for command in commands),
            "",
            f"{program} {group} ACTION --help lists the flags of one.",
        ]
    )


def command_help(program: str, command: Command) -> str:
    """Return the help of one command: its flags and the settings that they are."""
    usage = " ".join(filter(None, [program, command.words, command.name, "[flags] [overrides]"]))
    flags = [(_spelling(flag), _about(flag)) for flag in command.flags]
    as_json = [("--json", "Print one JSON document.")] if command.json else []
    replaced = [f"Replaces {command.replaces}.", ""] if command.replaces else []
    return "\n".join(
        [
            f"Usage: {usage}",
            "",
            f"{command.about[0].upper()}{command.about[1:]}.",
            "",
            *replaced,
            *_lines([*flags, *as_json, *_GLOBAL]),
            "",
            OVERRIDES,
        ]
    )


_GLOBAL = (
    (f"{SEARCH_DIR.names[0]} DIR", SEARCH_DIR.about),
    ("-v, --verbose", "Log more, also in the servers."),
    ("-h, --help", "Show this text and exit."),
)
_VALUES = {
    FlagKind.SWITCH: "",
    FlagKind.TEXT: " TEXT",
    FlagKind.VALUE: " VALUE",
    FlagKind.PATHS: " NAME",
    FlagKind.RANGE: " LOW HIGH",
}


def _spelling(flag: GymFlag) -> str:
    shown_value = flag.metavar or "|".join(flag.choices)
    value = f" {shown_value}" if shown_value else _VALUES[flag.kind]
    return ", ".join(flag.names) + value


def _about(flag: GymFlag) -> str:
    return f"{flag.about} (+{flag.setting})" if flag.setting else flag.about


def _lines(pairs: list[tuple[str, str]]) -> list[str]:
    width = max(len(spelling) for spelling, _ in pairs)
    return [f"  {spelling:<{width}}  {about}" for spelling, about in pairs]

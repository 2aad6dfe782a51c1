"""The grammar of the `gym` command line: `gym GROUP ACTION [flags] [overrides]`.

A flag becomes an override: `--split train` is `+split=train`, and a switch is `+key=true`. Words
that are neither flags nor the command's own names are overrides in Hydra's grammar, unchanged.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import PurePosixPath
from typing import Any, Final

from palestra.config import contradicting_override, mask_line, nearest, parse_overrides
from palestra.errors import ConfigError, PalestraError
from palestra.programs import Command, FlagKind, GymFlag, is_bare

PROGRAM: Final = "gym"
HELP: Final = frozenset({"-h", "--help"})
VERBOSE: Final = frozenset({"-v", "--verbose"})


class UsageError(PalestraError):
    """The command line has an unknown flag, an unknown name or a flag without a value."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Invocation:
    """A parsed command line."""

    group: str
    action: str
    name: str | None
    """The NAME or QUERY of the command; None when the user gave none."""
    flags: Mapping[str, Any]
    """The given flags by long name, with underscores: `reuse_verifier`. A switch is True, a
    repeatable flag is a tuple of texts, a range is a tuple of two floats, any other a text."""
    overrides: tuple[str, ...]
    """Hydra overrides: those made from flags first, then those that the user typed. All config
    files are in one `+config_paths`."""
    json: bool = False
    verbose: bool = False
    search_dirs: tuple[str, ...] = ()
    """The folders of `--search-dir`, as the user typed them."""
    program: str = PROGRAM
    """The program that the user called: `gym`, `ng` or `palestra gym`."""
    words: tuple[str, ...] = ()
    """The words after the action, as the user typed them."""


@dataclass(slots=True)
class _Scanned:
    """The words of a command line, sorted by what they are."""

    flags: dict[str, Any] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    verbose: bool = False
    json: bool = False


INPUT: Final = "--input"
JSON: Final = "--json"
SEARCH_DIR: Final = GymFlag(
    ("--search-dir",), "A folder searched before the working directory; repeatable.",
    kind=FlagKind.PATHS,
)  # fmt: skip


def parse(command: Command, words: Sequence[str], *, program: str = PROGRAM) -> Invocation:
    """Return the invocation of `command` with `words`, the words after group and action.

    The overrides hold the flags, but not yet the files that selectors such as `--benchmark` name.
    Raises UsageError: a flag is unknown, lacks its value, or is required and missing.
    """
    called = f"{program} {command.words}"
    scanned = _scan(command, words, called)
    for flag in command.flags:
        if flag.required and flag.key not in scanned.flags:
            raise UsageError(f"{called} needs {'/'.join(flag.names)}")
    search_dirs = scanned.flags.pop(SEARCH_DIR.key, ())
    made_overrides = [
        override
        for flag in command.flags
        if flag.setting and flag.key in scanned.flags
        for override in [override_of(flag, scanned.flags[flag.key])]
    ]
    _refuse_contradictions(command, scanned)
    verbose = ["+verbose=true"] if scanned.verbose else []
    return Invocation(
        command.group,
        command.action,
        " ".join(scanned.names) or None,
        scanned.flags,
        (*made_overrides, *verbose, *scanned.overrides),
        json=scanned.json,
        verbose=scanned.verbose,
        search_dirs=search_dirs,
        program=program,
        words=tuple(words),
    )


def _refuse_contradictions(command: Command, scanned: _Scanned) -> None:
    """Raise UsageError: a flag and an override give one setting two values."""
    for flag in command.flags if scanned.overrides else ():
        if not flag.setting or flag.key not in scanned.flags:
            continue
        [flag_override] = parse_overrides([override_of(flag, scanned.flags[flag.key])])
        if override := contradicting_override(flag.setting, flag_override.value, scanned.overrides):
            name = flag.names[0]
            raise UsageError(
                f"{name} and {override} give two values to one setting",
                hint=f"leave {name} or the override out",
            )


def _scan(command: Command, words: Sequence[str], called: str) -> _Scanned:
    """Sort the words of a command. `called`: the words that call it, for errors."""
    by_name = {name: flag for flag in (*command.flags, SEARCH_DIR) for name in flag.names}
    scanned = _Scanned()
    remaining_words = iter(words)
    for word in remaining_words:
        if word in VERBOSE:
            scanned.verbose = True
        elif word == JSON and command.json:
            scanned.json = True
        elif word.startswith("-"):
            name, equals, text = word.partition("=")
            flag = by_name.get(name)
            if flag is None:
                value = text if equals else next(remaining_words, "")
                raise _unknown(command, called, name, value, by_name)
            _add(scanned, flag, _value(flag, text if equals else None, remaining_words))
        elif command.name and is_bare(word):
            scanned.names.append(word)
        else:
            scanned.overrides.append(word)
    return scanned


def _unknown(
    command: Command, called: str, name: str, value: str, by_name: Mapping[str, GymFlag]
) -> UsageError:
    """Return the error for an unknown flag. `value`: the text after it; empty without one."""
    if override := _override_for(command, name, value):
        return UsageError(
            f"{called} has no flag {name}; it is a setting, which is given as an override",
            hint=f"write {override}",
        )
    flag_names = [*by_name, *VERBOSE, *HELP, *([JSON] if command.json else [])]
    near = nearest(name, flag_names)
    return UsageError(
        f"{called} has no flag {name}" + (f". Did you mean {near}?" if near else ""),
        hint=f"{called} --help lists its flags; a setting without a flag is an override: "
        "+key=value",
    )


def _override_for(command: Command, name: str, value: str) -> str:
    """Return the override for a setting of the command that was typed as a flag; empty when it has
    no such setting.
    """
    if not command.model:
        return ""
    from palestra import settings  # pydantic takes 50 ms to import

    fields = getattr(settings, command.model).model_fields
    setting, _ = settings.settings_by_flag().get(name, (name.lstrip("-").replace("-", "_"), None))
    if setting not in fields:
        return ""
    if fields[setting].annotation is bool:
        return f"+{setting}=true"
    has_value = value and not value.startswith(("-", "+", "~"))
    return shlex.quote(mask_line(f"+{setting}={value if has_value else 'VALUE'}"))


def _value(flag: GymFlag, attached: str | None, remaining_words: Iterator[str]) -> Any:
    """Return the value of a flag: `attached` to it by `=`, else from the following words."""
    if flag.kind is FlagKind.SWITCH:
        if attached is not None:
            raise UsageError(f"{flag.names[0]} takes no value")
        return True
    if flag.kind is FlagKind.RANGE:
        low = attached if attached is not None else _next(flag, remaining_words)
        return _number(flag, low), _number(flag, _next(flag, remaining_words))
    text = attached if attached is not None else _next(flag, remaining_words)
    if flag.choices and text not in flag.choices:
        near = nearest(text, flag.choices)
        raise UsageError(
            f"{flag.names[0]} {text}: not one of {', '.join(flag.choices)}"
            + (f". Did you mean {near}?" if near else "")
        )
    return text


def _next(flag: GymFlag, remaining_words: Iterator[str]) -> str:
    word = next(remaining_words, None)
    if word is None or (word.startswith("-") and not _is_number(word)):
        raise UsageError(f"{flag.names[0]} needs a value")
    return word


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(flag: GymFlag, text: str) -> float:
    if not _is_number(text) or isnan(float(text)):
        raise UsageError(f"{flag.names[0]} takes numbers, got {text}")
    return float(text)


def _add(scanned: _Scanned, flag: GymFlag, value: Any) -> None:
    if flag.kind is FlagKind.PATHS:
        value = (*scanned.flags.get(flag.key, ()), value)
    elif flag.names[0] == INPUT and flag.key in scanned.flags:
        raise UsageError(repeated_input(INPUT))
    scanned.flags[flag.key] = value


def repeated_input(flag: str) -> str:
    """Return what is wrong with a command line that has an input's flag twice."""
    return f"{flag} takes one file, or a quoted glob of several such as 'data/part-*.jsonl'"


def override_of(flag: GymFlag, value: Any) -> str:
    """Return the override that a flag with this value becomes."""
    if flag.kind is FlagKind.SWITCH:
        return f"+{flag.setting}=true"
    if flag.kind is FlagKind.VALUE:
        return f"+{flag.setting}={value}"
    name = name_in(flag.prefix, value) if flag.prefix else value
    return f"+{flag.setting}={as_text(f'{flag.prefix}{name}')}"


def name_in(folder: str, text: str) -> str:
    """Return the name that `text` gives: `text`, or its part below `folder` when it is a path there,
    such as `resources_servers/my_env`.
    """
    path = PurePosixPath(text)
    top = PurePosixPath(folder)
    return str(path.relative_to(top)) if top in path.parents else text


def as_text(text: str) -> str:
    """Return `text` as the value of an override that is read as this string: quoted where it would
    be read otherwise.
    """
    return text if _reads_as(f"+key={text}", text) else quoted(text)


def as_item(text: str) -> str:
    """Return `text` as an item of a list in an override, quoted where needed."""
    return text if _reads_as(f"+key=[{text},end]", [text, "end"]) else quoted(text)


def _reads_as(override: str, value: Any) -> bool:
    try:
        [parsed] = parse_overrides([override])
    except ConfigError:
        return False
    return bool(parsed.value == value)


def quoted(text: str) -> str:
    """Return `text` in quotes. Backslashes are escaped in front of a quote only: elsewhere they stand
    for themselves.
    """
    return "'" + re.sub(r"(\\*)('|$)", _escaped, text) + "'"


def _escaped(match: re.Match[str]) -> str:
    return match[1] * 2 + ("\\'" if match[2] else "")

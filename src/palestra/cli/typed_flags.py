"""Flags that were typed to a program of `ng_*`, which takes overrides alone: the override to type."""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from palestra.config import mask_line
from palestra.errors import ConfigError, Phrase
from palestra.programs import COMMANDS, CONFIG_PATHS, SELECTORS, FlagKind, Selector

_CONFIG: Final = frozenset({"--config", "-c"})
_SIGNS: Final = frozenset("+~")


@dataclass(frozen=True, slots=True)
class TypedFlag:
    """A flag, and the value that follows it; empty without one."""

    name: str
    value: str


def refuse_flags(program: str, words: Sequence[str], settings: Collection[str]) -> None:
    """Raise ConfigError: a word is a flag. The hint is the override with the same meaning, or which
    help to read.

    `settings`: the names of the settings that the program takes.
    """
    if not any(map(_is_flag, words)):
        return
    meanings = _settings_by_flag(program, settings)
    flags = _typed_flags(words, meanings)
    overrides = _overrides([(flag, meanings[flag.name]) for flag in flags if flag.name in meanings])
    unknown = [flag.name for flag in flags if flag.name not in meanings]
    remedies = [f"write {shlex.join(map(mask_line, overrides))}"] if overrides else []
    remedies += [f"{name} is none of its settings" for name in unknown]
    raise ConfigError(
        Phrase(
            "{program} takes overrides, not flags; {advice}",
            program=program,
            advice="; ".join(remedies),
        ),
        hint=Phrase("{program} --help lists the settings", program=program) if unknown else "",
    )


@dataclass(frozen=True, slots=True)
class _Meaning:
    """The setting of a flag. `prefix`: what its value begins with. `selector`: its value is the name
    of a component.
    """

    setting: str
    is_switch: bool = False
    prefix: str = ""
    selector: Selector | None = None


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not word.lstrip("-")[:1].isdigit() and word.strip("-") != ""


def _typed_flags(words: Sequence[str], meanings: Mapping[str, _Meaning]) -> list[TypedFlag]:
    flags: list[TypedFlag] = []
    for word, following in zip(words, (*words[1:], ""), strict=True):
        if not _is_flag(word):
            continue
        name, equals, value = word.partition("=")
        name = name.replace("_", "-")
        is_value = following and following[:1] not in {*_SIGNS, "-"} and "=" not in following
        is_switch = name in meanings and meanings[name].is_switch
        if not equals and is_value and not is_switch:
            value = following
        flags.append(TypedFlag(name, value))
    return flags


def _overrides(flags: Sequence[tuple[TypedFlag, _Meaning]]) -> list[str]:
    """Return the overrides that mean the same as flags. All config files are in one of them."""
    configs = [_file(flag, meaning) for flag, meaning in flags if meaning.setting == CONFIG_PATHS]
    overrides = [
        _override(flag, meaning) for flag, meaning in flags if meaning.setting != CONFIG_PATHS
    ]
    return [f"+{CONFIG_PATHS}=[{','.join(configs)}]", *overrides] if configs else overrides


def _file(flag: TypedFlag, meaning: _Meaning) -> str:
    if meaning.selector is None:
        return flag.value or "FILE"
    return meaning.selector.files(flag.value or "NAME")[0]


def _override(flag: TypedFlag, meaning: _Meaning) -> str:
    default = "true" if meaning.is_switch else "VALUE"
    return f"+{meaning.setting}={meaning.prefix}{flag.value or default}"


def _settings_by_flag(program: str, settings: Collection[str]) -> Mapping[str, _Meaning]:
    """Return the setting of each flag that `palestra` or `gym` has for it, of those that a program
    takes.
    """
    from palestra.settings import settings_by_flag

    ours = {
        flag: _Meaning(name, is_switch=field.annotation is bool)
        for flag, (name, field) in settings_by_flag().items()
    }
    own_name = f"ng_{program.removeprefix('nemo_gym_').removeprefix('ng_')}"
    gyms = {
        name: _Meaning(flag.setting, is_switch=flag.kind is FlagKind.SWITCH, prefix=flag.prefix)
        for command in COMMANDS
        if own_name in re.findall(r"\w+", command.replaces)
        for flag in command.flags
        if flag.setting
        for name in flag.names
    }
    names = {f"--{name.replace('_', '-')}": _Meaning(name) for name in settings}
    configs = dict.fromkeys(_CONFIG, _Meaning(CONFIG_PATHS))
    selectors = {
        selector.flag: _Meaning(CONFIG_PATHS, selector=selector) for selector in SELECTORS.values()
    }
    accepted = {
        flag: meaning
        for flag, meaning in {**names, **ours, **configs, **selectors}.items()
        if meaning.setting in settings
    }
    return {**accepted, **gyms}

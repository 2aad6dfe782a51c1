"""Bare words of the commands of `ng_*` and `gym`: the error with the whole command as it is meant."""

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from palestra.cli.bare_words import (
    CONFIG_PATHS,
    Meaning,
    absence_of,
    components,
    meaning_of,
    refuse_divided_lists,
)
from palestra.cli.gym.grammar import as_item, as_text
from palestra.config import did_you_mean, nearest, parse_overrides
from palestra.errors import ConfigError, Phrase
from palestra.programs import Command, command_words, flag_of_override, is_bare

LOCAL_MODEL: Final = "responses_api_models/local_model/configs/local_model.yaml"
_SIGNS: Final = frozenset({"+", "++", "~"})
_SPLIT: Final = "split"
_OUTPUT: Final = "output_jsonl_fpath"
_INPUT: Final = "input_jsonl_fpath"
_AGENT: Final = "agent_name"


@dataclass(frozen=True, slots=True)
class Called:
    """A command and the words that were typed after it."""

    program: tuple[str, ...]
    """The words that call the command, such as `gym env start`."""
    words: Sequence[str]
    settings: Collection[str]
    """The names of the settings that the command takes."""
    needs_model: bool = False
    """Whether the command needs the config of a model beside that of an environment."""
    command: Command | None = None
    """The command of `gym`; None for a program that has no flags."""
    overrides: Collection[str] = ()
    """The words that are no flags and no values of flags, where the program has flags."""


def refuse_bare_overrides(called: Called) -> None:
    """Raise ConfigError: a word has neither a flag nor a key.

    The hint is the whole command with the flags or the keys of such words, where they are known.
    """
    refuse_divided_lists(called.program, called.words)
    bare_words = list(_bare_words(called))
    if not bare_words:
        return
    meanings: dict[int, Meaning] = {}
    for position, word in bare_words:
        before = called.words[position - 1] if position else ""
        if before.endswith("=") and not before.startswith("--"):
            raise ConfigError(
                f"a space divides {before}{word}", hint=_joined(called, position, before + word)
            )
        meaning = meaning_of(word, called.settings)
        if meaning is None or meaning.setting in _single(meanings.values()):
            raise _unknown(called, word)
        meanings[position] = meaning
    position, word = bare_words[0]
    lacks = "key" if called.command is None else "flag"
    raise ConfigError(
        f"{word!r} has no {lacks}; it is {meanings[position].what}{absence_of(word)}",
        hint=Phrase("{command}", command=_completed_line(called, meanings)),
    )


def _bare_words(called: Called) -> Iterator[tuple[int, str]]:
    """Yield the bare words and their positions. The value of a flag is none."""
    before = ""
    for position, word in enumerate(called.words):
        is_value = before in _SIGNS or (before.startswith("-") and "=" not in before)
        if called.command is not None:
            is_value = word not in called.overrides
        if is_bare(word) and not is_value:
            yield position, word
        before = word


def _single(meanings: Collection[Meaning]) -> set[str]:
    """Return the settings that have a value already, and take one alone."""
    return {meaning.setting for meaning in meanings} - {CONFIG_PATHS}


def _joined(called: Called, position: int, word: str) -> Phrase:
    words = [*called.words[: position - 1], word, *called.words[position + 1 :]]
    return Phrase("{command}", command=shlex.join((*called.program, *words)))


def _unknown(called: Called, word: str) -> ConfigError:
    """Return the error for a word that may mean anything."""
    program = " ".join(called.program)
    if not called.settings:
        return ConfigError(
            f"{program} takes no words, and {word!r} is one", hint=_elsewhere(program, word)
        )
    names = [component.name for component in components()] if _takes_files(called) else []
    near = nearest(word, [*names, *called.settings])
    lacks = "with their keys" if called.command is None else "by flags"
    hints = [f"{program} --help lists the settings"]
    if _AGENT in called.settings:
        hints.insert(0, f"an agent is {' '.join(_spelled(called, _AGENT, word))}")
    if _takes_files(called):
        hints.insert(0, f"a config file is {' '.join(_spelled(called, CONFIG_PATHS, 'FILE'))}")
    if near is not None and (meaning := meaning_of(near, called.settings)) is not None:
        position = list(called.words).index(word)
        hints = [_completed_line(called, {position: meaning})]
    return ConfigError(
        f"{program} takes settings {lacks}, not {word!r}"
        + (did_you_mean(word, [near]) if near else ""),
        hint=Phrase("{advice}", advice="; ".join(hints)),
    )


def _elsewhere(program: str, word: str) -> str:
    """Return the command that takes the word which `program` does not take."""
    if word.startswith(("ng_", "nemo_gym_")):
        return Phrase("{program} --help", program=word)
    meaning = meaning_of(word, ("entrypoint",))
    test = command_words("test", program)
    if meaning is None or not meaning.is_environment or not program.endswith("_test_all"):
        return f"{program} --help"
    return Phrase("{command}", command=f"{test} +{meaning.setting}={meaning.value}")


def _takes_files(called: Called) -> bool:
    return CONFIG_PATHS in called.settings


def _completed_line(called: Called, meanings: dict[int, Meaning]) -> str:
    """Return the whole command line with each bare word as it is meant. All config files are in one
    list; an environment alone gets what a first run needs.
    """
    words: list[str] = []
    files: list[str] = []
    file_position = None
    for position, word in enumerate(called.words):
        meaning = meanings.get(position)
        typed_files = _files_of(word)
        if meaning is None and typed_files is None:
            words.append(word)
        elif meaning is not None and meaning.setting != CONFIG_PATHS:
            words += _spelled(called, meaning.setting, meaning.value)
        else:
            file_position = len(words) if file_position is None else file_position
            files += [meaning.value] if meaning is not None else typed_files or []
    files += _further_files(called, meanings, files)
    words += _further_settings(called, meanings)
    file_position = len(words) if file_position is None else file_position
    words[file_position:file_position] = _files(called, files)
    return shlex.join((*called.program, *words))


def _files_of(word: str) -> list[str] | None:
    """Return the files of a typed `config_paths`; None for another word."""
    if not word.lstrip("+").startswith(f"{CONFIG_PATHS}="):
        return None
    [override] = parse_overrides([word])
    is_list = isinstance(override.value, list | tuple)
    return [str(item) for item in override.value] if is_list else [str(override.value)]


def _further_files(
    called: Called, meanings: dict[int, Meaning], files: Sequence[str]
) -> Iterator[str]:
    is_only_file = len(files) == 1 and any(meaning.is_environment for meaning in meanings.values())
    if called.needs_model and is_only_file and "--model-type" not in called.words:
        yield LOCAL_MODEL


def _further_settings(called: Called, meanings: dict[int, Meaning]) -> list[str]:
    """Return the rows and the output of a collection whose environment alone was typed."""
    environments = [meaning for meaning in meanings.values() if meaning.is_environment]
    keys = {word.lstrip("+-~").partition("=")[0].replace("-", "_") for word in called.words}
    if not environments or _SPLIT not in called.settings:
        return []
    words: list[str] = []
    if not keys & {_SPLIT, _INPUT, "input", "i"}:
        words += _spelled(called, _SPLIT, "example")
    if not keys & {_OUTPUT, "output", "o"}:
        name = environments[0].value.split("/")[1]
        words += _spelled(called, _OUTPUT, f"runs/{name}.jsonl")
    return words


def _files(called: Called, files: Sequence[str]) -> list[str]:
    """Return the words that name config files."""
    if not files:
        return []
    if called.command is None:
        return [f"+{CONFIG_PATHS}=[{','.join(map(as_item, files))}]"]
    return [word for file in files for word in _spelled(called, CONFIG_PATHS, file)]


def _spelled(called: Called, setting: str, value: str) -> list[str]:
    """Return the words that give a setting to the command."""
    if called.command is not None:
        flags = {name for flag in called.command.flags for name in flag.names}
        selector = flag_of_override(f"+{setting}=[{value}]") if setting == CONFIG_PATHS else ""
        if selector and selector.partition(" ")[0] in flags:
            return selector.split()
        if setting == CONFIG_PATHS and "--config" in flags:
            return ["--config", value]
        for flag in called.command.flags:
            if flag.setting == setting:
                return [flag.names[0], value.removeprefix(flag.prefix)]
    return [
        f"+{setting}=[{as_item(value)}]"
        if setting == CONFIG_PATHS
        else f"+{setting}={as_text(value)}"
    ]

"""Words of a command line that are neither flags nor overrides: what they mean, and what to type
instead of them.
"""

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from palestra.config import NamedFile, did_you_mean_path, mask_line, search_roots
from palestra.errors import ConfigError, Phrase
from palestra.programs import is_bare

if TYPE_CHECKING:
    from palestra.authoring import InstalledComponent

CONFIG_PATHS: Final = "config_paths"
ENTRYPOINT: Final = "entrypoint"
_PROMPT: Final = "prompt_config"
_AGENT: Final = "agent_name"
_ROWS: Final = ("input_jsonl_fpath", "rollouts_jsonl_fpath", "jsonl_fpath", "input_glob")
"""The settings that take a file of rows."""
_NAMES: Final = ("dataset_name", "repo_id")
"""The settings whose value may be any name."""
_CONFIG_FILE: Final = ("a config file", CONFIG_PATHS)
_TAKES_ROWS: Final = frozenset({"collect", "doctor"})
_CONFIG_SUFFIXES: Final = frozenset({".yaml", ".yml"})
_ROWS_SUFFIXES: Final = frozenset({".jsonl", ".json", ".csv", ".tsv", ".parquet", ".gz", ".zst"})
_LIST_BEGIN: Final = re.compile(r"\+{0,2}[\w.]+=\[")
_RESOURCES: Final = "resources_servers"
KINDS: Final = {
    "resources-servers": "an environment",
    "environments": "an environment",
    "benchmarks": "a benchmark",
    "agents": "an agent",
    "models": "a model server",
}
"""What a component of each kind is called, in the order in which names are looked up."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a bare word most likely is, and the setting with which a command takes it."""

    what: str
    """Such as `a config file`."""
    setting: str
    value: str
    is_environment: bool = False
    """Whether it is the name of an environment."""


def meaning_of(word: str, settings: Collection[str]) -> Meaning | None:
    """Return what a bare word means to a command with these settings; None when it cannot be known."""
    if Path(word).suffix in _CONFIG_SUFFIXES or NamedFile.parse(word) is not None:
        is_prompt = _PROMPT in settings and _AGENT not in settings
        what, setting = ("a prompt template", _PROMPT) if is_prompt else _CONFIG_FILE
        return Meaning(what, setting, word) if setting in settings else None
    if Path(word).suffix in _ROWS_SUFFIXES:
        return _of_any("a file of rows", _ROWS, word, settings)
    if component := component_named(word):
        return _of_component(component, settings)
    if ENTRYPOINT in settings and Path(word).name not in {"", ".."}:
        is_in_tree = "/" in word and not word.startswith((".", "/"))
        folder = word if is_in_tree else f"{_RESOURCES}/{Path(word).name}"
        return Meaning("the name of a folder", ENTRYPOINT, folder)
    if word in settings:
        return Meaning("a setting without a value", word, "VALUE")
    return _of_any("a name", _NAMES, word, settings)


def _of_any(
    what: str, names: Sequence[str], value: str, settings: Collection[str]
) -> Meaning | None:
    setting = next((name for name in names if name in settings), None)
    return None if setting is None else Meaning(what, setting, value)


def _of_component(component: "InstalledComponent", settings: Collection[str]) -> Meaning | None:
    what = f"the name of {KINDS[component.kind]}"
    is_environment = component.kind in {"resources-servers", "environments"}
    if ENTRYPOINT in settings:
        return Meaning(what, ENTRYPOINT, _from_root(component.folder), is_environment)
    if CONFIG_PATHS not in settings or not component.configs:
        return None
    return Meaning(what, CONFIG_PATHS, _from_root(component.configs[0]), is_environment)


def component_named(word: str) -> "InstalledComponent | None":
    """Return the component that a word names, such as `mcqa` or `resources_servers/mcqa`."""
    name = Path(word).name
    for component in components():
        if word in {component.name, _from_root(component.folder)} and name:
            return component
    return None


def components() -> "Sequence[InstalledComponent]":
    """Return every component that a command line may name."""
    from palestra.authoring import installed_components

    roots = search_roots()
    return [component for kind in KINDS for component in installed_components(kind, roots)]


def _from_root(path: Path) -> str:
    """Return a path as a command line names it: from the folder that is searched."""
    root = next((root for root in search_roots() if path.is_relative_to(root)), None)
    return str(path if root is None else path.relative_to(root))


def absence_of(word: str) -> str:
    """Return what to add to a message when the file that a word names does not exist."""
    from palestra.settings import existing_path  # pydantic takes 50 ms to import

    path = existing_path(word)
    is_file = Path(word).suffix in _CONFIG_SUFFIXES | _ROWS_SUFFIXES
    return (
        f", which does not exist{did_you_mean_path(path)}" if is_file and not path.exists() else ""
    )


def refuse_divided_lists(program: Sequence[str], words: Sequence[str]) -> None:
    """Raise ConfigError: a space divides a list in brackets, such as `+config_paths=[a.yaml, b.yaml]`
    without quotes. The hint is the whole command.

    `program`: the words that call the command, before `words`.
    """
    for first, word in enumerate(words):
        if not _LIST_BEGIN.match(word) or word.count("[") <= word.count("]"):
            continue
        for last in range(first + 1, len(words)):
            parts = words[first : last + 1]
            if any(part.startswith("-") or "=" in part for part in parts[1:]):
                break
            joined = "".join(parts)
            if joined.count("[") == joined.count("]"):
                typed = (*words[:first], joined, *words[last + 1 :])
                command = shlex.join((*program, *map(mask_line, typed)))
                raise ConfigError(
                    f"a space divides the list {mask_line(' '.join(parts))}; quote the list",
                    hint=Phrase("{command}", command=command),
                )


def refuse_bare_words(command: str, words: Sequence[str]) -> None:
    """Raise ConfigError: a word is not an override. The hint is what to type for a file or for the
    name of an environment.

    `command`: the command of `palestra` that takes `words`, its overrides.
    """
    for word in filter(is_bare, words):
        raise ConfigError(
            f"`palestra {command}` takes flags and overrides (key=value), not {word!r}"
            + absence_of(word),
            hint=_remedy(command, word),
        )


def _remedy(command: str, word: str) -> str:
    rows_setting = _ROWS[:1] if command in _TAKES_ROWS else ()
    meaning = meaning_of(word, (CONFIG_PATHS, *rows_setting))
    if meaning is None:
        return f"`palestra {command} -h` lists the flags; `palestra list` lists the environments"
    if meaning.setting != CONFIG_PATHS:
        return f"name a file of rows by its flag: --input {word}"
    if not meaning.is_environment:
        return f"name a config by its flag: --config {meaning.value}"
    name = Path(word).name
    if command in _TAKES_ROWS:
        return (
            f"`palestra {command} --config {meaning.value} --split example --output "
            f"runs/{name}.jsonl --model local`; `palestra eval {name} --model local` does the whole "
            "run"
        )
    model = "" if command == "config" else " --model local"
    return (
        f"`palestra {command} --config {meaning.value}{model}`; `palestra eval {name}` runs its "
        "tasks"
    )

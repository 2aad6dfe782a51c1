"""Words of a command line that are neither flags nor overrides: what to write instead of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from palestra.config import did_you_mean_path
from palestra.errors import ConfigError
from palestra.settings import existing_path

_TAKES_ROWS: Final = frozenset({"collect", "doctor"})
_CONFIG_SUFFIXES: Final = frozenset({".yaml", ".yml"})
_ROWS_SUFFIXES: Final = frozenset({".jsonl", ".json", ".csv", ".tsv", ".parquet", ".gz", ".zst"})


def refuse_bare_words(command: str, words: Sequence[str]) -> None:
    """Raise ConfigError: a word is not an override. The hint is what to type for a file or for the
    name of an environment.

    `command`: the command of `palestra` that takes `words`, its overrides.
    """
    for word in words:
        if "=" not in word and not word.startswith(("~", "+")):
            raise ConfigError(
                f"`palestra {command}` takes flags and overrides (key=value), not {word!r}"
                + _absence_of(word),
                hint=_remedy(command, word),
            )


def _absence_of(word: str) -> str:
    path = existing_path(word)
    is_file = Path(word).suffix in _CONFIG_SUFFIXES | _ROWS_SUFFIXES
    return (
        f", which does not exist{did_you_mean_path(path)}" if is_file and not path.exists() else ""
    )


def _remedy(command: str, word: str) -> str:
    name = Path(word).name
    config = f"resources_servers/{name}/configs/{name}.yaml"
    is_environment = word in {name, f"resources_servers/{name}"} and existing_path(config).exists()
    if is_environment and command in _TAKES_ROWS:
        return (
            f"`palestra {command} --config {config} --split example --output runs/{name}.jsonl "
            f"--model local`; `palestra eval {name} --model local` does the whole run"
        )
    if is_environment:
        model = "" if command == "config" else " --model local"
        return (
            f"`palestra {command} --config {config}{model}`; `palestra eval {name}` runs its tasks"
        )
    if Path(word).suffix in _CONFIG_SUFFIXES:
        return f"name a config by its flag: --config {word}"
    if Path(word).suffix in _ROWS_SUFFIXES and command in _TAKES_ROWS:
        return f"name a file of rows by its flag: --input {word}"
    return f"`palestra {command} -h` lists the flags; `palestra list` lists the environments"

"""Which files of a repository hold which split."""

import fnmatch
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from palestra.errors import ConfigError
from palestra.schema import JsonObject

FORMATS: Final = ((".jsonl",), (".parquet",), (".csv", ".tsv"), (".json", ".ndjson"))
"""What rows are read from, the best first: of a split in several, they are the same rows."""
READABLE: Final = tuple(ending for endings in FORMATS for ending in endings)
NO_DATA: Final = frozenset(
    {"config.json", "dataset_dict.json", "dataset_infos.json", "metadata.json", "state.json"}
)
"""What tools leave beside data."""
_WORDS: Final[Mapping[str, str]] = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
    "eval": "test",
    "evaluation": "test",
    "example": "example",
    "examples": "example",
    "benchmark": "benchmark",
}
"""Words in a file's path that say its split; the hub's own, and ours."""
_BETWEEN_WORDS: Final = re.compile(r"[^A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Split:
    """A split and the files that hold it, in order."""

    name: str
    files: tuple[str, ...]


def splits_of(files: Sequence[str], card: JsonObject) -> dict[str, Split]:
    """The splits of a repository: as its card says, else as its files are called.

    Files that say nothing of a split are the train split, when no file does.
    """
    listed = dict(_by_card(files, card.get("configs"))) or _by_name(files)
    return {
        name: Split(name, tuple(sorted(_one_format(split_files))))
        for name, split_files in listed.items()
        if split_files
    }


def chosen(splits: Mapping[str, Split], name: str, repo_id: str) -> Split:
    """One of them. Raises ConfigError that names those there are."""
    split = splits.get(name)
    if split is None:
        raise ConfigError(
            f"{repo_id} has no split {name!r}",
            hint=f"it has {', '.join(splits)}" if splits else NOTHING_READABLE,
        )
    return split


NOTHING_READABLE: Final = (
    f"it has no file of rows ({', '.join(READABLE)}); artifact_fpath fetches any other as it is"
)


def _by_card(files: Sequence[str], configs: Any) -> Iterator[tuple[str, list[str]]]:
    """By the `configs` of the card: the default one, else the first."""
    if not isinstance(configs, list):
        return
    configs_named = [config for config in configs if isinstance(config, Mapping)]
    configs_named.sort(key=lambda config: not (config.get("default") or _is_default(config)))
    if not configs_named:
        return
    data = configs_named[0].get("data_files")
    if isinstance(data, str | list) and not _is_list_of_splits(data):
        data = [{"split": "train", "path": data}]
    for entry in data or ():
        patterns = entry.get("path", ())
        patterns = [patterns] if isinstance(patterns, str) else patterns
        matching = [file for file in files if any(_fits(file, pattern) for pattern in patterns)]
        yield str(entry.get("split")), matching


def _is_default(config: JsonObject) -> bool:
    return config.get("config_name") == "default"


def _is_list_of_splits(data: Any) -> bool:
    return isinstance(data, list) and all(isinstance(item, Mapping) for item in data)


def _fits(file: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(file, pattern.replace("**/", "*"))


def _by_name(files: Iterable[str]) -> dict[str, list[str]]:
    by_split: defaultdict[str, list[str]] = defaultdict(list)
    readable = [file for file in files if _is_data(file)]
    for file in readable:
        for name in _said_by(file):
            by_split[name].append(file)
    return dict(by_split) if by_split else {"train": readable}


def _said_by(file: str) -> list[str]:
    """The split that a path tells, the file's own name before its folders'."""
    path = PurePosixPath(file)
    for part in (path.stem, *reversed(path.parent.parts)):
        words = [_WORDS[word] for word in _BETWEEN_WORDS.split(part.lower()) if word in _WORDS]
        if words:
            return words[:1]
    return []


def _one_format(files: Sequence[str]) -> list[str]:
    """Only those of the best format that is there."""
    for endings in FORMATS:
        if of_format := [file for file in files if PurePosixPath(file).suffix in endings]:
            return of_format
    return []


def _is_data(file: str) -> bool:
    path = PurePosixPath(file)
    return path.suffix in READABLE and path.name not in NO_DATA

"""Find out which files of a repository belong to which split."""

import fnmatch
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from palestra.config import did_you_mean
from palestra.errors import ConfigError
from palestra.schema import JsonObject

FORMATS: Final = ((".jsonl",), (".parquet",), (".csv", ".tsv"), (".json", ".ndjson"))
"""The readable file formats, best first. When a split exists in several formats, the rows are the
same."""
READABLE: Final = tuple(ending for endings in FORMATS for ending in endings)
NO_DATA: Final = frozenset(
    {"config.json", "dataset_dict.json", "dataset_infos.json", "metadata.json", "state.json"}
)
"""Names of JSON files that tools write next to the data; they contain no rows."""
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
"""Words in a file's path -> the split that they mean, both the hub's words and Palestra's."""
_BETWEEN_WORDS: Final = re.compile(r"[^A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Split:
    """A split and its files, in order."""

    name: str
    files: tuple[str, ...]


def splits_of(files: Sequence[str], card: JsonObject, config: str = "") -> dict[str, Split]:
    """Return the splits of a repository: from its dataset card, else from the file names.

    `config`: the config of the card, or the folder of its files; empty: the default one. When no
    file name contains a split's name, all files are the train split. Raises ConfigError: there is
    no such config.
    """
    configs = card.get("configs")
    if config:
        configs, files = _narrowed(configs, files, config)
    listed = dict(_by_card(files, configs)) or _by_name(files)
    return {
        name: Split(name, tuple(sorted(_one_format(split_files))))
        for name, split_files in listed.items()
        if split_files
    }


def _narrowed(configs: Any, files: Sequence[str], config: str) -> tuple[Any, Sequence[str]]:
    """Return only the card's config of this name, and the files that it may have."""
    card_configs = [item for item in configs or () if isinstance(item, Mapping)]
    chosen_configs = [item for item in card_configs if item.get("config_name") == config]
    if chosen_configs:
        return chosen_configs, files
    in_folder = [file for file in files if config in file.split("/")[:-1]]
    if card_configs or not in_folder:
        names = [str(item.get("config_name")) for item in card_configs]
        names = names or sorted({file.split("/")[0] for file in files if "/" in file})
        raise ConfigError(
            f"the dataset has no config {config!r}{did_you_mean(config, names)}",
            hint=f"it has {', '.join(names)}" if names else "leave the config out",
        )
    return None, in_folder


def only_split(splits: Mapping[str, Split], repo_id: str) -> Split:
    """Return the only split. Raises ConfigError that lists the splits: there is not exactly one."""
    if len(splits) == 1:
        return next(iter(splits.values()))
    names = ", ".join(splits)
    raise ConfigError(
        f"{repo_id} has {len(splits) or 'no'} splits" + (f": {names}" if names else ""),
        hint=f"add one to the name: /{next(iter(splits))}" if splits else NOTHING_READABLE,
    )


def chosen(splits: Mapping[str, Split], name: str, repo_id: str) -> Split:
    """Return the split called `name`. Raises ConfigError that lists the existing splits."""
    split = splits.get(name)
    if split is None:
        raise ConfigError(
            f"{repo_id} has no split {name!r}",
            hint=f"it has {', '.join(splits)}" if splits else NOTHING_READABLE,
        )
    return split


NOTHING_READABLE: Final = (
    f"it has no file of rows ({', '.join(READABLE)}); --artifact fetches any other as it is"
)


def _by_card(files: Sequence[str], configs: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield the splits and their files from the card's `configs`: the default config, else the
    first.
    """
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
    """Return the split that a path names, or an empty list. The file's own name comes before its
    folders' names.
    """
    path = PurePosixPath(file)
    for part in (path.stem, *reversed(path.parent.parts)):
        words = [_WORDS[word] for word in _BETWEEN_WORDS.split(part.lower()) if word in _WORDS]
        if words:
            return words[:1]
    return []


def _one_format(files: Sequence[str]) -> list[str]:
    """Return only the files of the best format present."""
    for endings in FORMATS:
        if of_format := [file for file in files if PurePosixPath(file).suffix in endings]:
            return of_format
    return []


def _is_data(file: str) -> bool:
    path = PurePosixPath(file)
    return path.suffix in READABLE and path.name not in NO_DATA

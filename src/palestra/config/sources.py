"""Find and read config files, in order of precedence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palestra.config.environment_files import NamedFile, environment_tree, file_server_settings
from palestra.config.paths import SearchPaths
from palestra.config.problems import located, raise_problems
from palestra.config.yaml_text import line_at, read_yaml
from palestra.errors import ConfigError, Problem
from palestra.system import file_and_line

CONFIG_PATHS = "config_paths"
ENV_YAML = "env.yaml"
_ROW_SUFFIXES = frozenset({".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"})


@dataclass(frozen=True)
class Source:
    """One config file that was read. `tree` is its content without `config_paths`."""

    path: Path
    tree: dict[Any, Any] = field(repr=False)


@dataclass(frozen=True)
class EnvironmentFile:
    """`env.yaml`: the settings of this machine. `config_paths` are the files that it includes."""

    source: Source
    config_paths: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def read_sources(
    requests: Sequence[tuple[str, str]], search_paths: SearchPaths
) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    """Return the requested files and all files that they include, lowest precedence first, and
    warnings.

    `requests` are pairs of a path and the origin of the request. A file comes after the files that
    it includes, because it overrides them. Each file is read once; a repeat is a warning.
    """
    reader = _Reader(search_paths)
    for path, wanted_by in requests:
        reader.read(path, wanted_by)
    return tuple(reader.sources), tuple(reader.warnings)


class _Reader:
    def __init__(self, search_paths: SearchPaths) -> None:
        self._places = search_paths
        self._wanted_by: dict[Path, str] = {}
        self._named: dict[Path, str] = {}
        self.sources: list[Source] = []
        self.warnings: list[str] = []

    def read(self, path: str, wanted_by: str) -> None:
        source_file = NamedFile.parse(path)
        path_found = self._places.find_file(
            source_file.path if source_file else path, wanted_by=wanted_by
        )
        real = path_found.resolve()
        first = self._wanted_by.get(real)
        if first is not None:
            self._refuse_two_names(self._named[real], path)
            self.warnings.append(
                f"config_paths: {path} ({wanted_by}) was already read ({first}), so it is read "
                "once only"
            )
            return
        self._wanted_by[real] = wanted_by
        self._named[real] = path
        if source_file is not None:
            tree = environment_tree(path_found, source_file.class_name)
            self._refuse_repeated_names(tree, path_found)
            self.sources.insert(0, Source(path_found, tree))  # settings of it may be in any file
            return
        _refuse_rows(path_found)
        tree, warnings = read_yaml(path_found)
        self.warnings.extend(warnings)
        if not tree:
            self.warnings.append(f"{path_found} is empty: it configures nothing")
        for included in _included_by(path_found, tree):
            self.read(included, f"included by {path_found}")
        self.sources.append(Source(path_found, tree))

    def _refuse_repeated_names(self, tree: Mapping[Any, Any], path: Path) -> None:
        """Raise ConfigError when another file has an instance of the environment's name, and not only
        settings of it.
        """
        for source in self.sources:
            shared = tree.keys() & source.tree.keys()
            if repeated := sorted(name for name in shared if not _is_settings(source.tree[name])):
                line = line_at(source.path, (repeated[0],))
                raise ConfigError(
                    f"{path} and {file_and_line(source.path, line)} both define {repeated[0]!r}",
                    hint="rename one of the files: an environment is named after its file"
                    if source.path.suffix == ".py"
                    else f"settings of {path.name} alone may be in {source.path.name}; name another "
                    "server, or the file, otherwise",
                )

    def _refuse_two_names(self, first: str, second: str) -> None:
        old = [path for path in (first, second) if self._places.renamed(path)]
        if len(old) == 1:
            raise ConfigError(
                f"config_paths names one file twice: {first} and {second}",
                hint=f"{old[0]} is its old name; leave it out",
            )


def _is_settings(block: Any) -> bool:
    """Whether a top-level entry has settings of an environment in one file, and does not say which."""
    settings = file_server_settings(block)
    return settings is not None and "path" not in settings


def _refuse_rows(path: Path) -> None:
    """Raise ConfigError when the file's name is that of task rows. One row of JSON is YAML too."""
    if _ROW_SUFFIXES.intersection(path.suffixes[-2:]):
        raise ConfigError(
            f"{path} is a file of rows, not a config",
            hint="pass rows with --input; a config file is lines of `key: value`",
        )


def read_environment(search_paths: SearchPaths) -> EnvironmentFile | None:
    """Read `env.yaml` from the first search root that has one; None when none has."""
    path = search_paths.resolve(ENV_YAML)
    if not path.is_file():
        return None
    tree, warnings = read_yaml(path)
    return EnvironmentFile(Source(path, tree), _included_by(path, tree), warnings)


def no_environment(search_paths: SearchPaths) -> str:
    """Return where `env.yaml` was looked for in vain, and a file that may be meant to be it."""
    folder = search_paths.cwd
    for misnamed in ("env.yml", "env.yaml.txt", ".env.yaml", ".env.yml"):
        if (folder / misnamed).is_file():
            return f"{misnamed} is not read: rename it to {ENV_YAML}"
    above = next((up for up in folder.resolve().parents if (up / ENV_YAML).is_file()), None)
    if above is not None:
        return f"{above / ENV_YAML} is not read: run the command in that folder"
    return f"there is no {ENV_YAML} in {folder.resolve()}"


def _included_by(path: Path, tree: dict[Any, Any]) -> tuple[str, ...]:
    """Remove `config_paths` from the tree of a file, in place, and return it as a tuple."""
    try:
        return take_config_paths(tree, where="")
    except ConfigError as error:
        [problem] = (located(p, path, (CONFIG_PATHS,)) for p in error.problems)
        raise ConfigError(problem.message, hint=problem.hint, problems=(problem,)) from None


def take_config_paths(tree: dict[Any, Any], *, where: str) -> tuple[str, ...]:
    """Remove `config_paths` from `tree` in place and return it as a tuple. A string counts as one
    path.
    """
    return paths_in(tree.pop(CONFIG_PATHS, None), where=where)


def paths_in(value: Any, *, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or not all(isinstance(p, str) and p for p in paths):
        start = f"{where}: " if where else ""
        problem = Problem(
            f"{start}config_paths must be a list of paths",
            hint='for example "+config_paths=[a.yaml,b.yaml]"',
            key=CONFIG_PATHS,
        )
        raise_problems([problem])
    return tuple(paths)

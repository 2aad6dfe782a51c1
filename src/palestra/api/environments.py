"""Finds the environment that a name refers to: a folder, a Python file, a config, or the name of a
built-in environment.
"""

import importlib
import importlib.util
import inspect
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Final

from palestra.api.endpoint_waiting import Tell
from palestra.api.environment_files import file_environment, rows_of_instance
from palestra.authoring import file_environments, read_manifest
from palestra.config import (
    PACKAGE_ROOT,
    ConfigTree,
    InstanceConfig,
    NamedFile,
    ResolvedConfig,
    ServerType,
    did_you_mean,
    nearest,
    nearest_name,
)
from palestra.conformance import (
    CASES_FILE,
    Case,
    ExaminedEnvironment,
    has_numbered_rows,
    load_cases,
)
from palestra.errors import ConfigError, InputDataError
from palestra.fleet import FileRows, start_timeout_of
from palestra.schema import CREATE_PARAMS, JsonDict, JsonObject, Response, read_jsonl
from palestra.settings import EvalArgs, existing_path, existing_paths, load
from palestra.system import shown

EXAMPLE_ROLLOUTS = "example_rollouts.jsonl"
EXAMPLES = "example.jsonl"
_ROWS_ENDINGS: Final = frozenset({".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet"})
_FOLDERS: Final = frozenset({".", ".."})


@dataclass(frozen=True, slots=True)
class EvaluationTarget:
    """An environment to evaluate: its config and the source of its rows."""

    name: str
    configs: tuple[str, ...] = ()
    extra: ConfigTree = field(default_factory=dict)
    rows: Iterator[JsonDict] | None = None
    group_by: str | None = None
    empty: str = ""
    """The message for a target without rows."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An environment of a configuration, loaded before the settings of its servers are required."""

    instance: InstanceConfig
    target: EvaluationTarget | None
    extra: ConfigTree
    config: ResolvedConfig


def find_subject(name: str, overrides: list[str], report: Tell = str) -> ExaminedEnvironment:
    """Return the environment that `name` refers to: a name, a folder, a Python file, a config, or
    an instance of the config files in `overrides`.

    Raises ConfigError: there is no such environment.
    """
    sought = _environment_named(name, overrides, report)
    servers, judges = _servers_and_models(sought.config, sought.instance.name)
    config = load(overrides, ng=False, extra=sought.extra, required=servers)
    rows = _rows(sought)
    data = None if sought.instance.folder is None else sought.instance.folder / "data"
    return ExaminedEnvironment(
        name=sought.instance.name,
        config=config,
        servers=servers,
        judges=judges,
        rows=rows,
        cases=_cases(data, rows),
        recorded=_recorded(data, rows),
        declared_range=_declared_range(sought),
    )


def _declared_range(sought: Wanted) -> tuple[float, float] | None:
    """Return the reward range of the manifest beside the environment's config; None without one."""
    if sought.target is None or len(sought.target.configs) != 1:
        return None
    manifest = existing_path(sought.target.configs[0]).with_name("manifest.yaml")
    return read_manifest(manifest).reward.range if manifest.is_file() else None


def _environment_named(name: str, overrides: list[str], report: Tell) -> Wanted:
    if any("config_paths" in item for item in overrides):
        config = load(overrides, ng=False, required=())
        return Wanted(environment_instance(name, config), None, {}, config)
    target = find_target(EvalArgs(target=name), overrides, report)
    extra = {**target.extra, "config_paths": list(target.configs)}
    config = load(overrides, ng=False, extra=extra, required=())
    servers = config.instances_of(ServerType.RESOURCES)
    if len(servers) == 1:
        return Wanted(servers[0], target, extra, config)
    return Wanted(
        environment_instance(next(iter(target.extra), target.name), config), target, extra, config
    )


def environment_instance(name: str, config: ResolvedConfig) -> InstanceConfig:
    """Return the resources server named `name`; without one, the only server whose folder has that
    name.

    Raises ConfigError: there is no such server, or there are several.
    """
    servers = config.instances_of(ServerType.RESOURCES)
    matches = [s for s in servers if s.name == name]
    matches = matches or [s for s in servers if s.implementation == name]
    if len(matches) == 1:
        return matches[0]
    names = [server.name for server in servers]
    near = nearest(name, names)
    raise ConfigError(
        f"there is no environment {name!r} in the configuration"
        + (f"; did you mean {near!r}?" if near else ""),
        hint=f"environments: {', '.join(names) or 'none'}",
    )


def _servers_and_models(config: ResolvedConfig, name: str) -> tuple[list[str], list[str]]:
    """Return the names of the servers that an environment needs (the environment first) and of the
    models that they call.
    """
    servers: list[str] = []
    models: list[str] = []
    to_visit = [name]
    while to_visit:
        instance = config.instance(to_visit.pop())
        if instance.name in servers:
            continue
        servers.append(instance.name)
        for ref in instance.refs:
            if ref.type == ServerType.MODEL:
                models.append(ref.name)
            else:
                to_visit.append(ref.name)
    return servers, sorted(set(models))


def _rows(sought: Wanted) -> list[JsonObject]:
    """Return the example rows from the datasets of the environment's agents; without any, from the
    environment's data folder.
    """
    target = sought.target
    if target is not None and target.rows is not None and target.extra:
        return list(target.rows)
    if rows := rows_of_instance(sought.instance, start_timeout_of(sought.config.tree), str):
        return list(rows)
    for path in _example_files(sought):
        if path.exists() and path.suffix != ".py":
            return [line.row for line in read_jsonl(path)]
    return []


def _example_files(sought: Wanted) -> Iterable[Path]:
    name = sought.instance.name
    for agent in sought.config.instances_of(ServerType.AGENT):
        if any(ref.name == name for ref in agent.refs):
            for dataset in agent.datasets:
                if dataset.get("type") == "example":
                    yield existing_path(str(dataset["jsonl_fpath"]))
    if sought.instance.folder is not None:
        yield sought.instance.folder / "data" / EXAMPLES


def _cases(data: Path | None, rows: Sequence[JsonObject]) -> list[Case]:
    path = None if data is None else data / CASES_FILE
    if path is None or not path.exists():
        return []
    if (
        not rows
        and has_numbered_rows(path)
        and not (example_file := path.with_name(EXAMPLES)).exists()
    ):
        raise InputDataError(
            f"{example_file} does not exist, but {CASES_FILE} in the same folder refers to its "
            "rows",
            hint=f"restore {EXAMPLES}: the task rows, one JSON object per line",
        )
    return load_cases(path, rows)


def _recorded(data: Path | None, rows: Sequence[JsonObject]) -> list[Case]:
    """Return the recorded rollouts of the example rows, with their recorded rewards."""
    path = None if data is None else data / EXAMPLE_ROLLOUTS
    if path is None or not path.exists():
        return []
    numbers = {str(row.get(CREATE_PARAMS)): number for number, row in enumerate(rows)}
    cases: list[Case] = []
    for line in read_jsonl(path):
        row = dict(line.row)
        response, reward = row.pop("response", None), row.pop("reward", None)
        if isinstance(response, dict) and isinstance(reward, int | float):
            number = numbers.get(str(row.get(CREATE_PARAMS)))
            cases.append(
                Case(row, Response.model_validate(response), reward, number, "recorded", False)
            )
    return cases


def find_target(args: EvalArgs, overrides: list[str], report: Tell = str) -> EvaluationTarget:
    """Return the environment that `args.target` refers to. Raises ConfigError: there is none; the
    message suggests a similar name.

    `overrides`: the overrides of the command; `start_timeout` limits the import of a Python file.
    `report`: gets a line when the file's requirements need a Python environment of their own.
    """
    _refuse_bare_rows(args, overrides)
    target_name = _config_in(args.target) or args.target
    if _row_maker(target_name) is None:
        _refuse_row_options(args)
    if (source_file := NamedFile.parse(target_name)) is not None:
        return _file_target(source_file, args, overrides, report)
    if target_name.endswith((".yaml", ".yml")):
        return EvaluationTarget(Path(target_name).stem, (target_name,))
    config = f"resources_servers/{target_name}/configs/{target_name}.yaml"
    if existing_path(config).exists():
        return _named_target(target_name, config, args)
    if (folder := existing_path(f"resources_servers/{target_name}")).is_dir():
        raise _unconfigured(target_name, folder)
    if (source_file := NamedFile.parse(re.sub("::|@", ":", target_name))) is not None:
        raise ConfigError(
            f"there is no environment {target_name!r}; did you mean '{source_file}'?",
            hint="a colon stands before the class, or the function, of a file",
        )
    own_names = _own_environments()
    if _is_file_of_rows(target_name):
        environment = own_names[0] if len(own_names) == 1 else "ENV"
        raise ConfigError(
            f"{target_name!r} is a file of rows, and no environment",
            hint=f"name the environment first: `palestra eval {environment} --input {shlex.quote(target_name)}`",
        )
    if (file := f"{target_name}.py") in own_names:
        raise ConfigError(
            f"there is no environment {target_name!r}; did you mean {file!r}?",
            hint="an environment in one file is named by its file",
        )
    if Path(target_name).is_dir() and _file_names(Path(target_name)):
        raise _unconfigured(target_name, Path(target_name))
    near = nearest(target_name, own_names) or nearest(target_name, _environments())
    yours = f"yours here: {', '.join(own_names)}; " if own_names else ""
    raise ConfigError(
        f"there is no environment {target_name!r}" + (f"; did you mean {near!r}?" if near else ""),
        hint=f"{yours}environments: {', '.join(_environments())}; or pass a .py or .yaml file",
    )


def _refuse_bare_rows(args: EvalArgs, overrides: Sequence[str]) -> None:
    rows = next(filter(_is_file_of_rows, overrides), "")
    if rows and not args.input:
        raise ConfigError(
            f"{rows!r} is a file of rows without a flag", hint=f"write --input {shlex.quote(rows)}"
        )


def _is_file_of_rows(name: str) -> bool:
    return bool(_ROWS_ENDINGS.intersection(Path(name).suffixes)) and os.path.isfile(name)  # noqa: PTH113  # a long text is none


def _config_in(target_name: str) -> str | None:
    """Return the config of an environment's folder; None when `target_name` is not the path of a
    folder. Raises ConfigError: the folder has no config.
    """
    folder = Path(target_name)
    is_path = "/" in target_name or target_name in _FOLDERS
    if not is_path or not folder.is_dir():
        return None
    config = folder / "configs" / f"{folder.absolute().name}.yaml"
    if (folder / "config.yaml").is_file():  # of an environment or a benchmark
        return str(folder / "config.yaml")
    if not config.exists():
        raise _unconfigured(target_name, folder)
    return str(config)


def _unconfigured(target_name: str, folder: Path) -> ConfigError:
    """Return the error for a folder that lacks a config or `app.py`."""
    name = folder.absolute().name
    missing = f"{shown(folder)}/configs/{name}.yaml"
    if not (folder / "app.py").exists():
        names_inside = [shown(folder / name) for name in _file_names(folder)]
        own_names = _own_environments()
        hint = "`palestra list` names the environments; one of yours is a folder, or a .py file"
        if names_inside:
            hint = f"name one in it: {', '.join(names_inside)}"
        elif own_names:
            hint = f"yours here: {', '.join(own_names)}"
        return ConfigError(
            f"{target_name} is not an environment's folder: {missing} and {shown(folder)}/app.py are missing",
            hint=hint,
        )
    in_tree = folder.absolute().parent.name == "resources_servers"
    where = shown(folder) if in_tree else f"resources_servers/{name}"
    return ConfigError(
        f"the environment {target_name!r} has no config: {shown(folder)}/app.py exists, but "
        f"{missing} is missing",
        hint=("" if in_tree else f"move the folder to {where}, then ")
        + f"palestra init {where} --config-only",
    )


def _environments() -> list[str]:
    return _environments_in(PACKAGE_ROOT)


def _own_environments() -> list[str]:
    """Return the user's environments in the working directory: folders, and Python files with an
    environment.
    """
    return [*_environments_in(Path.cwd()), *_file_names(Path.cwd())]


def _file_names(folder: Path) -> list[str]:
    """Return the names of the Python files in a folder that define an environment."""
    return [*dict.fromkeys(environment.path.name for environment in file_environments(folder))]


def _environments_in(root: Path) -> list[str]:
    configs = (root / "resources_servers").glob("*/configs/*.yaml")
    return sorted({path.parent.parent.name for path in configs})


def _file_target(
    source_file: NamedFile, args: EvalArgs, overrides: list[str], report: Tell
) -> EvaluationTarget:
    path = existing_path(source_file.path)
    if not path.exists():
        near = nearest_name(path.name, _own_environments())
        raise ConfigError(f"{path} does not exist" + (f"; did you mean {near!r}?" if near else ""))
    data = None if args.input is None else existing_paths(args.input)
    tree, rows = file_environment(source_file, overrides, report, data=data)
    empty = "" if rows.rows else _no_rows(args, path, rows)
    return EvaluationTarget(path.stem, extra=tree, rows=iter(rows.rows), empty=empty)


def _no_rows(args: EvalArgs, path: Path, rows: FileRows) -> str:
    if args.input or not rows.data_place:
        return f"{args.input or path} has no rows"
    return f"{rows.data_place}{rows.name} has no rows"


def _row_maker(name: str) -> ModuleType | None:
    """Return the module that makes the tasks of a built-in environment; None without one."""
    if not name.isidentifier():
        return None
    module = f"palestra.resources_servers.{name}.rows"
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return None if spec is None else importlib.import_module(module)


def _refuse_row_options(args: EvalArgs) -> None:
    """Raise ConfigError: options for making tasks are set, and the environment makes none."""
    options = [("--rows", bool(args.rows)), ("--seed", args.seed is not None)]
    if useless := [name for name, is_set in options if is_set]:
        raise ConfigError(
            f"{' and '.join(useless)}: {args.target} has its tasks and does not make them",
            hint=f"leave {' and '.join(useless)} out",
        )


def _refuse_unknown_options(name: str, options: JsonDict, maker: inspect.Signature) -> None:
    """Raise ConfigError: the environment `name` makes its rows without one of the options."""
    takes = [p.name for p in maker.parameters.values() if p.kind is p.KEYWORD_ONLY]
    if unknown := next((option for option in options if option not in takes), None):
        raise ConfigError(
            f"--rows {unknown}: {name} has no such option{did_you_mean(unknown, takes)}",
            hint=f"--rows takes {', '.join(f'{option}=VALUE' for option in takes)}; --limit N is "
            "the number of rows",
        )


def _named_target(name: str, config: str, args: EvalArgs) -> EvaluationTarget:
    """Return an environment with a folder and a config. If it generates rows on demand,
    `args.limit` (default 5) is their number.
    """
    maker = _row_maker(name)
    if maker is None:
        return EvaluationTarget(name, (config,))
    options: JsonDict = dict(args.rows)
    _refuse_unknown_options(name, options, inspect.signature(maker.make_rows))
    count = 5 if args.limit is None else args.limit
    try:
        rows = maker.make_rows(count, seed=args.seed or 0, **options)
    except TypeError as error:
        option_list = ", ".join(options)
        raise ConfigError(f"{name} cannot make rows with --rows {option_list}: {error}") from error
    return EvaluationTarget(name, (config,), rows=rows, group_by=getattr(maker, "GROUP_BY", None))

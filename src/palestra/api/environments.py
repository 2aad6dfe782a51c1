"""Finds the environment that a name refers to: a folder, a Python file, a config, or the name of a
built-in environment.
"""

import importlib
import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from palestra.api.fleet_connection import Tell
from palestra.config import (
    PACKAGE_ROOT,
    ConfigTree,
    InstanceConfig,
    ResolvedConfig,
    ServerType,
    did_you_mean,
    nearest,
    read_settings,
)
from palestra.conformance import (
    CASES_FILE,
    Case,
    ExaminedEnvironment,
    has_numbered_rows,
    load_cases,
)
from palestra.errors import ConfigError, InputDataError
from palestra.fleet import (
    START_TIMEOUT,
    cache_root,
    file_rows,
    made_interpreter,
    requirements_of,
    start_timeout_of,
    starting_within,
    unsatisfied,
)
from palestra.schema import CREATE_PARAMS, JsonDict, JsonObject, Response, read_jsonl
from palestra.settings import EvalArgs, existing_path, load
from palestra.system import shown

EXAMPLE_ROLLOUTS = "example_rollouts.jsonl"
EXAMPLES = "example.jsonl"


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
    )


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
    for path in _example_files(sought):
        if path.exists():
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
            f"{example_file} does not exist, and {CASES_FILE} beside it has cases of its rows",
            hint=f"give {EXAMPLES} back: the task rows, one a line",
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
    target_name = _config_in(args.target) or args.target
    if target_name.endswith(".py"):
        settings = read_settings((START_TIMEOUT,), overrides=overrides)
        with starting_within(start_timeout_of(settings)):
            return _file_target(existing_path(target_name), report)
    if target_name.endswith((".yaml", ".yml")):
        return EvaluationTarget(Path(target_name).stem, (target_name,))
    config = f"resources_servers/{target_name}/configs/{target_name}.yaml"
    if existing_path(config).exists():
        return _named_target(target_name, config, args)
    if (folder := existing_path(f"resources_servers/{target_name}")).is_dir():
        raise _unconfigured(target_name, folder)
    own_names = _own_environments()
    near = nearest(target_name, own_names) or nearest(target_name, _environments())
    yours = f"yours here: {', '.join(own_names)}; " if own_names else ""
    raise ConfigError(
        f"there is no environment {target_name!r}" + (f"; did you mean {near!r}?" if near else ""),
        hint=f"{yours}environments: {', '.join(_environments())}; or give a .py or .yaml file",
    )


def _config_in(target_name: str) -> str | None:
    """Return the config of an environment's folder; None when `target_name` is not the path of a
    folder. Raises ConfigError: the folder has no config.
    """
    folder = Path(target_name)
    if "/" not in target_name or not folder.is_dir():
        return None
    config = folder / "configs" / f"{folder.absolute().name}.yaml"
    if not config.exists():
        raise _unconfigured(target_name, folder)
    return str(config)


def _unconfigured(target_name: str, folder: Path) -> ConfigError:
    """Return the error for a folder that lacks a config or `app.py`."""
    name = folder.absolute().name
    missing = f"{shown(folder)}/configs/{name}.yaml"
    if not (folder / "app.py").exists():
        return ConfigError(
            f"{target_name} is not an environment's folder: {missing} and {shown(folder)}/app.py are missing"
        )
    in_tree = folder.absolute().parent.name == "resources_servers"
    where = shown(folder) if in_tree else f"resources_servers/{name}"
    return ConfigError(
        f"the environment {target_name!r} has no config: {shown(folder)}/app.py is there, and "
        f"{missing} is missing",
        hint=("" if in_tree else f"move the folder to {where}, then ")
        + f"palestra init {where} --config-only",
    )


def _environments() -> list[str]:
    return _environments_in(PACKAGE_ROOT)


def _own_environments() -> list[str]:
    """Return the user's environments in the working directory: folders, and Python files that
    contain `@environment`.
    """
    files = [path.name for path in Path.cwd().glob("*.py") if _holds_one(path)]
    return [*_environments_in(Path.cwd()), *sorted(files)]


def _holds_one(path: Path) -> bool:
    try:
        return b"@environment" in path.read_bytes()
    except OSError:
        return False


def _environments_in(root: Path) -> list[str]:
    configs = (root / "resources_servers").glob("*/configs/*.yaml")
    return sorted({path.parent.parent.name for path in configs})


def _file_target(path: Path, report: Tell) -> EvaluationTarget:
    if not path.exists():
        near = did_you_mean(path.name, _own_environments())
        raise ConfigError(f"{path} does not exist{near}")
    if missing := unsatisfied(requirements_of(path)):
        first = "" if made_interpreter(path, cache=cache_root()) else "; it is being made, once"
        report(
            f"{path.name} runs in an environment of its own, with {', '.join(missing)} of "
            f"requirements.txt{first}"
        )
    file_environment = file_rows(path.absolute(), cache=cache_root())
    server = _server_name(file_environment.name, path.stem)
    extra = {
        server: {"resources_servers": {"environment_file": {"path": str(path.absolute())}}},
        f"{server}_agent": {
            "responses_api_agents": {
                "simple_agent": {
                    "resources_server": {"type": "resources_servers", "name": server},
                    "model_server": {"type": "responses_api_models", "name": "policy_model"},
                }
            }
        },
    }
    empty = (
        ""
        if file_environment.count
        else f"{path} has no rows: the data of its @environment is empty"
    )
    return EvaluationTarget(path.stem, extra=extra, rows=file_environment.rows, empty=empty)


def _server_name(function: str, file: str) -> str:
    """Return the server name for an environment file, from the function's name; if this is
    `verify`, from the file's name.
    """
    name = file if function == "verify" else function
    return name if name.endswith("_env") else f"{name}_environment"


def _named_target(name: str, config: str, args: EvalArgs) -> EvaluationTarget:
    """Return an environment with a folder and a config. If it generates rows on demand,
    `args.limit` (default 5) is their number.
    """
    module = f"palestra.resources_servers.{name}.rows"
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        return EvaluationTarget(name, (config,))
    maker = importlib.import_module(module)
    options: JsonDict = dict(args.rows)
    count = 5 if args.limit is None else args.limit
    try:
        rows = maker.make_rows(count, seed=args.seed, **options)
    except TypeError as error:
        option_list = ", ".join(options)
        raise ConfigError(f"{name} makes no rows with --rows {option_list}: {error}") from error
    return EvaluationTarget(name, (config,), rows=rows, group_by=getattr(maker, "GROUP_BY", None))

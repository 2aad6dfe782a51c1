"""Environments in one file, as commands use them: their settings, their configuration, their rows."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.api.endpoint_waiting import Tell
from palestra.config import (
    ENVIRONMENT_FILE,
    ConfigTree,
    InstanceConfig,
    NamedFile,
    ResolvedConfig,
    ServerType,
    contradicting_override,
    environment_of,
    environment_tree,
    file_server_settings,
    load_config,
    mask_line,
    override_key,
    parse_overrides,
    read_settings,
)
from palestra.errors import ConfigError
from palestra.fleet import (
    START_TIMEOUT,
    FileRows,
    RowRequest,
    cache_root,
    file_rows,
    made_interpreter,
    requirements_file,
    requirements_of,
    start_timeout_of,
    starting_within,
    unsatisfied,
)
from palestra.schema import JsonDict, JsonObject, json_misfit
from palestra.settings import CollectSettings, InputFile, existing_path

DATASETS: Final = "datasets"
"""The folder below the cache in which rows of the hub are kept."""


def own_overrides(
    environment: str | None, values: Mapping[str, str], overrides: Sequence[str]
) -> list[str]:
    """Return the overrides that set an environment's own settings. `values`: as after `--set`.

    `environment`: a Python file, the name or the folder of an environment whose `app.py` has a
    class, or a config file; None: the environment of the config files in `overrides`. Raises
    ConfigError: it is not clear whose settings they are, or an override gives one another value.
    """
    if not values:
        return []
    path, added = _settings_of(environment, overrides), list[str]()
    for key, value in values.items():
        setting = f"{path}.{key}"
        override = _override(f"++{setting}", value)
        [parsed] = parse_overrides([override])
        if contradicting := contradicting_override(setting, parsed.value, overrides):
            flag = f"--set {mask_line(f'{key}={value}')}"
            raise ConfigError(
                f"{flag} and {contradicting} give two values to one setting",
                hint="leave --set or the override out",
            )
        added.append(override)
    return added


def setting_text(name: str, value: Any) -> str:
    """Return a setting's value as it is typed after `--set`. Raises ConfigError: JSON lacks it."""
    if isinstance(value, str):
        return value
    if misfit := json_misfit(value, f"settings[{name!r}]"):
        raise ConfigError(
            f"{misfit.problem}, which cannot be the value of a setting", hint=misfit.cure
        )
    return orjson.dumps(value).decode()


def _settings_of(environment: str | None, overrides: Sequence[str]) -> str:
    """Return the dotted key of the settings of an environment, as of `own_overrides`."""
    if environment is None or environment.endswith((".yaml", ".yml")):
        server = _configured_environment(environment, overrides)
        name, implementation = server.name, server.implementation
    elif (source_file := NamedFile.parse(environment)) is not None:
        name, implementation = Path(source_file.path).stem, ENVIRONMENT_FILE
    else:
        name = implementation = Path(environment).absolute().name
    return f"{name}.{ServerType.RESOURCES}.{implementation}.settings"


def _configured_environment(config_file: str | None, overrides: Sequence[str]) -> InstanceConfig:
    """Return the only environment in one file of a configuration, or else its only environment.

    Raises ConfigError: there is none, or there are several.
    """
    config = load_config(
        config_paths=[] if config_file is None else [config_file],
        overrides=[item for item in overrides if _is_about(item, "config_paths")],
        require_all=False,
        required=(),
    )
    servers = config.instances_of(ServerType.RESOURCES)
    candidates = [server for server in servers if environment_of(server) is not None] or servers
    if len(candidates) == 1:
        return candidates[0]
    sentence = "--set needs one environment whose settings it changes"
    if not candidates:
        raise ConfigError(sentence, hint="name one environment in one file, such as shelf.py")
    names = ", ".join(server.name for server in candidates)
    first = candidates[0]
    raise ConfigError(
        f"{sentence}, and the configuration has {len(candidates)}: {names}",
        hint=f"++{first.name}.{ServerType.RESOURCES}.{first.implementation}.settings.KEY=VALUE sets "
        f"one of {first.name}",
    )


def _override(name: str, value: str) -> str:
    """Return an override. A value that the grammar of overrides cannot read is quoted."""
    plain = f"{name}={value}"
    try:
        parse_overrides([plain])
    except ConfigError:
        quoted = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"{name}='{quoted}'"
    return plain


def file_environment(
    source_file: NamedFile,
    overrides: Sequence[str],
    report: Tell,
    *,
    data: tuple[Path, ...] | None = None,
) -> tuple[ConfigTree, FileRows]:
    """Return the configuration of an environment in one file, with all its settings, and its rows.

    `data`: files of rows instead of the environment's own. `report`: gets a line when the file
    runs in a Python environment of its own. Raises BadInput: the file or its rows cannot be used.
    """
    path = existing_path(source_file.path)
    tree = environment_tree(path, source_file.class_name)
    name = path.stem
    block = read_settings((name,), overrides=overrides, extra=tree).get(name)
    own_values = _own_settings(name, file_server_settings(block) or {})
    rows = read_rows(source_file, own_values, _start_timeout(overrides), report, data=data)
    tree[name][ServerType.RESOURCES.value][ENVIRONMENT_FILE]["settings"] = dict(rows.settings)
    return tree, rows


def _is_about(override: str, name: str) -> bool:
    return override_key(override).split(".")[0] == name


def _start_timeout(overrides: Sequence[str]) -> float:
    return start_timeout_of(read_settings((START_TIMEOUT,), overrides=overrides))


def read_rows(
    source_file: NamedFile,
    settings: Mapping[str, Any],
    timeout_s: float,
    report: Tell,
    *,
    data: tuple[Path, ...] | None = None,
) -> FileRows:
    """Return the rows of an environment in one file. Its import may take `timeout_s` seconds."""
    path = existing_path(source_file.path).absolute()
    if missing := unsatisfied(requirements_of(path)):
        first = "" if made_interpreter(path, cache=cache_root()) else "; it is being made, once"
        report(
            f"{path.name} runs in an environment of its own, with {', '.join(missing)} of "
            f"{requirements_file(path).name}{first}"
        )
    request = RowRequest(
        path, source_file.class_name, settings, data, cache_root().with_name(DATASETS)
    )
    with starting_within(timeout_s):
        rows = file_rows(request, venvs=cache_root())
    for warning in rows.warnings:
        report(f"warning: {warning}")
    return rows


def file_behind(agent: str, config: ResolvedConfig) -> tuple[InstanceConfig, NamedFile] | None:
    """Return the environment of an agent, and its file; None when it is not an environment in one
    file.

    The file of a folder's environment is its entrypoint, when a dataset of the agent names it.
    """
    instance = config.instances.get(agent)
    names = () if instance is None else instance.referenced(ServerType.RESOURCES)
    server = next((config.instances[name] for name in names if name in config.instances), None)
    if instance is None or server is None:
        return None
    if (source_file := environment_of(server)) is not None:
        return server, source_file
    own_values = next(
        (d for d in instance.datasets if str(d.get("jsonl_fpath")).endswith(".py")), None
    )
    if own_values is None:
        return None
    path = existing_path(str(own_values["jsonl_fpath"]))
    return server, NamedFile(str(path), str(server.settings.get("class_name") or ""))


def files_behind(config: ResolvedConfig) -> dict[str, tuple[InstanceConfig, NamedFile]]:
    """Return the environments in one file of a configuration, by the names of their agents."""
    agents = [agent.name for agent in config.instances_of(ServerType.AGENT)]
    environments = {agent: file_behind(agent, config) for agent in agents}
    return {agent: pair for agent, pair in environments.items() if pair is not None}


def with_file_rows(
    settings: CollectSettings, config: ResolvedConfig, report: Tell
) -> CollectSettings:
    """Return the settings of a collection, with the rows of environments in one file as content.

    Rows of `--input` get the prompt of the environment, when it is the only one of the
    configuration. Raises BadInput: a file or its rows cannot be used.
    """
    files = files_behind(config)
    if not files:
        return settings
    only_one = len(config.instances_of(ServerType.RESOURCES)) == 1
    timeout_s = start_timeout_of(config.tree)
    inputs: list[InputFile] = []
    for source in settings.inputs:
        is_own = source.path.suffix == ".py"
        agent = source.agent if source.agent in files else next(iter(files))
        instance, source_file = files[agent]
        if source.content is not None or not (is_own or only_one):
            inputs.append(source)
            continue
        data = None if is_own else (source.path,)
        values = _own_settings(instance.name, instance.settings)
        rows = read_rows(source_file, values, timeout_s, report, data=data)
        paths = {item.path for item in inputs}
        inputs.append(_with_rows(source, agent, rows.rows, settings, paths))
    source_files = tuple(source.path for source in settings.inputs)
    return replace(settings, inputs=tuple(inputs), source_files=source_files)


def _own_settings(name: str, server_settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of the environment `name`. Raises ConfigError: they are no mapping."""
    values = server_settings.get("settings") or {}
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"settings of {name} should be a mapping, not of type {type(values).__name__}",
            hint="write one `NAME: VALUE` a line below settings",
        )
    return values


def _with_rows(
    source: InputFile,
    agent: str,
    rows: Iterable[JsonObject],
    settings: CollectSettings,
    other_paths: Collection[Path],
) -> InputFile:
    output = settings.output_jsonl_fpath
    path = output.with_name(f"{output.stem}_tasks.jsonl")
    if len(settings.inputs) > 1:
        path = output.with_name(f"{output.stem}_{agent}_tasks.jsonl")
    if path in other_paths:
        path = output.with_name(f"{output.stem}_{agent}_{len(other_paths)}_tasks.jsonl")
    return replace(source, path=path, agent=agent, content=lines_of(rows))


def lines_of(rows: Iterable[JsonObject]) -> bytes:
    """Return plain rows as JSONL."""
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def rows_of_instance(instance: InstanceConfig, timeout_s: float, report: Tell) -> list[JsonDict]:
    """Return the rows of an instance's own file; none for an instance without a file."""
    source_file = environment_of(instance)
    if source_file is None:
        return []
    values = _own_settings(instance.name, instance.settings)
    return list(read_rows(source_file, values, timeout_s, report).rows)

"""From what a user names to an environment that can be examined: its servers, rows and cases."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palestra.cli.evaluating import EvaluationTarget, find_target
from palestra.config import InstanceConfig, ResolvedConfig, ServerType, nearest
from palestra.conformance import (
    CASES_FILE,
    Case,
    ExaminedEnvironment,
    has_numbered_rows,
    load_cases,
)
from palestra.errors import ConfigError, InputDataError
from palestra.schema import CREATE_PARAMS, Response, read_jsonl
from palestra.settings import EvalArgs, existing_path, load

EXAMPLE_ROLLOUTS = "example_rollouts.jsonl"
EXAMPLES = "example.jsonl"


@dataclass(frozen=True, slots=True)
class Wanted:
    """An environment of a configuration, before its servers' settings are asked for."""

    instance: InstanceConfig
    target: EvaluationTarget | None
    extra: Mapping[str, Any]
    config: ResolvedConfig


def find_subject(name: str, overrides: list[str]) -> ExaminedEnvironment:
    """The environment that `name` means: a name, a folder, a Python file, a config, or an instance
    of the config files among the overrides. Raises ConfigError when there is none.
    """
    wanted = _wanted(name, overrides)
    servers, judges = _needed(wanted.config, wanted.instance.name)
    config = load(overrides, ng=False, extra=wanted.extra, required=servers)
    rows = _rows(wanted)
    data = None if wanted.instance.folder is None else wanted.instance.folder / "data"
    return ExaminedEnvironment(
        name=wanted.instance.name,
        config=config,
        servers=servers,
        judges=judges,
        rows=rows,
        cases=_cases(data, rows),
        recorded=_recorded(data, rows),
    )


def _wanted(name: str, overrides: list[str]) -> Wanted:
    if any("config_paths" in item for item in overrides):
        config = load(overrides, ng=False, required=())
        return Wanted(_instance(name, config), None, {}, config)
    target = find_target(EvalArgs(target=name), overrides)
    extra = {**target.extra, "config_paths": list(target.configs)}
    config = load(overrides, ng=False, extra=extra, required=())
    servers = config.instances_of(ServerType.RESOURCES)
    if len(servers) == 1:
        return Wanted(servers[0], target, extra, config)
    return Wanted(_instance(next(iter(target.extra), target.name), config), target, extra, config)


def _instance(name: str, config: ResolvedConfig) -> InstanceConfig:
    servers = config.instances_of(ServerType.RESOURCES)
    found = [s for s in servers if s.name == name]
    found = found or [s for s in servers if s.implementation == name]
    if len(found) == 1:
        return found[0]
    names = [server.name for server in servers]
    near = nearest(name, names)
    raise ConfigError(
        f"there is no environment {name!r} in the configuration"
        + (f"; did you mean {near!r}?" if near else ""),
        hint=f"environments: {', '.join(names) or 'none'}",
    )


def _needed(config: ResolvedConfig, name: str) -> tuple[list[str], list[str]]:
    """The servers that an environment needs, itself first, and the models that it asks."""
    servers: list[str] = []
    models: list[str] = []
    left = [name]
    while left:
        instance = config.instance(left.pop())
        if instance.name in servers:
            continue
        servers.append(instance.name)
        for ref in instance.refs:
            if ref.type == ServerType.MODEL:
                models.append(ref.name)
            else:
                left.append(ref.name)
    return servers, sorted(set(models))


def _rows(wanted: Wanted) -> list[Mapping[str, Any]]:
    """The example rows: those of its agents' datasets, else those beside it."""
    target = wanted.target
    if target is not None and target.rows is not None and target.extra:
        return list(target.rows)
    for path in _example_files(wanted):
        if path.exists():
            return [line.row for line in read_jsonl(path)]
    return []


def _example_files(wanted: Wanted) -> Iterable[Path]:
    name = wanted.instance.name
    for agent in wanted.config.instances_of(ServerType.AGENT):
        if any(ref.name == name for ref in agent.refs):
            for dataset in agent.datasets:
                if dataset.get("type") == "example":
                    yield existing_path(str(dataset["jsonl_fpath"]))
    if wanted.instance.folder is not None:
        yield wanted.instance.folder / "data" / EXAMPLES


def _cases(data: Path | None, rows: Sequence[Mapping[str, Any]]) -> list[Case]:
    path = None if data is None else data / CASES_FILE
    if path is None or not path.exists():
        return []
    if not rows and has_numbered_rows(path) and not (there := path.with_name(EXAMPLES)).exists():
        raise InputDataError(
            f"{there} does not exist, and {CASES_FILE} beside it has cases of its rows",
            hint=f"give {EXAMPLES} back: the task rows, one a line",
        )
    return load_cases(path, rows)


def _recorded(data: Path | None, rows: Sequence[Mapping[str, Any]]) -> list[Case]:
    """Recorded rollouts of the example rows, with the rewards that they had."""
    path = None if data is None else data / EXAMPLE_ROLLOUTS
    if path is None or not path.exists():
        return []
    numbers = {str(row.get(CREATE_PARAMS)): number for number, row in enumerate(rows)}
    found: list[Case] = []
    for line in read_jsonl(path):
        row = dict(line.row)
        response, reward = row.pop("response", None), row.pop("reward", None)
        if isinstance(response, dict) and isinstance(reward, int | float):
            number = numbers.get(str(row.get(CREATE_PARAMS)))
            found.append(
                Case(row, Response.model_validate(response), reward, number, "recorded", False)
            )
    return found

"""Prepares an evaluation: the environment, its model and rows, the settings, and where it is
written.
"""

import contextlib
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import palestra
from palestra.api.collection import verified_by
from palestra.api.endpoint_waiting import Tell
from palestra.api.environment_files import lines_of, own_overrides, with_file_rows
from palestra.api.environments import EvaluationTarget, find_target
from palestra.api.models import (
    LOCAL,
    POLICY,
    ModelContext,
    judge_config,
    model_config,
)
from palestra.api.server_semantics import run_semantics
from palestra.api.unfinished_runs import OUTPUT, unfinished_run
from palestra.config import ENVIRONMENT_FILE, ResolvedConfig, ServerType, mask_line
from palestra.errors import ConfigError, InputDataError, KnownCause
from palestra.fleet import code_digests
from palestra.records import RUNS_FOLDER
from palestra.responses_api_models.local_model.running import require_engine
from palestra.rollouts import intended, unknown_field
from palestra.schema import JsonObject, bare_name
from palestra.settings import (
    REQUEST_FLAGS,
    CollectArgs,
    CollectSettings,
    EvalArgs,
    args_from,
    existing_path,
    existing_paths,
    load,
)
from palestra.system import remove_empty


def tasks_beside(output: Path) -> Path:
    """Return the path of the file with the task rows that an evaluation has made, next to `output`."""
    return output.with_name(f"{output.stem}_tasks.jsonl")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An evaluation with all checks done that need no server."""

    config: ResolvedConfig
    collecting: CollectArgs
    settings: CollectSettings
    """The settings of the collection, with the rows that the environment makes."""
    group_by: str | None
    """A field of the rows that the environment suggests to group its table by."""


@contextlib.contextmanager
def prepare_evaluation(
    args: EvalArgs,
    overrides: Sequence[str],
    report: Tell = str,
    *,
    option_prefix: str = "--",
    model_settings: JsonObject = MappingProxyType({}),
    own_settings: JsonObject = MappingProxyType({}),
) -> Iterator[Evaluation]:
    """Find the environment, its model and its rows, and yield the evaluation.

    `option_prefix`: what stands before the names of arguments in messages; nothing in Python.
    `model_settings`: settings of the policy's server. `own_settings`: settings of the environment's
    server, for an environment in a folder. `report`: gets warnings, and which run is continued. A new folder for the run is removed when
    nothing was written to it. Raises BadInput: an argument, a file or a row cannot be used.
    """
    typed_overrides = list(overrides)
    overrides = [*overrides, *own_overrides(args.target, args.own_settings, overrides)]
    if args.model == LOCAL:
        require_engine()  # before the tasks are made: its extra brings what reasoning_gym needs, too
    target = find_target(args, overrides, report)
    if target.empty:
        example = _row_of(args.input) if args.input else "data = [{…}, …]"
        raise InputDataError(target.empty, hint=f"add rows to it: {example}")
    config = _config(
        target,
        args,
        # A file's settings are in the target, converted to their types: the run records these.
        typed_overrides if target.extra else overrides,
        report,
        option_prefix=option_prefix,
        model_settings=model_settings,
        own_settings=own_settings,
    )
    for warning in config.warnings:
        report(f"warning: {warning}")
    _refuse_settings_of_its_own(config)
    if not config.instances_of(ServerType.AGENT):
        raise _without_agent(args.target, config)
    if args.output is not None:
        yield _evaluation(args.output, args, overrides, target, config, report)
        return
    target, output = _run_of(args, target, config, report)
    try:
        yield _evaluation(output, args, overrides, target, config, report)
    finally:
        remove_empty((output.parent, RUNS_FOLDER))


def _row_of(file: Path) -> str:
    """Return how a row is written in a file of rows."""
    rows = {
        ".csv": "the first line names the columns only",
        ".tsv": "the first line names the columns only",
        ".json": '[{"FIELD": …}, …]',
        ".parquet": "the table has columns only",
    }
    return rows.get(Path(bare_name(file)).suffix.lower(), '{"FIELD": …} a line')


def _evaluation(
    output: Path,
    args: EvalArgs,
    overrides: list[str],
    target: EvaluationTarget,
    config: ResolvedConfig,
    report: Tell,
) -> Evaluation:
    collecting = _collect_args(args, target, config, output)
    settings = replace(
        collecting.settings(config),
        verified_by=verified_by(overrides, config, environment=args.target, models=args),
        source_files=() if args.input is None else existing_paths(args.input),
    )
    settings = _with_rows(settings, target.rows, config, report)
    if args.group_by is not None and (unknown := unknown_field(args.group_by, settings.inputs)):
        report(f"warning: --group-by: {unknown}")
    return Evaluation(config, collecting, settings, target.group_by)


def _with_rows(
    settings: CollectSettings,
    rows: Iterable[JsonObject] | None,
    config: ResolvedConfig,
    report: Tell,
) -> CollectSettings:
    """Return `settings` with `rows` as the input. They are written to a file when the run begins.

    Without `rows`, those of a folder's environment are read where a dataset names its entrypoint.
    """
    if rows is None:
        return with_file_rows(settings, config, report)
    [source] = settings.inputs
    return replace(settings, inputs=(replace(source, content=lines_of(rows)),))


def _config(
    target: EvaluationTarget,
    args: EvalArgs,
    overrides: list[str],
    report: Tell,
    *,
    option_prefix: str,
    model_settings: JsonObject,
    own_settings: JsonObject,
) -> ResolvedConfig:
    context = ModelContext(
        overrides,
        target.configs,
        settings=args.collecting,
        report=report,
        option=f"{option_prefix}model",
    )
    extra = {**target.extra, **model_config(args.model, context)}
    for server_settings in extra.get(POLICY, {}).get(ServerType.MODEL.value, {}).values():
        server_settings.update(model_settings)
    if args.judge is not None:
        judging = replace(context, option=f"{option_prefix}judge", role="judge")
        settings, references = judge_config(args.judge, judging, extra=extra)
        extra, overrides = {**extra, **settings}, [*overrides, *references]
    merged = {**extra, **args.collecting, "config_paths": [*target.configs]}
    if own_settings:
        name, implementation = _only_environment(
            load(overrides, ng=False, extra=merged, required=())
        )
        merged[name] = {ServerType.RESOURCES.value: {implementation: dict(own_settings)}}
    return load(overrides, ng=False, extra=merged)


def _without_agent(target_name: str, config: ResolvedConfig) -> ConfigError:
    """Return the error for a configuration in which nothing can run a row."""
    servers = config.instances_of(ServerType.RESOURCES)
    if not servers:
        return ConfigError(
            f"{target_name} defines no environment",
            hint="add the file of one to it: `config_paths: [FILE.py]`; the settings of a file need no "
            "config: `palestra eval FILE.py --set KEY=VALUE`",
        )
    server = servers[0]
    if server.implementation != ENVIRONMENT_FILE or server.settings.get("path"):
        return ConfigError(
            f"{target_name} defines no agent for {server.name!r}",
            hint=f"add one under {ServerType.AGENT}, whose resources_server is {server.name!r}",
        )
    file = f"{server.name}.py"
    values = server.settings.get("settings")
    if not isinstance(values, Mapping) or not values:
        values = {"KEY": "VALUE"}
    flags = " ".join(f"--set {shlex.quote(mask_line(f'{k}={v}'))}" for k, v in values.items())
    return ConfigError(
        f"{target_name} has settings of {server.name!r}, an environment in one file, and not its file",
        hint=f"add `config_paths: [{file}]` to it, or: palestra eval {file} {flags}",
    )


def _only_environment(config: ResolvedConfig) -> tuple[str, str]:
    """Return the name and the folder of the only environment. Raises ConfigError: there are several."""
    servers = config.instances_of(ServerType.RESOURCES)
    if len(servers) != 1:
        names = ", ".join(server.name for server in servers)
        raise ConfigError(
            f"settings are for one environment, and the configuration has {len(servers)}: {names}",
            hint="set them in the config file",
        )
    return servers[0].name, servers[0].implementation


def _run_of(
    args: EvalArgs, target: EvaluationTarget, config: ResolvedConfig, report: Tell
) -> tuple[EvaluationTarget, Path]:
    """Return the output of a run without `--output`: in a new folder, or of an unfinished run to
    continue.

    Also returns the target, with its rows restored: they can be read only once.
    """
    collecting = _collect_args(args, target, config, RUNS_FOLDER / OUTPUT)
    if not collecting.resume_from_cache:
        return target, new_run(target.name)
    rows = None if target.rows is None else list(target.rows)
    settings = _with_rows(collecting.settings(config), rows, config, report)
    run, row_agents = intended(
        settings,
        agents={i.name for i in config.instances.values() if i.type == ServerType.AGENT},
        semantics=run_semantics(config, settings, code_digests(config)),
        version=palestra.__version__,
    )
    output = unfinished_run(
        target.name, run, row_agents, max_attempts=settings.max_attempts, report=report
    )
    return replace(target, rows=None if rows is None else iter(rows)), output


def new_run(name: str) -> Path:
    """Make a folder for a run. Return the output path in a new folder, whose name contains the current time."""
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    folder, number = RUNS_FOLDER / f"{name}-{stamp}", 1
    while True:
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
            folder = RUNS_FOLDER / f"{name}-{stamp}-{number}"
        except OSError:
            return folder / OUTPUT  # planning the run says what is wrong there
        else:
            return folder / OUTPUT


def _collect_args(
    args: EvalArgs, target: EvaluationTarget, config: ResolvedConfig, output: Path
) -> CollectArgs:
    """Return the arguments that `palestra collect` would get; the overrides apply to them, too."""
    agents = [i for i in config.instances.values() if i.type == "responses_api_agents"]
    own_settings = {
        "limit": args.limit,
        "input_jsonl_fpath": str(_input(args, target, agents, output)),
        "output_jsonl_fpath": str(output),
        "agent_name": agents[0].name if agents else None,
    }
    collecting = args_from(CollectArgs, {**config.tree, **own_settings})
    for name in REQUEST_FLAGS:
        if (value := getattr(args, name)) is not None:
            collecting.responses_create_params[name] = value
    return collecting


OWN_SETTINGS = {
    "limit": "--limit",
    "output_jsonl_fpath": "--output",
    "input_jsonl_fpath": "--input",
    "split": "palestra collect, which accepts the datasets of a configuration",
    "agent_name": "palestra collect, which lets you choose the agent",
}
"""The collection settings that `eval` sets itself, and what a user should use instead."""


def _refuse_settings_of_its_own(config: ResolvedConfig) -> None:
    for name, use in OWN_SETTINGS.items():
        if config.tree.get(name) is not None:
            raise ConfigError(f"palestra eval takes no {name} setting", hint=f"use {use}")


def _input(args: EvalArgs, target: EvaluationTarget, agents: list[Any], output: Path) -> Path:
    if target.rows is None and args.input is not None:
        return args.input
    if target.rows is None:
        paths = [
            str(dataset["jsonl_fpath"])
            for agent in agents
            for dataset in agent.datasets
            if dataset.get("type") == "example"
        ]
        if not paths:
            raise InputDataError(
                f"{target.name} has no example dataset",
                hint="pass your own file of rows: --input FILE",
                cause=KnownCause.NO_DATASET,
            )
        return existing_path(paths[0])
    return tasks_beside(output).absolute()

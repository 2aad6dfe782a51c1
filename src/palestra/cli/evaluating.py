"""`eval`: fleet, collection and profile in one process, from the name of an environment."""

import importlib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

import palestra
from palestra.cli.again import verified_by
from palestra.cli.choosing import model_config
from palestra.cli.collecting import collect_with, stoppable
from palestra.cli.console import masking, notice, say, shown, warn_all
from palestra.cli.meaning import run_meaning
from palestra.cli.profiling_commands import profile_files
from palestra.cli.reaching import OwnFleet
from palestra.cli.unfinished import OUTPUT, RUNS, tasks_beside, unfinished_run
from palestra.cli.watching import Watch, watching
from palestra.config import (
    PACKAGE_ROOT,
    ResolvedConfig,
    ServerType,
    did_you_mean,
    nearest,
    read_settings,
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
from palestra.rollouts import intended
from palestra.settings import CollectArgs, CollectSettings, EvalArgs, args_from, existing_path, load
from palestra.system import remove_empty


@dataclass(frozen=True, slots=True)
class EvaluationTarget:
    """An environment to evaluate: how to configure it and where its rows come from."""

    name: str
    configs: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    rows: Iterator[dict[str, Any]] | None = None
    group_by: str | None = None
    empty: str = ""
    """Why there is nothing to evaluate, when there are no rows."""


def evaluate(args: EvalArgs, overrides: list[str]) -> int:
    """Run one environment against one model, and profile what comes out."""
    target = find_target(args, overrides)
    if target.empty:
        raise InputDataError(target.empty, hint="give it rows: @environment(data=[{…}, …])")
    config = _config(target, args, overrides)
    warn_all(config.warnings)
    _refuse_settings_of_its_own(config)
    if args.output is not None:
        return _evaluate_into(args.output, args, overrides, target, config)
    target, output = _run_of(args, target, config)
    try:
        return _evaluate_into(output, args, overrides, target, config)
    finally:
        remove_empty((output.parent, RUNS))


def _evaluate_into(
    output: Path,
    args: EvalArgs,
    overrides: list[str],
    target: EvaluationTarget,
    config: ResolvedConfig,
) -> int:
    collecting = _collect_args(args, target, config, output)
    named = verified_by(overrides, config.secrets, args.target)
    settings = replace(collecting.settings(config), verified_by=named)
    with (
        watching(
            collecting.progress, collecting.json_events, lag_threshold_s=collecting.watchdog
        ) as watch,
        masking(config.secrets),
    ):
        code = stoppable(_collect(config, target, settings, watch), settings, watch)
    if code not in {0, 1}:
        return code
    say()
    group_by = args.group_by or target.group_by
    inputs = output.with_name(f"{output.stem}_materialized_inputs.jsonl")
    if output.exists() and output.stat().st_size:
        profile_files(inputs, output, allow_partial=True, group_by=group_by)
    return code


async def _collect(
    config: ResolvedConfig, target: EvaluationTarget, settings: CollectSettings, watch: Watch
) -> int:
    with_rows = _with_rows(settings, target.rows)
    return await collect_with(OwnFleet(config), with_rows, watch, metrics=False)


def _with_rows(
    settings: CollectSettings, rows: Iterable[Mapping[str, Any]] | None
) -> CollectSettings:
    """The settings of a run over the rows that a target makes; they are a file once it begins."""
    if rows is None:
        return settings
    [source] = settings.inputs
    return replace(settings, inputs=(replace(source, content=_lines(rows)),))


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def find_target(args: EvalArgs, overrides: list[str]) -> EvaluationTarget:
    """What `args.target` means. Raises ConfigError with the nearest name when it means nothing.

    `overrides`: those of the command; `start_timeout` bounds the import of a file.
    """
    given = _config_in(args.target) or args.target
    if given.endswith(".py"):
        settings = read_settings((START_TIMEOUT,), overrides=overrides)
        with starting_within(start_timeout_of(settings)):
            return _file_target(existing_path(given))
    if given.endswith((".yaml", ".yml")):
        return EvaluationTarget(Path(given).stem, (given,))
    config = f"resources_servers/{given}/configs/{given}.yaml"
    if existing_path(config).exists():
        return _named_target(given, config, args)
    if (folder := existing_path(f"resources_servers/{given}")).is_dir():
        raise _unconfigured(given, folder)
    own = _own_environments()
    near = nearest(given, own) or nearest(given, _environments())
    yours = f"yours here: {', '.join(own)}; " if own else ""
    raise ConfigError(
        f"there is no environment {given!r}" + (f"; did you mean {near!r}?" if near else ""),
        hint=f"{yours}environments: {', '.join(_environments())}; or give a .py or .yaml file",
    )


def _config_in(given: str) -> str | None:
    """The config of a folder that holds an environment; None when it is no such folder."""
    folder = Path(given)
    if "/" not in given or not folder.is_dir():
        return None
    config = folder / "configs" / f"{folder.absolute().name}.yaml"
    if not config.exists():
        raise _unconfigured(given, folder)
    return str(config)


def _unconfigured(given: str, folder: Path) -> ConfigError:
    """The folder is there, and something in it is missing."""
    name = folder.absolute().name
    missing = f"{shown(folder)}/configs/{name}.yaml"
    if not (folder / "app.py").exists():
        return ConfigError(
            f"{given} is no environment's folder: {missing} and {shown(folder)}/app.py are missing"
        )
    in_tree = folder.absolute().parent.name == "resources_servers"
    where = shown(folder) if in_tree else f"resources_servers/{name}"
    return ConfigError(
        f"the environment {given!r} has no config: {shown(folder)}/app.py is there, and "
        f"{missing} is missing",
        hint=("" if in_tree else f"move the folder to {where}, then ")
        + f"palestra init {where} --config-only",
    )


def _environments() -> list[str]:
    return _environments_in(PACKAGE_ROOT)


def _own_environments() -> list[str]:
    """What a reader has made here: folders, and files that say `@environment`."""
    files = [path.name for path in Path.cwd().glob("*.py") if _holds_one(path)]
    return [*_environments_in(Path.cwd()), *sorted(files)]


def _holds_one(path: Path) -> bool:
    try:
        return b"@environment" in path.read_bytes()
    except OSError:
        return False


def _environments_in(root: Path) -> list[str]:
    found = (root / "resources_servers").glob("*/configs/*.yaml")
    return sorted({path.parent.parent.name for path in found})


def _file_target(path: Path) -> EvaluationTarget:
    if not path.exists():
        near = did_you_mean(path.name, _own_environments())
        raise ConfigError(f"{path} does not exist{near}")
    if missing := unsatisfied(requirements_of(path)):
        first = "" if made_interpreter(path, cache=cache_root()) else "; it is being made, once"
        notice(
            f"{path.name} runs in an environment of its own, with {', '.join(missing)} of "
            f"requirements.txt{first}"
        )
    made = file_rows(path.absolute(), cache=cache_root())
    server = _server_name(made.name, path.stem)
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
    empty = "" if made.count else f"{path} has no rows: the data of its @environment is empty"
    return EvaluationTarget(path.stem, extra=extra, rows=made.rows, empty=empty)


def _server_name(function: str, file: str) -> str:
    """What tables call an environment of one file; a function named `verify` says nothing."""
    name = file if function == "verify" else function
    return name if name.endswith("_env") else f"{name}_environment"


def _named_target(name: str, config: str, args: EvalArgs) -> EvaluationTarget:
    """A folder with a config. One that makes rows on demand makes as many as asked for."""
    module = f"palestra.resources_servers.{name}.rows"
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None:
        return EvaluationTarget(name, (config,))
    maker = importlib.import_module(module)
    options: dict[str, Any] = dict(args.rows)
    count = 5 if args.limit is None else args.limit
    try:
        rows = maker.make_rows(count, seed=args.seed, **options)
    except TypeError as error:
        given = ", ".join(options)
        raise ConfigError(f"{name} makes no rows with --rows {given}: {error}") from error
    return EvaluationTarget(name, (config,), rows=rows, group_by=getattr(maker, "GROUP_BY", None))


def _config(target: EvaluationTarget, args: EvalArgs, overrides: list[str]) -> ResolvedConfig:
    paths, extra = model_config(args.model, overrides, target.configs, settings=args.collecting)
    merged = {**target.extra, **extra, **args.collecting, "config_paths": [*target.configs, *paths]}
    return load(overrides, ng=False, extra=merged)


def _run_of(
    args: EvalArgs, target: EvaluationTarget, config: ResolvedConfig
) -> tuple[EvaluationTarget, Path]:
    """Where a run without `--output` goes: to a new folder, or on with an unfinished one.

    Returns the target too, since its rows can be read only once.
    """
    collecting = _collect_args(args, target, config, RUNS / OUTPUT)
    if not collecting.resume_from_cache:
        return target, _new_run(target.name)
    rows = None if target.rows is None else list(target.rows)
    settings = _with_rows(collecting.settings(config), rows)
    run = intended(
        settings,
        agents={i.name for i in config.instances.values() if i.type == ServerType.AGENT},
        semantics=run_meaning(config, settings),
        version=palestra.__version__,
    )
    output = unfinished_run(target.name, run, max_attempts=settings.max_attempts)
    return replace(target, rows=None if rows is None else iter(rows)), output


def _new_run(name: str) -> Path:
    """In a folder that no other run has, made now and named after the moment."""
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    folder, number = RUNS / f"{name}-{stamp}", 1
    while True:
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
            folder = RUNS / f"{name}-{stamp}-{number}"
        except OSError:
            return folder / OUTPUT  # planning the run says what is wrong there
        else:
            return folder / OUTPUT


def _collect_args(
    args: EvalArgs, target: EvaluationTarget, config: ResolvedConfig, output: Path
) -> CollectArgs:
    """As `palestra collect` would be given them: what overrides say of them holds here too."""
    agents = [i for i in config.instances.values() if i.type == "responses_api_agents"]
    own = {
        "limit": args.limit,
        "input_jsonl_fpath": str(_input(target, agents, output)),
        "output_jsonl_fpath": str(output),
        "agent_name": agents[0].name if agents else None,
    }
    collecting = args_from(CollectArgs, {**config.tree, **own})
    for name in ("max_output_tokens", "temperature"):
        if (value := getattr(args, name)) is not None:
            collecting.responses_create_params[name] = value
    return collecting


OWN_SETTINGS = {
    "limit": "--limit",
    "output_jsonl_fpath": "--output",
    "input_jsonl_fpath": "palestra collect, which takes rows of yours",
    "split": "palestra collect, which takes the datasets of a configuration",
    "agent_name": "palestra collect, where the agent is yours to choose",
}
"""Settings of a collection that an evaluation decides itself, and what to use for them."""


def _refuse_settings_of_its_own(config: ResolvedConfig) -> None:
    for name, use in OWN_SETTINGS.items():
        if config.tree.get(name) is not None:
            raise ConfigError(f"palestra eval takes no {name} setting", hint=f"use {use}")


def _input(target: EvaluationTarget, agents: list[Any], output: Path) -> Path:
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
                hint="collect over a file of yours: palestra collect --input FILE …",
            )
        return existing_path(paths[0])
    return tasks_beside(output).absolute()

"""`eval`: run fleet, collection and profile in one process, from the name of an environment."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson

import palestra
from palestra.api import EvaluationTarget, OwnFleet, Wait, find_target, run_semantics, wait_for
from palestra.cli.collecting import collect_with, stoppable, verified_by
from palestra.cli.console import masking, notice, say, warn_all
from palestra.cli.fleet_commands import OBSERVER
from palestra.cli.profiling_commands import profile_files
from palestra.cli.watching import Watch, watching
from palestra.config import (
    MASK,
    ConfigTree,
    ResolvedConfig,
    ServerType,
    load_config,
    names_in_files,
    read_settings,
)
from palestra.errors import ConfigError, InputDataError, KnownCause, ModelError, excerpt
from palestra.rollouts import (
    Manifest,
    changes,
    intended,
    read_manifest,
    unfinished_rollouts,
    why_not_writable,
)
from palestra.schema import JsonDict, JsonObject, RunPaths
from palestra.settings import CollectArgs, CollectSettings, EvalArgs, args_from, existing_path, load
from palestra.system import remove_empty, shown

LOCAL = "local"
OPENAI_URL = "https://api.openai.com/v1"
POLICY = "policy_model"
"""The name of the model instance that an environment's agents call."""


def model_config(
    model: str | None,
    overrides: list[str],
    configs: Sequence[str] = (),
    *,
    settings: ConfigTree | None = None,
) -> tuple[list[str], JsonDict]:
    """Return the config files and the settings for `--model`.

    `model`: `local`; `openai:NAME`; `vllm:URL[#NAME]`; or the name of a model instance in
    `configs`, in the configs of the overrides, or in env.yaml. None: the instance `policy_model` of
    these configs; else the endpoint in the overrides or env.yaml; else the local model, with a
    notice.

    `settings`: the command's options. With the configs and the overrides they set how long to wait
    for an endpoint, when the command must ask it for its model's name.
    """
    if model is None:
        if POLICY in names_in_files(overrides, configs):
            return [], {}
        if _names_endpoint(overrides):
            return ["responses_api_models/vllm_model/configs/vllm_model.yaml"], {}
        notice("no model was named: using the small local one (--model says which)")
        model = LOCAL
    if model == LOCAL:
        return ["responses_api_models/local_model/configs/local_model.yaml"], {}
    kind, _, model_name = model.partition(":")
    if kind == "openai" and model_name:
        return ["responses_api_models/openai_model/configs/openai_model.yaml"], _openai(
            model_name, overrides
        )
    if kind == "vllm" and model_name:
        return ["responses_api_models/vllm_model/configs/vllm_model.yaml"], _vllm(
            model_name, overrides, configs, settings or {}
        )
    if kind in {"openai", "vllm"}:
        raise ConfigError(
            f"--model {model!r} names no model",
            hint="local, openai:NAME, vllm:URL[#NAME], or a model instance of your configs",
        )
    return [], _configured(model, overrides, configs)


def _openai(name: str, overrides: list[str]) -> JsonDict:
    extra = {"policy_model_name": name}
    if not any("policy_base_url" in item for item in overrides):
        extra["policy_base_url"] = OPENAI_URL
    if key := os.environ.get("OPENAI_API_KEY"):
        extra["policy_api_key"] = key
    elif not _sets_key(overrides):
        raise ConfigError(
            f"--model openai:{name} needs a key, and OPENAI_API_KEY is not set",
            hint="export OPENAI_API_KEY=…, or name a variable of yours: "
            "'++policy_api_key=${oc.env:MY_KEY}'",
        )
    return extra


def _vllm(
    endpoint: str, overrides: list[str], configs: Sequence[str], settings: ConfigTree
) -> JsonDict:
    url, _, name = endpoint.partition("#")
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"--model 'vllm:{url}' holds no URL", hint="vllm:http://HOST:PORT/v1")
    extra = {"policy_base_url": url}
    if not any("policy_api_key" in item for item in overrides):
        extra["policy_api_key"] = os.environ.get("VLLM_API_KEY", "EMPTY")
    if not name:
        wait = Wait.of(
            read_settings(Wait.SETTINGS, overrides=overrides, config_paths=configs, extra=settings)
        )
        name = _only_model(url, _key(overrides, extra), wait)
    extra["policy_model_name"] = name
    return extra


def _configured(model: str, overrides: list[str], configs: Sequence[str]) -> JsonDict:
    """Return settings that make the instance `model` of the user's configs the policy."""
    if model not in names_in_files(overrides, configs):
        url = model.startswith(("http://", "https://"))
        raise ConfigError(
            f"--model {model!r} is neither a kind of model nor an instance of your configs",
            hint=f"--model 'vllm:{model}' for an endpoint of Chat Completions"
            if url
            else "local, openai:NAME, vllm:URL[#NAME], or an instance of +config_paths=[…]",
        )
    return {} if model == POLICY else {POLICY: {"_copy": model}}


def _sets_key(overrides: list[str]) -> bool:
    """Whether the command line, a config file or env.yaml sets `policy_api_key`."""
    is_override = any("policy_api_key" in item for item in overrides)
    return is_override or "policy_api_key" in names_in_files(overrides)


def _key(overrides: list[str], extra: ConfigTree) -> str:
    """Return the endpoint's API key, as the model server will receive it."""
    key_overrides = [item for item in overrides if "policy_api_key" in item]
    config = load_config(overrides=key_overrides, extra=extra, require_all=False, required=())
    return str(config.tree.get("policy_api_key") or "")


def _names_endpoint(overrides: list[str]) -> bool:
    is_override = any("policy_base_url" in item or "config_paths" in item for item in overrides)
    env = Path("env.yaml")
    return is_override or (env.exists() and "policy_base_url" in env.read_text())


def _only_model(url: str, key: str, wait: Wait) -> str:
    """Wait for the endpoint, and return the name of the only model that it serves.

    Raises ConfigError: it serves no model, or several. Raises RunFailed: it does not answer in
    time.
    """
    import asyncio

    from palestra.transport import HttpClient, HttpRequest

    models_url = url.rstrip("/") + "/models"

    async def ask() -> list[str]:
        http = HttpClient()
        try:
            headers = {"authorization": f"Bearer {key}"} if key else {}
            request = HttpRequest("GET", models_url, headers=headers, timeout_s=10)
            reply = await http.send(request)
            if reply.status in {401, 403}:
                raise ConfigError(
                    f"{models_url} answered {reply.status}: {_refusal_text(reply.body, key)}",
                    hint="give the key: VLLM_API_KEY, or '++policy_api_key=${oc.env:MY_KEY}'",
                )
            if reply.status >= 500:
                excerpt_of_answer = _refusal_text(reply.body, key)
                raise ModelError(
                    f"{models_url} answered {reply.status}: {excerpt_of_answer}",
                    status=reply.status,
                )
            if reply.status != 200:
                raise ValueError(f"it answered {reply.status}: {_refusal_text(reply.body, key)}")
            return [str(item["id"]) for item in orjson.loads(reply.body)["data"]]
        finally:
            await http.aclose()

    try:
        names = asyncio.run(wait_for(POLICY, ask, wait, notice))
    except (ValueError, KeyError, TypeError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it holds no list of models"
        raise ConfigError(
            f"{models_url} does not say which models it serves: {reason}",
            hint="does the URL end in /v1? Or name the model: --model 'vllm:URL#NAME'",
        ) from None
    if len(names) != 1:
        raise ConfigError(
            f"{url} serves {len(names)} models: {', '.join(names)}",
            hint="name one: --model 'vllm:URL#NAME'",
        )
    return names[0]


def _refusal_text(body: bytes, key: str) -> str:
    """Return the start of an endpoint's answer, with the key masked: some endpoints repeat a
    rejected key.
    """
    text = excerpt(body)
    return text.replace(key, MASK) if key else text


RUNS: Final = Path("runs")
OUTPUT: Final = "rollouts.jsonl"
_STAMP: Final = r"-\d{8}-\d{6}(-\d+)?"
MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An unfinished run with the wanted name; `obstacles`: why this command cannot continue it."""

    output: Path
    requested: int
    left: int
    obstacles: tuple[str, ...]

    @property
    def description(self) -> str:
        why = f"; {self.obstacles[0]}" if self.obstacles else ""
        further_obstacles = len(self.obstacles) - 1
        others = f" and {further_obstacles} more differences" if further_obstacles > 0 else ""
        remaining = (
            f"{self.left} of {self.requested} left" if self.left else "all have ended, uncounted"
        )
        return f"{shown(self.output)} ({remaining}{why}{others})"


def tasks_beside(output: Path) -> Path:
    """Return the path of the file with the task rows that an evaluation has made, next to `output`."""
    return output.with_name(f"{output.stem}_tasks.jsonl")


def unfinished_run(name: str, intended: Manifest, *, max_attempts: int) -> Path:
    """Return the output of the newest unfinished run of `name` that matches `intended`, and print
    which one.

    `max_attempts`: the limit of this command, which may be higher than the limit of the old run.
    Raises ConfigError, with the candidates: no unfinished run matches.
    """
    unfinished: list[_Candidate] = []
    for candidate in _candidates(name, intended, max_attempts):
        if not candidate.obstacles:
            notice(
                f"continuing {candidate.description}, the newest unfinished run of {name} (--resume)"
            )
            return candidate.output
        unfinished.append(candidate)
    if not unfinished:
        raise ConfigError(
            f"--resume: there is no unfinished run of {name} in {RUNS}/",
            hint="leave --resume out to start a new run, or name the run with --output",
        )
    descriptions = "\n  ".join(candidate.description for candidate in unfinished[:MOST_NAMED])
    raise ConfigError(
        f"--resume: no unfinished run of {name} can go on as this command says:\n  {descriptions}",
        hint="give the same rows, model and settings again, name the run with --output, or leave "
        "--resume out to start a new run",
    )


def _candidates(name: str, intended: Manifest, max_attempts: int) -> Iterator[_Candidate]:
    """Yield the unfinished runs of `name`, the newest first."""
    folders = RUNS.iterdir() if RUNS.is_dir() else ()
    pattern = re.compile(re.escape(name) + _STAMP)
    for folder in sorted((f for f in folders if pattern.fullmatch(f.name)), reverse=True):
        paths = RunPaths((folder / OUTPUT).absolute())
        try:
            manifest = read_manifest(paths.manifest)
            requested = manifest.requested
            unfinished_count = unfinished_rollouts(
                paths, requested=requested, max_attempts=max_attempts
            )
            busy = why_not_writable(paths)
        except (InputDataError, OSError):
            continue  # not a run, or one that cannot be continued
        # A guard may have ended the run for its last rollout: its end is still to come.
        if unfinished_count or manifest.accounted < requested:
            obstacles = (*filter(None, [busy]), *changes(manifest, intended))
            yield _Candidate(paths.output, requested, unfinished_count, obstacles)


def evaluate(args: EvalArgs, overrides: list[str]) -> int:
    """Run one environment against one model, and profile the rollouts."""
    target = find_target(args, overrides, notice)
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
    reverify_words = verified_by(overrides, config.secrets, args.target)
    settings = replace(collecting.settings(config), verified_by=reverify_words)
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
    return await collect_with(OwnFleet(config, OBSERVER), with_rows, watch, metrics=False)


def _with_rows(settings: CollectSettings, rows: Iterable[JsonObject] | None) -> CollectSettings:
    """Return `settings` with `rows` as the input. They are written to a file when the run begins."""
    if rows is None:
        return settings
    [source] = settings.inputs
    return replace(settings, inputs=(replace(source, content=_lines(rows)),))


def _lines(rows: Iterable[JsonObject]) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def _config(target: EvaluationTarget, args: EvalArgs, overrides: list[str]) -> ResolvedConfig:
    paths, extra = model_config(args.model, overrides, target.configs, settings=args.collecting)
    merged = {**target.extra, **extra, **args.collecting, "config_paths": [*target.configs, *paths]}
    return load(overrides, ng=False, extra=merged)


def _run_of(
    args: EvalArgs, target: EvaluationTarget, config: ResolvedConfig
) -> tuple[EvaluationTarget, Path]:
    """Return the output of a run without `--output`: in a new folder, or of an unfinished run to
    continue.

    Also returns the target, with its rows restored: they can be read only once.
    """
    collecting = _collect_args(args, target, config, RUNS / OUTPUT)
    if not collecting.resume_from_cache:
        return target, _new_run(target.name)
    rows = None if target.rows is None else list(target.rows)
    settings = _with_rows(collecting.settings(config), rows)
    run = intended(
        settings,
        agents={i.name for i in config.instances.values() if i.type == ServerType.AGENT},
        semantics=run_semantics(config, settings),
        version=palestra.__version__,
    )
    output = unfinished_run(target.name, run, max_attempts=settings.max_attempts)
    return replace(target, rows=None if rows is None else iter(rows)), output


def _new_run(name: str) -> Path:
    """Return the output path in a new folder, whose name contains the current time."""
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
    """Return the arguments that `palestra collect` would get; the overrides apply to them, too."""
    agents = [i for i in config.instances.values() if i.type == "responses_api_agents"]
    own_settings = {
        "limit": args.limit,
        "input_jsonl_fpath": str(_input(target, agents, output)),
        "output_jsonl_fpath": str(output),
        "agent_name": agents[0].name if agents else None,
    }
    collecting = args_from(CollectArgs, {**config.tree, **own_settings})
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
"""The collection settings that `eval` sets itself, and what a user should use instead."""


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
                cause=KnownCause.NO_DATASET,
            )
        return existing_path(paths[0])
    return tasks_beside(output).absolute()

"""`evaluate` and `collect` for scripts and notebooks: they return the run as a value."""

import contextlib
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from palestra.api.arguments import (
    Above,
    AtLeast,
    check_fields,
    checks_construction,
    checks_names,
    python_function,
)
from palestra.api.collection import collect_with, verified_by
from palestra.api.endpoint_waiting import Tell
from palestra.api.environment_files import lines_of, setting_text, with_file_rows
from palestra.api.environment_objects import cell_explained, refuse_in_import, target_of
from palestra.api.evaluation import Evaluation, new_run, prepare_evaluation
from palestra.api.fleet_connection import CommandObserver, FleetChoice, OwnFleet, find
from palestra.api.models import ModelContext, model_config, refuse_misspelt_provider
from palestra.api.progress_lines import ProgressLine, is_watched
from palestra.api.results import Run, open_run
from palestra.api.runs import profile
from palestra.api.waiting import run_blocking
from palestra.config import NamedFile, Redactor, ResolvedConfig, contradicting_override
from palestra.engine import to_its_end
from palestra.errors import BadInput, ConfigError, PalestraError, mask_error
from palestra.fleet import forget_imported, forget_servers
from palestra.rollouts import Collected, PreparedRun, run
from palestra.schema import JsonDict, JsonObject, json_misfit
from palestra.server import plain_row
from palestra.settings import CollectArgs, CollectSettings, EvalArgs, ModelArgs, args_from, load
from palestra.system import remove_empty
from palestra.transport import ServerClient

T = TypeVar("T")

Rows = Path | str | Sequence[Annotated[JsonObject, "a mapping of a row's fields"]]
"""Task rows: the path of a file, or the rows."""


@checks_construction
@dataclass(frozen=True, slots=True)
class Model:
    """A model, with a key and settings that its name cannot carry.

    `name`: as after `--model`, such as `openai:NAME` or `local`.
    """

    name: str
    api_key: str | None = field(default=None, repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of its model server, such as `{"extra_body": {…}}`."""

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_misspelt_provider(self.name)


@checks_names
def evaluate(
    environment: Any,
    *,
    model: str | Model | None = None,
    judge: str | None = None,
    data: Rows | None = None,
    limit: Annotated[int, AtLeast(0)] | None = None,
    repeats: Annotated[int, AtLeast(1)] = 1,
    sampling: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    concurrency: Annotated[int, AtLeast(1)] | None = None,
    rollout_timeout_s: Annotated[float, Above(0)] = 3600.0,
    max_attempts: Annotated[int, AtLeast(1)] = 3,
    output: Path | str | None = None,
    resume: bool = False,
    progress: bool | None = None,
) -> Run:
    """Run an environment against a model, and return the run.

    `environment`: a Python file, the name or the folder of an environment, a config file, a
    subclass of `Environment`, or a function with `@environment`. `model`, `judge`: as after
    `--model`; without a model, the small local one. `data`: task rows instead of the environment's.
    `limit`: how many tasks. `repeats`: rollouts per task. `sampling`: fields of the request, such as
    `{"temperature": 0.7, "max_output_tokens": 512}`. `settings`: of the environment.
    `concurrency`: rollouts in flight, by default without bound. `rollout_timeout_s`: seconds that
    one attempt may take. `output`: the file of scored rows, by default in a new folder in `runs`.
    `resume`: continue the run at `output`, else the newest unfinished one. `progress`: show lines on
    standard error; by default in a terminal or a notebook.

    A rollout that failed is no error: `run.failures()` has it. Raises BadInput: an argument, a file
    or a row cannot be used. Raises RunFailed, CallError or ServerDied: the run ended early; `resume`
    continues it.
    """
    __tracebackhide__ = True
    refuse_in_import("evaluate")  # also here: inside a running loop, another thread does the rest
    return run_blocking(
        aevaluate(
            environment,
            model=model,
            judge=judge,
            data=data,
            limit=limit,
            repeats=repeats,
            sampling=sampling,
            settings=settings,
            concurrency=concurrency,
            rollout_timeout_s=rollout_timeout_s,
            max_attempts=max_attempts,
            output=output,
            resume=resume,
            progress=progress,
        )
    )


@python_function
async def aevaluate(
    environment: Any,
    *,
    model: str | Model | None = None,
    judge: str | None = None,
    data: Rows | None = None,
    limit: Annotated[int, AtLeast(0)] | None = None,
    repeats: Annotated[int, AtLeast(1)] = 1,
    sampling: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    concurrency: Annotated[int, AtLeast(1)] | None = None,
    rollout_timeout_s: Annotated[float, Above(0)] = 3600.0,
    max_attempts: Annotated[int, AtLeast(1)] = 3,
    output: Path | str | None = None,
    resume: bool = False,
    progress: bool | None = None,
) -> Run:
    """`evaluate` on the event loop of the caller."""
    refuse_in_import("evaluate")
    _refuse_no_tasks(limit)
    target = target_of(environment, _RUNNING)
    line = ProgressLine(on=is_watched() if progress is None else progress)
    arguments = {
        "target": target,
        "model": model.name if isinstance(model, Model) else model,
        "judge": judge,
        "limit": limit,
        "output": None if output is None else Path(output),
        "collecting": _collecting(
            repeats, sampling, concurrency, rollout_timeout_s, max_attempts, resume=resume
        ),
    }
    call = _call(
        "evaluate",
        environment,
        model=model,
        judge=judge,
        limit=limit,
        repeats=repeats,
        sampling=sampling,
        settings=settings,
    )
    with contextlib.ExitStack() as stack:
        arguments["input"] = stack.enter_context(_as_file(data))
        preparation = _prepared_evaluation(target, arguments, model, settings or {}, line.tell)
        evaluation = await to_its_end(lambda: stack.enter_context(preparation))
        collection = replace(evaluation.settings, command=Redactor(evaluation.config.secrets)(call))
        choice = OwnFleet(evaluation.config, CommandObserver(tell=line.tell))
        return await _collected(
            choice, collection, line, resumable=evaluation.config, group_by=evaluation.group_by
        )


@contextlib.contextmanager
def _prepared_evaluation(
    target: str,
    arguments: JsonDict,
    model: str | Model | None,
    settings: Mapping[str, Any],
    report: Tell,
) -> Iterator[Evaluation]:
    """Yield the evaluation of `target`. `arguments`: those of `palestra eval`. `settings`: of the
    environment.
    """
    file = NamedFile.parse(target)
    if file is not None:
        forget_imported(file.path)
        arguments = {
            **arguments,
            "own_settings": {k: setting_text(k, v) for k, v in settings.items()},
        }
    preparation = prepare_evaluation(
        args_from(EvalArgs, arguments),
        _key_override(model),
        report,
        option_prefix="",
        model_settings=model.settings if isinstance(model, Model) else {},
        own_settings={} if file is not None else settings,
    )
    with contextlib.ExitStack() as stack:
        with cell_explained(target):
            evaluation = stack.enter_context(preparation)
        yield evaluation


@checks_names
def collect(
    configs: str | Path | Sequence[str | Path],
    *,
    agent: str | None = None,
    data: Rows,
    model: str | Model | None = None,
    overrides: Sequence[str] = (),
    limit: Annotated[int, AtLeast(0)] | None = None,
    repeats: Annotated[int, AtLeast(1)] = 1,
    sampling: Mapping[str, Any] | None = None,
    concurrency: Annotated[int, AtLeast(1)] | None = None,
    rollout_timeout_s: Annotated[float, Above(0)] = 3600.0,
    max_attempts: Annotated[int, AtLeast(1)] = 3,
    output: Path | str | None = None,
    resume: bool = False,
    progress: bool | None = None,
) -> Run:
    """Run task rows through an agent of a configuration, and return the run.

    `configs`: config files. A fleet that runs with this configuration is used; without one, the
    servers are started inside this process. `agent`: the agent for rows that name none; by default
    the only one. `data`: the task rows. `model`: None uses that of the configuration. `overrides`:
    as on the command line, such as `++NAME.key=value`. The other parameters and the errors are those of `evaluate`.
    """
    __tracebackhide__ = True
    refuse_in_import("collect")
    return run_blocking(
        acollect(
            configs,
            agent=agent,
            data=data,
            model=model,
            overrides=overrides,
            limit=limit,
            repeats=repeats,
            sampling=sampling,
            concurrency=concurrency,
            rollout_timeout_s=rollout_timeout_s,
            max_attempts=max_attempts,
            output=output,
            resume=resume,
            progress=progress,
        )
    )


@python_function
async def acollect(
    configs: str | Path | Sequence[str | Path],
    *,
    agent: str | None = None,
    data: Rows,
    model: str | Model | None = None,
    overrides: Sequence[str] = (),
    limit: Annotated[int, AtLeast(0)] | None = None,
    repeats: Annotated[int, AtLeast(1)] = 1,
    sampling: Mapping[str, Any] | None = None,
    concurrency: Annotated[int, AtLeast(1)] | None = None,
    rollout_timeout_s: Annotated[float, Above(0)] = 3600.0,
    max_attempts: Annotated[int, AtLeast(1)] = 3,
    output: Path | str | None = None,
    resume: bool = False,
    progress: bool | None = None,
) -> Run:
    """`collect` on the event loop of the caller."""
    refuse_in_import("collect")
    _refuse_no_tasks(limit)
    line = ProgressLine(on=is_watched() if progress is None else progress)
    paths = [str(path) for path in ([configs] if isinstance(configs, str | Path) else configs)]
    destination = Path(output) if output is not None else new_run(agent or Path(paths[0]).stem)
    call = _call(
        "collect",
        paths,
        agent=agent,
        model=model,
        limit=limit,
        repeats=repeats,
        sampling=sampling,
    )
    with contextlib.ExitStack() as stack:
        if output is None:  # nothing stays of a run that did not begin
            stack.callback(remove_empty, (destination.parent, destination.parent.parent))
        rows = stack.enter_context(_as_file(data))
        collection_settings = {
            "config_paths": paths,
            "input_jsonl_fpath": str(rows),
            "output_jsonl_fpath": str(destination),
            **({} if agent is None else {"agent_name": agent}),
            **({} if limit is None else {"limit": limit}),
            **_collecting(
                repeats, sampling, concurrency, rollout_timeout_s, max_attempts, resume=resume
            ),
        }

        def prepare() -> tuple[ResolvedConfig, CollectSettings]:
            return _prepared_collection(
                collection_settings, model, [*overrides, *_key_override(model)], line.tell
            )

        config, settings = await to_its_end(prepare)
        settings = replace(settings, command=Redactor(config.secrets)(call))
        async with find(config, CommandObserver(tell=line.tell)) as choice:
            return await _collected(choice, settings, line, resumable=config, group_by=None)


def _prepared_collection(
    collection_settings: JsonDict, model: str | Model | None, overrides: list[str], report: Tell
) -> tuple[ResolvedConfig, CollectSettings]:
    extra = dict(collection_settings)
    _refuse_contradictions(collection_settings, overrides)
    name = model.name if isinstance(model, Model) else model
    if name is not None:
        context = ModelContext(
            overrides,
            collection_settings["config_paths"],
            settings=collection_settings,
            report=report,
            option="model",
        )
        extra |= model_config(name, context)
    config = load(overrides, ng=False, extra=extra)
    for warning in config.warnings:
        report(f"warning: {warning}")
    settings = replace(
        args_from(CollectArgs, config.tree).settings(config),
        verified_by=verified_by(overrides, config, models=ModelArgs(model=name)),
    )
    return config, with_file_rows(settings, config, report)


def _refuse_contradictions(collection_settings: JsonDict, overrides: list[str]) -> None:
    """Raise ConfigError: an override gives another value to an argument that has no default."""
    sampling = collection_settings.get("responses_create_params", {})
    arguments = [(f"sampling.{k}", f"responses_create_params.{k}", v) for k, v in sampling.items()]
    if (limit := collection_settings.get("limit")) is not None:
        arguments.append(("limit", "limit", limit))
    for argument, setting, value in arguments:
        if override := contradicting_override(setting, value, overrides):
            raise ConfigError(
                f"{argument} and the override {override} give two values to one setting",
                hint="leave one of them out",
            )


async def _collected(
    choice: FleetChoice,
    settings: CollectSettings,
    line: ProgressLine,
    *,
    resumable: ResolvedConfig,
    group_by: str | None,
) -> Run:
    """Collect, write the profile, and return the run. Errors lose the secrets of the configuration."""
    if isinstance(choice, OwnFleet):
        forget_servers(choice.config)
    # Who set up no logging reads failures in the run, and not on standard error.
    logging.getLogger("palestra").addHandler(logging.NullHandler())

    async def show(
        prepared: PreparedRun, settings: CollectSettings, client: ServerClient, most_rollouts: int
    ) -> Collected:
        async with line.shown(prepared.accounting):
            return await run(prepared, settings, client, most_rollouts=most_rollouts)

    try:
        await collect_with(choice, settings, show, CommandObserver(tell=line.tell))
    except PalestraError as error:
        mask_error(error, Redactor(resumable.secrets))
        raise
    output = settings.output_jsonl_fpath

    def finished() -> Run:
        if output.exists():
            profile(output, allow_partial=True, group_by=group_by, allow_ungrouped=True)
        return open_run(output)

    return await to_its_end(finished)


def _refuse_no_tasks(limit: int | None) -> None:
    """Raise ConfigError: no task is asked for, so that there would be no rollouts to return."""
    if limit == 0:
        raise ConfigError(
            "limit=0 asks for no task, so there would be no run to return",
            hint="leave it out for all tasks",
        )


@contextlib.contextmanager
def _as_file(data: Rows | None) -> Iterator[Path | None]:
    """Yield the path of the rows. Rows in memory are in a temporary file while the body runs."""
    if data is None or isinstance(data, Path | str):
        yield None if data is None else Path(data)
        return
    if not data:
        raise ConfigError("data has no rows")
    with tempfile.TemporaryDirectory(prefix="palestra-data-") as folder:
        path = Path(folder) / "data.jsonl"
        path.write_bytes(lines_of(_plain_rows(data)))
        try:
            yield path
        except BadInput as error:  # the caller does not know the file
            mask_error(error, lambda text: text.replace(str(path), "data"))
            raise


def _plain_rows(data: Sequence[JsonObject]) -> Iterator[JsonDict]:
    """Yield the rows. Raises InputDataError: one has a value that would be another one as JSON."""
    for number, row in enumerate(data, 1):
        yield plain_row(row, partial("row {} of the data".format, number))


def _collecting(
    repeats: int,
    sampling: Mapping[str, Any] | None,
    concurrency: int | None,
    rollout_timeout_s: float,
    max_attempts: int,
    *,
    resume: bool,
) -> JsonDict:
    """Return the settings of a collection under their names in configurations. Raises ConfigError: a
    value of `sampling` cannot be JSON.
    """
    if misfit := json_misfit(dict(sampling or {}), "sampling"):
        raise ConfigError(misfit.problem, hint=misfit.cure)
    return {
        "num_repeats": repeats,
        "rollout_timeout": rollout_timeout_s,
        "max_attempts": max_attempts,
        "resume_from_cache": resume,
        **({} if concurrency is None else {"num_samples_in_parallel": concurrency}),
        **({} if not sampling else {"responses_create_params": dict(sampling)}),
    }


def _key_override(model: str | Model | None) -> list[str]:
    if not isinstance(model, Model) or model.api_key is None:
        return []
    quoted = model.api_key.replace("\\", "\\\\").replace("'", "\\'")
    return [f"++policy_api_key='{quoted}'"]


def _call(function: str, subject: Any, *, model: str | Model | None, **arguments: Any) -> str:
    """Return the call as Python text, without the arguments that have their default."""
    text = getattr(subject, "__name__", None) or repr(subject)
    arguments = {"model": model.name if isinstance(model, Model) else model, **arguments}
    values = [f"{k}={v!r}" for k, v in arguments.items() if v and (k, v) != ("repeats", 1)]
    return f"palestra.{function}({', '.join([text, *values])})"


_RUNNING = (evaluate, aevaluate, collect, acollect)
"""What must not be called while a cell is imported."""

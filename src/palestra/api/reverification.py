"""Runs the current verifiers on stored responses, inside this process and without the model."""

import asyncio
import contextlib
import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import palestra
from palestra.analysis import advice_about, environment_options
from palestra.api.endpoint_waiting import Tell
from palestra.api.environment_files import own_overrides, setting_text
from palestra.api.environments import environment_instance, find_target
from palestra.api.fleet_connection import (
    FROZEN_AFTER_S,
    SILENT,
    CommandObserver,
    OwnFleet,
    Reachable,
    unless,
)
from palestra.api.models import ModelContext, judge_config, judges_of, policy_endpoint
from palestra.api.reverified_tasks import (
    changed_tasks,
    has_raw_inputs,
    named_inputs,
    own_inputs,
    scored_rows,
    taken_from,
    tasks_of,
    tasks_of_run,
)
from palestra.api.run_environments import settings_of_run, unlike_the_runs
from palestra.api.server_semantics import server_semantics
from palestra.config import InstanceConfig, NamedFile, ResolvedConfig, ServerType, override_key
from palestra.errors import ConfigError, InputDataError, KnownCause, ServerDied
from palestra.fleet import forget_imported
from palestra.rollouts import (
    Begun,
    Checked,
    FoundTaskRows,
    Origin,
    Progress,
    Reverification,
    ReverifyLimits,
    ReverifyPaths,
    Routes,
    Sessions,
    StoredRollouts,
    TaskRows,
    UnverifiedAnswers,
    Verifier,
    begin_reverification,
    check_modes,
    check_places,
    copy_inputs,
    failures_beside,
    has_unscored,
    holds_failures,
    outputs_of,
    record_stopped,
    scored_beside,
    stopped_rows,
)
from palestra.schema import (
    FAILURES_ENDING,
    JsonDict,
    JsonObject,
    RunPaths,
    bare_name,
    run_beside,
)
from palestra.settings import (
    MODEL_FORMS,
    EvalArgs,
    ReverifyArgs,
    load,
)
from palestra.system import shown

SAY_EVERY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class PreparedReverification:
    """A reverification with all checks done that need no server; `run` does the work."""

    args: ReverifyArgs
    paths: ReverifyPaths
    config: ResolvedConfig
    """The configuration of the needed servers only."""
    stored: StoredRollouts
    checked: Checked
    tasks: TaskRows | FoundTaskRows
    observer: CommandObserver

    @property
    def how_to_continue(self) -> str:
        """A text for the user: where the verified rows are, and how to resume after a stop."""
        return f"what is done is in {shown(self.paths.partial)}; --resume goes on from there"

    async def run(self) -> JsonObject:
        """Verify every row; return the counts and the changes.

        The servers always run inside this process, even if a fleet is running: the fleet may have
        older verifiers.
        """
        observer = self.observer
        # Judges that may have nothing to answer are not waited for.
        asks = self.args.fresh_judge or self.args.judge is not None or not self.args.starts_judges
        async with OwnFleet(self.config, observer).open(models=asks) as fleet:
            sessions = await self._sessions(fleet)
            if sessions.forced:
                observer.tell(
                    f"warning: {', '.join(sorted(sessions.forced))}: --force verifies without the "
                    "live session; the rewards may not be those of the rollouts, and are written to "
                    f"{shown(self.paths.output)}"
                )
            origin = self._origin()
            with begin_reverification(
                self.paths, origin, resume=self.args.resume, version=palestra.__version__
            ) as begun_output:
                for text in begun_output.notices:
                    observer.tell(text)
                if begun_output.finished is not None:
                    observer.tell(f"{shown(self.paths.output)} is complete already")
                    return begun_output.finished
                copy_inputs(
                    (named_inputs(self.args), (own_inputs(self.args),)),
                    self.paths.materialized_inputs,
                    self.tasks.corrected if isinstance(self.tasks, TaskRows) else None,
                )
                return await self._verify(fleet, sessions, origin, begun_output)

    async def _sessions(self, fleet: Reachable) -> Sessions:
        try:
            return await check_modes(
                fleet.client,
                self.checked.servers,
                force=self.args.force,
                any_failed=has_unscored(RunPaths(scored_rows(self.args))),
            )
        except ConfigError as error:
            error.hint = advice_about(self.args.rollouts)(error.hint)
            raise

    async def _verify(
        self, fleet: Reachable, sessions: Sessions, origin: Origin, begun_output: Begun
    ) -> JsonObject:
        args, output = self.args, self.paths.output
        self.observer.note(
            reverified=str(output),
            again=self.how_to_continue,
            limit_s=args.timeout_s + FROZEN_AFTER_S,
        )
        reverification = Reverification(
            rows=lambda: self.stored.rows(self.checked.rows),
            origin=origin,
            partial=begun_output.partial,
            version=palestra.__version__,
            limits=ReverifyLimits(args.concurrency, args.timeout_s),
        )
        verifier = Verifier(
            fleet.client,
            sessions=sessions,
            fresh_judge=args.fresh_judge,
            timeout_s=args.timeout_s,
            stopped=stopped_rows(output),
        )
        try:
            return await unless(
                fleet.watch(), _watched(reverification, verifier, self.observer.tell)
            )
        except ServerDied as died:
            if died.failure is not None:
                record_stopped(output, died.failure)
                died.hint = "; ".join(filter(None, [died.hint, self.how_to_continue]))
            raise

    def _origin(self) -> Origin:
        return Origin(
            rollouts=self.checked.digest,
            rows=self.checked.rows,
            inputs=self.tasks.digest,
            verifiers=server_semantics(self.config),
            judge="fresh" if self.args.fresh_judge else "replayed",
        )


@contextlib.contextmanager
def prepared_reverification(
    args: ReverifyArgs,
    overrides: list[str],
    observer: CommandObserver = SILENT,
    *,
    option_prefix: str = "--",
) -> Iterator[PreparedReverification]:
    """Check the arguments and the stored rows, and yield the prepared reverification. Nothing is
    started or written yet.

    `overrides`: overrides of the configuration. `option_prefix`: what stands before the names of
    arguments in messages; nothing in Python. Raises ConfigError: no environment can verify the rows,
    or the judge that they need is not configured. Raises InputDataError: the rows or the paths
    cannot be used.
    """
    paths = ReverifyPaths(args.output.absolute())
    args = args.model_copy(update={"rollouts": _rollouts_file(args.rollouts)})
    unverified = _unverified(args, observer.tell)
    failures = None if unverified is None else unverified.path
    scored = args.scored or scored_beside(args.rollouts)
    paths_read = (args.rollouts, *named_inputs(args), failures, scored, own_inputs(args))
    sources = [path for path in paths_read if path is not None]
    check_places(paths, sources, overwrite=args.overwrite, resume=args.resume)
    if not args.rollouts.exists():
        raise InputDataError(
            f"there are no rollouts at {args.rollouts}",
            hint="relative paths start at the working directory",
        )
    if of_run := _overrides_of_run(args, overrides):
        observer.tell(f"set as in the run: {shlex.join(of_run)}")
        overrides = [*of_run, *overrides]
    environment = _environment(args, overrides, observer.tell)
    extra, environment_name = environment.extra, environment.name
    judged = ModelContext(
        overrides,
        extra.get("config_paths", ()),
        report=observer.tell,
        option=f"{option_prefix}judge",
    )
    extra, overrides = _with_judge(args, extra, overrides, judged)
    config = load(overrides, ng=False, extra=extra, required=())
    for warning in config.warnings:
        observer.tell(f"warning: {warning}")
    with tasks_of(args, config, environment.rows) as tasks:
        if (notice := changed_tasks(tasks, environment.rows or tasks_of_run(args))) is not None:
            observer.tell(notice)
        stored = StoredRollouts(
            args.rollouts,
            _routes(config, environment_name, args.rollouts),
            limit=args.limit,
            only=args.only,
            tasks=tasks,
            unverified=unverified,
        )
        checked = stored.check()
        warning = unlike_the_runs(scored or args.rollouts, config, checked.servers)
        for text in (*filter(None, [warning]), *checked.notices, *taken_from(tasks)):
            observer.tell(text)
        # Of a row whose verification failed no judge's answer is stored.
        asks = args.fresh_judge or args.starts_judges or args.judge is not None
        models = asks or unverified is not None
        names = _needed(config, checked.servers, models=models)
        is_partial = bool(args.only) or args.limit is not None
        unjudged = unverified is not None and unverified.needs_judge and not is_partial
        if args.fresh_judge or unjudged:
            _refuse_missing_judges(config, names, judged.option)
        # Now that they are known, what these servers lack is an error.
        config = _only(load(overrides, ng=False, extra=extra, required=names), names)
        yield PreparedReverification(args, paths, config, stored, checked, tasks, observer)


def _overrides_of_run(args: ReverifyArgs, overrides: Sequence[str]) -> list[str]:
    """Return the overrides that set the environment of `args` as it was in the run, without those of
    keys that `overrides` have; none when the run had another environment.
    """
    environment = args.environment
    if environment is None:
        return []
    if (file := NamedFile.parse(environment)) is not None:
        settings = settings_of_run(args.rollouts, file)
        texts = {key: setting_text(key, value) for key, value in settings.items()}
        of_run = own_overrides(environment, texts, [])
    else:
        words = environment_options(args.rollouts)
        of_run = [word for word in words if word.startswith("+")] if environment in words else []
    # What is deleted must be there: `~key` does not take the place of the run's value.
    keys = {override_key(word) for word in overrides if not word.startswith("~")} | {"config_paths"}
    return [word for word in of_run if override_key(word) not in keys]


def _rollouts_file(rollouts: Path) -> Path:
    """Return the file of a run that is named by its folder, or by a file beside its output; another
    path, and the failures file, unchanged.

    Raises InputDataError: the folder has several files of scored rows.
    """
    if not rollouts.is_dir():
        is_failures = bare_name(rollouts).endswith(FAILURES_ENDING)
        return rollouts if is_failures else run_beside(rollouts) or rollouts
    outputs = outputs_of(rollouts)
    if len(outputs) == 1:
        return outputs[0]
    raise InputDataError(
        f"{rollouts} has a run in {len(outputs)} shards",
        hint=f"merge them first: palestra merge FILE.jsonl {rollouts}",
    )


def _unverified(args: ReverifyArgs, report: Tell) -> UnverifiedAnswers | None:
    """Return the answers to verify in addition to the scored rows, or None; report them."""
    if holds_failures(args.rollouts):
        answers = UnverifiedAnswers.found_in(
            args.rollouts,
            scored=args.scored or scored_beside(args.rollouts),
            failure_classes=args.failure_classes,
        )
        if len(answers):
            report(f"{shown(args.rollouts)}: {answers.summary()}")
        return answers if len(answers) else None
    path = failures_beside(args.rollouts)
    if not path.is_file():
        return None
    answers = UnverifiedAnswers.found_in(path, scored=args.rollouts)
    if not len(answers):
        return None
    advice = "" if args.with_failures else "; --with-failures verifies those, too"
    report(f"{shown(path.absolute())}: {answers.summary()}{advice}")
    return answers if args.with_failures else None


@dataclass(frozen=True, slots=True)
class _VerifyingEnvironment:
    """The settings that configure the environment. `name`: if it verifies every row, else None.
    `rows`: the task rows of an environment in one file.
    """

    extra: JsonDict
    name: str | None
    rows: Sequence[JsonDict] = ()


def _environment(args: ReverifyArgs, overrides: list[str], report: Tell) -> _VerifyingEnvironment:
    environment = args.environment
    has_configs = any("config_paths" in item for item in overrides)
    file = None if environment is None else NamedFile.parse(environment)
    if environment is None or (has_configs and file is None):
        return _VerifyingEnvironment({}, environment)
    own_data = args.inputs if file is not None and has_raw_inputs(args) else None
    if file is not None:
        forget_imported(file.path)
    target = find_target(EvalArgs(target=environment, input=own_data), overrides, report)
    if own_data is not None and target.empty:
        raise InputDataError(target.empty)
    rows = tuple(target.rows or ()) if file is not None else ()
    if has_configs:  # the file's own servers, beside those of the configs
        return _VerifyingEnvironment({**target.extra}, next(iter(target.extra)), rows)
    name = (
        None if environment.endswith((".yaml", ".yml")) else next(iter(target.extra), target.name)
    )
    return _VerifyingEnvironment({**target.extra, "config_paths": list(target.configs)}, name, rows)


def _with_judge(
    args: ReverifyArgs, extra: JsonDict, overrides: list[str], context: ModelContext
) -> tuple[JsonDict, list[str]]:
    """Return the settings and the overrides with the judge's model: that of `args.judge`, else the
    policy's endpoint where one is set.
    """
    if args.judge is None:
        return {**policy_endpoint(context), **extra}, overrides
    judging = replace(context, role="judge")
    settings, references = judge_config(args.judge, judging, extra=extra)
    return {**extra, **settings}, [*overrides, *references]


def _refuse_missing_judges(config: ResolvedConfig, servers: Iterable[str], option: str) -> None:
    """Raise ConfigError: a judge of `servers` has to be asked, and no model is configured for it."""
    for server in sorted(servers):
        for judge in judges_of(config.instance(server)):
            if judge not in config.instances:
                raise ConfigError(
                    f"there is no judge to ask: {server} asks {judge}, and nothing configures it",
                    hint=f"name the judge's model: {option} {MODEL_FORMS}",
                    cause=KnownCause.NO_JUDGE,
                )


def _routes(config: ResolvedConfig, environment_name: str | None, rollouts: Path) -> Routes:
    """Return which resources server verifies which rows. Raises ConfigError: no resources server is
    configured.

    `rollouts`: the rows, for the hint with the environment of their run.
    """
    servers = config.instances_of(ServerType.RESOURCES)
    if not servers:
        options = environment_options(rollouts)
        raise ConfigError(
            "no environment is configured, so no server can verify",
            hint=f"add the environment of the run: {shlex.join(options)}"
            if options
            else "pass --environment NAME, or --config FILE with the environment's config",
        )
    if environment_name is not None:
        return Routes({}, environment_instance(environment_name, config).name)
    return Routes(
        {
            agent.name: name
            for agent in config.instances_of(ServerType.AGENT)
            if (name := _environment_of(agent)) in config.instances
        },
        servers[0].name if len(servers) == 1 else None,
    )


def _environment_of(agent: InstanceConfig) -> str:
    """Return the resources server that an agent refers to; empty without one."""
    resources_server = agent.settings.get("resources_server")
    if isinstance(resources_server, Mapping):
        return str(resources_server.get("name"))
    return next(iter(agent.referenced(ServerType.RESOURCES)), "")


def _needed(config: ResolvedConfig, servers: Iterable[str], *, models: bool) -> frozenset[str]:
    """Return `servers` and all servers that they refer to. `models`: whether to include model
    servers, such as judges.
    """
    needed: set[str] = set()
    to_visit = list(servers)
    while to_visit:
        name = to_visit.pop()
        if name in needed:
            continue
        needed.add(name)
        refs = config.instance(name).refs
        to_visit += [
            ref.name
            for ref in refs
            if ref.type != ServerType.MODEL or (models and ref.name in config.instances)
        ]
    return frozenset(needed)


def _only(config: ResolvedConfig, names: Collection[str]) -> ResolvedConfig:
    """Return the configuration with only the instances in `names`; the others may be incomplete."""
    left_out = config.instances.keys() - set(names)
    return ResolvedConfig(
        tree={key: value for key, value in config.tree.items() if key not in left_out},
        instances={name: config.instances[name] for name in config.instances if name in names},
        sources=config.sources,
        warnings=config.warnings,
    )


async def _watched(work: Reverification, verifier: Verifier, report: Tell) -> JsonDict:
    """Run the reverification and report the progress every few seconds."""
    showing: list[asyncio.Task[None]] = []
    try:
        return await work.run(
            verifier, on_start=lambda p: showing.append(asyncio.create_task(_show(p, report)))
        )
    finally:
        for task in showing:
            task.cancel()
        await asyncio.gather(*showing, return_exceptions=True)


async def _show(progress: Progress, report: Tell) -> None:
    while True:
        await asyncio.sleep(SAY_EVERY_S)
        report(_describe(progress))


def _describe(progress: Progress) -> str:
    accounting = progress.accounting
    finished = accounting.scored + accounting.failed
    rate = (finished - progress.done_before) / max(time.monotonic() - progress.started, 1e-6)
    time_left = f", {accounting.remaining / rate:.0f} s left" if rate > 0 else ""
    return f"{finished}/{accounting.requested} rows, {accounting.failed} failed, {rate:.0f} rows/s{time_left}"

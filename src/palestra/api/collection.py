"""Collects rollouts: plans the run, reaches the fleet, runs what remains, and records how a fleet
that broke ended it.
"""

import asyncio
import contextlib
import shlex
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import palestra
from palestra.analysis import completion_for
from palestra.api.descriptors import check_descriptors, most_in_flight
from palestra.api.endpoint_waiting import Tell
from palestra.api.fleet_connection import (
    FROZEN_AFTER_S,
    SILENT,
    CommandObserver,
    FleetChoice,
    unless,
)
from palestra.api.models import JUDGE, LOCAL, POLICY, judges_of
from palestra.api.server_semantics import run_semantics
from palestra.api.verifier_files import needed_files, with_needed_files
from palestra.config import ResolvedConfig, ServerType, is_secret_name, override_key
from palestra.engine import to_its_end
from palestra.errors import ConfigError, Hopeless, Outcome, PalestraError, ServerDied
from palestra.rollouts import (
    AgentRoute,
    Collected,
    PreparedRun,
    StaleRun,
    UnservedTool,
    begin,
    check_modes,
    check_rows,
    discard,
    plan,
    reverify_command,
    unserved_tools,
)
from palestra.schema import AGENT_REF, read_jsonl
from palestra.settings import (
    COMMAND_SETTINGS,
    MODEL_FORM,
    CollectSettings,
    ModelArgs,
    VerifierOptions,
)
from palestra.system import raise_descriptor_limit, shown
from palestra.transport import ServerClient

RunCollection = Callable[[PreparedRun, CollectSettings, ServerClient, int], Awaitable[Collected]]
"""Runs a prepared collection and shows its progress. The last argument is the largest number of
rollouts in flight that the process can have."""

_NOT_OF_THE_VERIFIER = COMMAND_SETTINGS | {"head_server"}
_MODES_WITHIN_S: Final = 5.0
"""How long a collection waits for what its servers say of verification, which only hints need."""


def verified_by(
    overrides: Sequence[str],
    config: ResolvedConfig,
    *,
    environment: str | None = None,
    models: ModelArgs | None = None,
) -> VerifierOptions:
    """Return the options of `palestra reverify` that say what verifies the responses of a run: the
    run's own overrides that verifiers need.

    Secrets are left out, because the text is printed and stored. `environment`: the environment
    that the run evaluated. `models`: the models that options of the run named; None: its program has
    no such options.
    """
    secrets = config.secrets
    judge = None if models is None else _judge(models, config)
    environment_option = [] if environment is None else ["--environment", environment]
    judge_option = [] if judge is None else ["--judge", _without_secrets(judge, secrets)]
    kept_overrides = [item for item in overrides if _is_kept(item, secrets)]
    options = [*environment_option, *judge_option, *kept_overrides]
    return VerifierOptions(shlex.join(options), names_judge=judge is not None)


def _judge(models: ModelArgs, config: ResolvedConfig) -> str | None:
    """Return the model of the judges, as `--judge` takes it; None when the environment asks none,
    or when files or overrides say which model it is.
    """
    environments = config.instances_of(ServerType.RESOURCES)
    judges = {judge for instance in environments for judge in judges_of(instance)}
    if JUDGE in judges and models.judge is not None:
        return models.judge
    policy = config.instances.get(POLICY)
    if POLICY not in judges or policy is None:
        return None
    if models.model is not None:
        return models.model
    return LOCAL if policy.implementation == "local_model" else None


def _without_secrets(judge: str, secrets: Collection[str]) -> str:
    return MODEL_FORM if any(secret in judge for secret in secrets) else judge


def _is_kept(override: str, secrets: Collection[str]) -> bool:
    path = override_key(override).split(".")
    if path[0] in _NOT_OF_THE_VERIFIER or any(map(is_secret_name, path)):
        return False
    return not any(secret in override for secret in secrets)


def with_config_of(choice: FleetChoice, settings: CollectSettings) -> CollectSettings:
    """Return the settings with the config files that a re-verification needs: of those that the
    command names, or else of those of a running fleet.
    """
    paths = choice.config.tree.get("config_paths")
    words = shlex.split(settings.verified_by.text)
    if words:
        words = list(with_needed_files(words, choice, settings))
    elif isinstance(paths, list) and paths:
        needed = needed_files([str(path) for path in paths], (), choice, settings)
        files = (choice.folder / path for path in needed)
        # A config that ships with Palestra is named as it is: it is found from every folder.
        names = (
            shown(file) if file.exists() else path for file, path in zip(files, needed, strict=True)
        )
        words = [word for name in names for word in ("--config", name)]
    verifier = replace(settings.verified_by, text=shlex.join(words))
    return replace(settings, verified_by=verifier)


def how_to_continue(settings: CollectSettings) -> str:
    """Return a sentence for the user: how a stopped run goes on."""
    instead = ", without overwrite," if settings.overwrite else ""
    return (
        f"the same command with {settings.resume_words.format(shown(settings.output_jsonl_fpath))}"
        f"{instead} goes on from there"
    )


async def collect_with(
    choice: FleetChoice,
    settings: CollectSettings,
    run: RunCollection,
    observer: CommandObserver = SILENT,
) -> tuple[Collected, PreparedRun]:
    """Plan, reach the fleet and collect. `run`: runs the prepared collection.

    Errors in the rows or in an earlier run are raised before any server starts. Until the first
    rollout starts, no file of an earlier run is changed.
    """
    settings = with_config_of(choice, settings)
    _check_is_agent(choice.config, settings.agent_name)
    open_files = raise_descriptor_limit()
    routes = [AgentRoute.of(agent) for agent in choice.config.instances_of(ServerType.AGENT)]
    planned = await _planned(choice, settings)
    has_begun = False
    try:
        async with choice.open() as fleet:
            await check_rows(planned, fleet.client, routes)
            for tool in await unserved_tools(planned, fleet.client, routes):
                observer.tell(f"warning: {_advice_on(tool)}")
            settings = await _with_session_mode(planned, settings, fleet.client, routes)
            planned = planned.recording(reverify_command(settings))
            targets = fleet.client.targets.values()
            if warning := check_descriptors(settings, planned.remaining, targets, open_files):
                observer.tell(f"warning: {warning}")
            observer.note(
                output=str(settings.output_jsonl_fpath),
                max_attempts=settings.max_attempts,
                reverify_command=reverify_command(settings).as_json(),
                again=how_to_continue(settings),
                limit_s=settings.rollout_timeout + FROZEN_AFTER_S,
            )
            has_begun = True  # from here on what is there can be continued, whoever stops us
            prepared = await to_its_end(partial(begin, planned))
            _introduce(prepared, observer.tell)
            with _saying_how_to_continue(settings):
                collected = await unless(
                    fleet.watch(),
                    run(prepared, settings, fleet.client, most_in_flight(targets, open_files)),
                    doubtful=lambda it: it.accounting.ended[Outcome.INFRA_ERROR] > 0,
                )
    finally:
        if not has_begun:
            discard(planned)
    return collected, prepared


async def _planned(choice: FleetChoice, settings: CollectSettings) -> PreparedRun:
    """Return the planned run. Raises InputDataError: rows are bad, or existing outputs would be lost."""
    planning = partial(
        plan,
        settings,
        agents={agent.name for agent in choice.config.instances_of(ServerType.AGENT)},
        semantics=run_semantics(choice.config, settings, choice.codes),
        version=palestra.__version__,
    )
    try:
        return await to_its_end(planning, undo=discard)
    except StaleRun as stale:
        stale.hint = completion_for(settings.output_jsonl_fpath)(stale.hint)
        raise


@contextlib.contextmanager
def _saying_how_to_continue(settings: CollectSettings) -> Iterator[None]:
    """Add how the run goes on to the error that ends it, where something of the run is there."""
    try:
        yield
    except (ServerDied, Hopeless) as error:
        names_rollout = isinstance(error, ServerDied) and error.failure is not None
        if names_rollout or settings.output_jsonl_fpath.exists():
            _add_hint(error, how_to_continue(settings))
        raise


async def _with_session_mode(
    planned: PreparedRun,
    settings: CollectSettings,
    client: ServerClient,
    routes: Sequence[AgentRoute],
) -> CollectSettings:
    """Return the settings for hints that do not promise a reward from kept answers, where an
    environment of the rows verifies in its live session alone: reverify refuses the whole run then.
    """
    names = {name for route in routes for name in route.environments}
    try:
        async with asyncio.timeout(_MODES_WITHIN_S):
            sessions = await check_modes(client, names, force=True)
    except (PalestraError, TimeoutError):
        return settings  # what is wrong with a server, its rollouts report
    bound = {route.agent for route in routes if not sessions.forced.isdisjoint(route.environments)}
    if not bound or not await asyncio.to_thread(_has_row_of, bound, planned):
        return settings
    return replace(settings, verified_by=replace(settings.verified_by, needs_session=True))


def _has_row_of(agents: Collection[str], planned: PreparedRun) -> bool:
    # All rows of the run: reverify reads those that a resumed run has ended, too.
    return any(line.row[AGENT_REF]["name"] in agents for line in read_jsonl(planned.inputs))


def _check_is_agent(config: ResolvedConfig, name: str | None) -> None:
    """Raise ConfigError when `name` is an instance of another kind than an agent, or none any more."""
    if name is not None and name in config.takers:
        raise ConfigError(
            f"there is no agent {name!r} any more: {config.takers[name]} has taken it away",
            hint="`_copy` in its place leaves it",
        )
    instance = config.instances.get(name or "")
    if instance is None or instance.type == ServerType.AGENT:
        return
    agents = config.instances_of(ServerType.AGENT)
    using = [agent.name for agent in agents if name in agent.referenced(instance.type)]
    uses = ", ".join(f"`--agent {agent}`" for agent in using)
    raise ConfigError(
        f"{name} is {ServerType(instance.type).noun}, not an agent",
        hint=f"name an agent that uses it: {uses}" if using else "no agent uses it",
    )


def _advice_on(tool: UnservedTool) -> str:
    return (
        f"{tool}; each call is answered with that, and the model can do nothing about it "
        f"(first: {shown(tool.places[0].path)}:{tool.places[0].line})"
    )


def _introduce(prepared: PreparedRun, report: Tell) -> None:
    for text in prepared.notices:
        report(text)
    manifest = prepared.manifest
    share = f", shard {manifest.shard.index}/{manifest.shard.of}" if manifest.shard else ""
    report(
        f"{_counted(manifest.requested, 'rollout')} of {_counted(manifest.tasks, 'task')}{share} "
        f"-> {shown(prepared.paths.output)}"
    )


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def _add_hint(error: PalestraError, hint: str) -> None:
    error.hint = "; ".join(filter(None, [error.hint, hint]))

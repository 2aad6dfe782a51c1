"""`collect`: run rows through agents, on a running fleet or on one inside this command."""

import math
import shlex
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self
from urllib.parse import urlsplit

import palestra
from palestra.api import FROZEN_AFTER_S, FleetChoice, OwnFleet, find, run_semantics, unless
from palestra.cli.console import masking, notice, say, warn_all
from palestra.cli.fleet_commands import OBSERVER
from palestra.cli.guard import tell_guard
from palestra.cli.loop import CommandStopped, run_to_end, to_its_end
from palestra.cli.tables import print_key_metrics
from palestra.cli.watching import Watch, watched, watching
from palestra.config import ConfigTree, ResolvedConfig, ServerType, is_secret_name
from palestra.errors import (
    ConfigError,
    Hopeless,
    Outcome,
    PalestraError,
    RunFailed,
    ServerDied,
    with_cause,
)
from palestra.fleet import LOOPBACK, raise_descriptor_limit
from palestra.rollouts import (
    AgentRoute,
    Collected,
    PreparedRun,
    begin,
    check_rows,
    discard,
    plan,
    record_afterwards,
    scored_keys,
)
from palestra.schema import (
    FAILURE_CLASS,
    FAILURE_TERMINAL,
    FailedAttempts,
    RunPaths,
    Unscored,
    own_hint,
    read_jsonl,
)
from palestra.settings import AUTO, COMMAND_SETTINGS, CollectArgs, CollectSettings, args_from, load
from palestra.system import shown
from palestra.transport import Target

RESERVE: Final = 256
"""Open files that rollouts do not use: listening sockets, logs, libraries, child processes."""


def files_per_rollout(targets: Collection[Target]) -> float:
    """Return how many sockets one rollout needs, in the process that needs most of them.

    In this process it is one: to the model's endpoint, or to the agent's process. A server process
    on this machine has the same limit and needs two: one to its caller, one to the server that it
    calls. Several workers of a server share them.
    """
    shares = [2 / len(t.urls) for t in targets if t.local is None and _is_here(t)]
    return max([1.0, *shares])


def _is_here(target: Target) -> bool:
    return any(urlsplit(url).hostname in LOOPBACK for url in target.urls)


def most_in_flight(targets: Collection[Target], limit: int) -> int:
    """Return how many rollouts can be in flight at once with at most `limit` open files."""
    return max(1, int((limit - RESERVE) / files_per_rollout(targets)))


def check_descriptors(
    settings: CollectSettings, remaining: int, targets: Collection[Target], limit: int
) -> str:
    """Return a warning when all rollouts at once need more than `limit` open files; else an empty
    text.

    Raises ConfigError: the concurrency that the user set needs more.
    """
    fits = most_in_flight(targets, limit)
    sockets_needed = min(remaining, settings.bound or remaining)
    if sockets_needed <= fits or settings.num_samples_in_parallel == AUTO:
        return ""
    needed = math.ceil(sockets_needed * files_per_rollout(targets)) + RESERVE
    short = (
        f"{sockets_needed} rollouts in flight need about {needed} open files in one process, and the "
        f"limit is {limit}"
    )
    ways = f"raise it (ulimit -Hn {needed}, as root or in limits.conf), or --concurrency {fits}"
    if settings.bound is not None:
        raise ConfigError(short, hint=ways)
    return f"{short}: some may fail with `Too many open files`; {ways}"


_NOT_OF_THE_VERIFIER = COMMAND_SETTINGS | {"head_server"}
_UNKNOWN = '"+config_paths=[…]"'


def verified_by(
    overrides: Sequence[str], secrets: Collection[str], environment: str | None = None
) -> str:
    """Return the arguments for `palestra reverify`: the run's own overrides that verifiers need.

    Secrets are left out, because the text is printed and stored. `environment`: the environment
    that the run evaluated.
    """
    environment_option = [] if environment is None else ["--environment", environment]
    kept_overrides = [item for item in overrides if _is_kept(item, secrets)]
    return shlex.join([*environment_option, *kept_overrides]) or _UNKNOWN


def _is_kept(override: str, secrets: Collection[str]) -> bool:
    path = override.lstrip("+~").partition("=")[0].split(".")
    if path[0] in _NOT_OF_THE_VERIFIER or any(map(is_secret_name, path)):
        return False
    return not any(secret in override for secret in secrets)


def collect(
    overrides: list[str],
    *,
    ng: bool,
    extra: ConfigTree | None = None,
    own_fleet: bool = False,
) -> int:
    """Collect rollouts according to the settings; exit 1 when coverage is below the minimum.

    `own_fleet`: always start a fleet, even when one is running.
    """
    config = load(overrides, ng=ng, extra=extra)
    warn_all(config.warnings)
    args = args_from(CollectArgs, config.tree)
    # The field's command starts afresh over existing outputs; they are moved aside.
    settings = replace(
        args.settings(config, overwrite=True if ng and not args.resume_from_cache else None),
        verified_by=verified_by(overrides, config.secrets),
    )
    with (
        watching(args.progress, args.json_events, lag_threshold_s=args.watchdog) as watch,
        masking(config.secrets),  # inside, so that the events too are told the masked error
    ):
        if own_fleet:
            main = collect_with(OwnFleet(config, OBSERVER), settings, watch)
        else:
            main = _collect(config, settings, watch)
        return stoppable(main, settings, watch)


def stoppable(main: Coroutine[Any, Any, int], settings: CollectSettings, watch: Watch) -> int:
    """Run a collection; when a signal stops it, print how to continue."""

    def give_up(stopped: CommandStopped) -> None:
        watch.say_accounting()
        watch.ended(_say_how_to_go_on(stopped, settings))
        watch.close()

    try:
        return watch.ended(run_to_end(main, last_words=give_up))
    except CommandStopped as stopped:
        return watch.ended(_say_how_to_go_on(stopped, settings))


def _say_how_to_go_on(stopped: CommandStopped, settings: CollectSettings) -> int:
    output = settings.output_jsonl_fpath
    if not output.exists():
        notice(f"stopped by {stopped.signal.name} before any rollout had ended")
        return stopped.exit_code
    notice(f"stopped by {stopped.signal.name}; what has ended is in {shown(output)}")
    notice(f"hint: {_how_to_go_on(settings)}")
    return stopped.exit_code


def _how_to_go_on(settings: CollectSettings) -> str:
    instead = ", without overwrite," if settings.overwrite else ""
    return (
        f"the same command with --output {shown(settings.output_jsonl_fpath)} --resume "
        f"(++resume_from_cache=true){instead} goes on from there"
    )


async def _collect(config: ResolvedConfig, settings: CollectSettings, watch: Watch) -> int:
    async with find(config, OBSERVER) as fleet:
        return await collect_with(fleet, settings, watch)


async def collect_with(
    choice: FleetChoice, settings: CollectSettings, watch: Watch, *, metrics: bool = True
) -> int:
    """Plan, reach the fleet, collect and report; return the exit code. `metrics`: print the key
    metrics.

    Errors in the rows or in an earlier run are reported before any server starts. Until the first
    rollout starts, no file of an earlier run is changed.
    """
    open_files = raise_descriptor_limit()
    agents = choice.config.instances_of(ServerType.AGENT)
    planning = partial(
        plan,
        settings,
        agents={agent.name for agent in agents},
        semantics=run_semantics(choice.config, settings),
        version=palestra.__version__,
    )
    planned = await to_its_end(planning, undo=discard)
    has_begun = False
    try:
        async with choice.open() as fleet:
            await check_rows(planned, fleet.client, map(AgentRoute.of, agents))
            targets = fleet.client.targets.values()
            if warning := check_descriptors(settings, planned.remaining, targets, open_files):
                notice(f"warning: {warning}")
            watch.most_in_flight = most_in_flight(targets, open_files)
            tell_guard(
                output=str(settings.output_jsonl_fpath),
                max_attempts=settings.max_attempts,
                verified_by=settings.verified_by,
                again=_how_to_go_on(settings),
                limit_s=settings.rollout_timeout + FROZEN_AFTER_S,
                events=watch.events_target,
            )
            has_begun = True  # from here on what is there can be continued, whoever stops us
            prepared = await to_its_end(partial(begin, planned))
            _introduce(prepared)
            try:
                collected = await unless(
                    fleet.watch(),
                    watched(prepared, settings, fleet.client, watch),
                    doubtful=lambda it: it.accounting.ended[Outcome.INFRA_ERROR] > 0,
                )
            except ServerDied as died:
                _record(died, settings)
                raise
            except Hopeless as hopeless:
                if settings.output_jsonl_fpath.exists():
                    _add_hint(hopeless, _how_to_go_on(settings))
                raise
    finally:
        if not has_begun:
            discard(planned)
    return report(collected, prepared, settings, metrics=metrics)


def _record(died: ServerDied, settings: CollectSettings) -> None:
    """Record the failed attempt whose call made the fleet end a server process."""
    if died.failure is not None:
        _add_hint(died, _how_to_go_on(settings))
        record_afterwards(
            settings.output_jsonl_fpath,
            died.failure,
            max_attempts=settings.max_attempts,
            elapsed_s=settings.rollout_timeout,
            verified_by=settings.verified_by,
        )


def _add_hint(error: PalestraError, hint: str) -> None:
    error.hint = "; ".join(filter(None, [error.hint, hint]))


def _introduce(prepared: PreparedRun) -> None:
    for text in prepared.notices:
        notice(text)
    manifest = prepared.manifest
    share = f", shard {manifest.shard.index}/{manifest.shard.of}" if manifest.shard else ""
    notice(
        f"{manifest.requested} rollouts of {manifest.tasks} tasks{share} "
        f"-> {shown(prepared.paths.output)}"
    )


def report(
    collected: Collected, prepared: PreparedRun, settings: CollectSettings, *, metrics: bool
) -> int:
    """Print the accounting, the key metrics and the paths of the files; return the exit code."""
    accounting = collected.accounting
    say(accounting.line())
    print_key_metrics(collected.metrics if metrics else ())
    if collected.aggregation_problem:
        notice(f"warning: no aggregate metrics: {collected.aggregation_problem}")
    for path in prepared.paths.recorded():
        if path.exists():
            say(f"  {shown(path)}")
    if collected.covered(settings.min_coverage):
        return 0
    failures = _Failures.of(prepared.paths)
    for kind, message in sorted(failures.messages.items()):
        notice(f"{kind}: {message}")
    error = RunFailed(
        f"coverage {accounting.coverage:.1%} is below the minimum of {settings.min_coverage:.1%}",
        hint=f"{shown(prepared.paths.failures)} says why, rollout by rollout; "
        + failures.unscored.what_helps(),
    )
    notice(f"error: {error.message}")
    notice(f"hint: {error.hint}")
    return error.exit_code


@dataclass(frozen=True, slots=True)
class _Failures:
    """A summary of a run's failures, with what the user can do about them."""

    messages: Mapping[str, str]
    """The first message of each failure class, with its hint and its cause."""
    unscored: Unscored
    """The rollouts without a reward, grouped by what would help them."""

    @classmethod
    def of(cls, paths: RunPaths) -> Self:
        first: dict[str, str] = {}
        attempts = FailedAttempts()
        for line in read_jsonl(paths.failures) if paths.failures.exists() else ():
            attempts.note(line.row)
            if not line.row.get(FAILURE_TERMINAL):
                continue  # another attempt followed, and has the last word
            hint = own_hint(str(line.row.get("hint") or ""))
            message = str(line.row["message"]) + (f" ({hint})" if hint else "")
            marked = with_cause(message, line.row.get("cause"))
            first.setdefault(str(line.row[FAILURE_CLASS]), marked)
        return cls(first, attempts.unscored(scored=scored_keys(paths.output)))

"""`collect`: run rows through agents, on a running fleet or on one inside this command."""

import shlex
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, Self

from palestra import api
from palestra.analysis import advice_about, amount
from palestra.api import FleetChoice, OwnFleet, find, how_to_continue, verified_by, with_file_rows
from palestra.cli.console import (
    command_line,
    in_words_called,
    masking,
    notice,
    say,
    say_json,
    show_error,
    warn_all,
)
from palestra.cli.fleet_commands import OBSERVER, refuse_bad_values
from palestra.cli.guard import tell_guard
from palestra.cli.loop import CommandStopped, run_to_end
from palestra.cli.profiling_commands import A_ROLLOUT, LOWEST
from palestra.cli.tables import MOST_MESSAGES, print_key_metrics
from palestra.cli.watching import Watch, watched, watching
from palestra.config import ConfigTree, ResolvedConfig
from palestra.errors import ConfigError, RunFailed, with_cause
from palestra.fleet import NoFleet
from palestra.programs import command_words, takes_overrides, typed_program
from palestra.rollouts import (
    Collected,
    PreparedRun,
    discard_new_inputs,
    refuse_events_in,
    scored_keys,
)
from palestra.schema import (
    FAILURE_CLASS,
    FAILURE_TERMINAL,
    ROLLOUT_INDEX,
    TASK_INDEX,
    FailedAttempts,
    JsonObject,
    RolloutKey,
    RunPaths,
    Unscored,
    failure_kind,
    own_hint,
    read_jsonl,
)
from palestra.settings import CollectArgs, CollectSettings, ModelArgs, args_from, load
from palestra.system import shown
from palestra.transport import RetryCount, ServerClient

RESUME_OVERRIDES: Final = "++output_jsonl_fpath={} ++resume_from_cache=true"
FleetToUse = Literal["found", "own", "running"]
"""Which servers a collection uses."""


def collect(
    overrides: list[str],
    *,
    ng: bool,
    extra: ConfigTree | None = None,
    models: ModelArgs | None = None,
    fleet: FleetToUse = "found",
    as_json: bool = False,
) -> int:
    """Collect rollouts according to the settings; exit 1 when coverage is below the minimum.

    `as_json`: print the run as one JSON document in the end. `models`: the flags that name the
    models; None: the program has none.
    `fleet`: the running fleet, else one of this command (`found`); always one of this command
    (`own`); always the running one (`running`). Raises NoFleet: none is running, and `running` is
    asked for.
    """
    config = load(overrides, ng=ng, extra=extra)
    warn_all(config.warnings)
    if ng and fleet == "own":
        refuse_bad_values(config)
    args = args_from(CollectArgs, config.tree)
    if as_json:
        check_events_target(args.json_events)
    # The field's command starts afresh over existing outputs; they are moved aside.
    settings = replace(
        args.settings(config, overwrite=True if ng and not args.resume_from_cache else None),
        verified_by=verified_by(overrides, config, models=models),
        reverify_words=command_words("reverify", typed_program()),
        command=command_line(config.secrets),
    )
    if takes_overrides(typed_program()):
        settings = replace(settings, resume_words=RESUME_OVERRIDES)
    refuse_events_in(RunPaths(settings.output_jsonl_fpath), args.json_events)
    settings = with_file_rows(settings, config, notice)
    with (
        watching(args.progress, args.json_events, lag_threshold_s=args.watchdog) as watch,
        masking(config.secrets),  # inside, so that the events too are told the masked error
    ):
        if fleet == "own":
            main = collect_with(OwnFleet(config, OBSERVER), settings, watch)
        else:
            main = _collect(config, settings, watch, must_run=fleet == "running", ng=ng)
        code = stoppable(main, settings, watch)
    if as_json and code in {0, RunFailed.exit_code}:
        say_json(api.open_run(settings.output_jsonl_fpath).to_dict())
    return code


def check_events_target(json_events: str | None) -> None:
    """Raise ConfigError: the events and the JSON document would both go to standard output."""
    if json_events == "-":
        raise ConfigError(
            "--json and --json-events - cannot be combined: both print on stdout",
            hint="write the events to a file: --json-events FILE",
        )


def stoppable(main: Coroutine[Any, Any, int], settings: CollectSettings, watch: Watch) -> int:
    """Run a collection; when a signal stops it, print how to continue."""

    def give_up(stopped: CommandStopped) -> None:
        watch.say_accounting()
        watch.ended(_say_how_to_go_on(stopped, settings, watch))
        watch.close()
        discard_new_inputs(settings.output_jsonl_fpath)

    try:
        return watch.ended(run_to_end(main, last_words=give_up))
    except CommandStopped as stopped:
        return watch.ended(_say_how_to_go_on(stopped, settings, watch))


def _say_how_to_go_on(stopped: CommandStopped, settings: CollectSettings, watch: Watch) -> int:
    output = settings.output_jsonl_fpath
    if output.exists():
        notice(f"stopped by {stopped.signal.name}; the rollouts that ended are in {shown(output)}")
        notice(f"hint: {how_to_continue(settings)}")
    elif watch.accounting is None:
        notice(f"stopped by {stopped.signal.name} while it was starting: nothing is kept")
    else:
        notice(f"stopped by {stopped.signal.name} before any rollout had ended: nothing is kept")
        notice("hint: the same command begins it anew")
    return stopped.exit_code


async def _collect(
    config: ResolvedConfig, settings: CollectSettings, watch: Watch, *, must_run: bool, ng: bool
) -> int:
    async with find(config, OBSERVER) as fleet:
        if must_run and isinstance(fleet, OwnFleet):
            raise NoFleet(
                "the servers of the configuration are not running",
                hint="start the servers with `palestra run`, or leave --no-serve out",
            )
        if ng and isinstance(fleet, OwnFleet):
            refuse_bad_values(config)
        return await collect_with(fleet, settings, watch)


async def collect_with(
    choice: FleetChoice, settings: CollectSettings, watch: Watch, *, metrics: bool = True
) -> int:
    """Collect, show the collection, and print how it ended; return the exit code. `metrics`: print
    the key metrics.
    """
    retries = RetryCount()

    async def run(
        prepared: PreparedRun, settings: CollectSettings, client: ServerClient, most_rollouts: int
    ) -> Collected:
        nonlocal retries
        watch.most_in_flight, retries = most_rollouts, client.retries
        return await watched(prepared, settings, client, watch)

    observer = replace(OBSERVER, note=partial(tell_guard, events=watch.events_target))
    collected, prepared = await api.collect_with(choice, settings, run, observer)
    if retries.retries:
        notice(f"{amount(retries.retries, 'request')} retried, the last: {retries.last_reason}")
    return report(collected, prepared, settings, metrics=metrics)


def report(
    collected: Collected, prepared: PreparedRun, settings: CollectSettings, *, metrics: bool
) -> int:
    """Print the accounting, the key metrics, the paths of the files and a rollout to look at; return
    the exit code.
    """
    accounting = collected.accounting
    say(accounting.line())
    print_key_metrics(collected.metrics if metrics else (), prepared.paths.materialized_inputs)
    if collected.aggregation_problem:
        notice(f"warning: no aggregate metrics: {collected.aggregation_problem}")
    for path in prepared.paths.recorded():
        if path.exists():
            say(f"  {shown(path)}")
    if collected.covered(settings.min_coverage):
        if metrics and accounting.lowest is not None:
            output = shlex.quote(shown(prepared.paths.output))
            what = LOWEST if accounting.lowest_reward < accounting.highest_reward else A_ROLLOUT
            say(f"{what}: palestra show {output} {accounting.lowest}")
        return 0
    failures = _Failures.of(prepared.paths)
    mask = api.secret_mask()
    for failure_class, messages in sorted(failures.messages.items()):
        for message in messages[:MOST_MESSAGES]:
            notice(mask(f"{failure_class}: {message}"))
        if others := messages[MOST_MESSAGES:]:
            notice(f"{failure_class}: and {amount(len(others), 'other message')}")
    advice = map(advice_about(prepared.paths.output), failures.unscored.advice())
    error = RunFailed(
        f"coverage {accounting.coverage:.1%} is below the minimum of {settings.min_coverage:.1%}",
        # One line each: a command may be as long as a line.
        hint="\n  ".join((failures.where(prepared.paths), *advice)),
    )
    return show_error(error)


@dataclass(frozen=True, slots=True)
class _Failures:
    """A summary of a run's failures, with what the user can do about them."""

    messages: Mapping[str, Sequence[str]]
    """Of each failure class, one message of each kind, with its hint and its cause. The most
    frequent is first."""
    unscored: Unscored
    """The rollouts without a reward, grouped by what would help them."""
    key: str = ""
    """The first failed rollout, as `palestra show` takes it."""

    def where(self, paths: RunPaths) -> str:
        """Return the command that shows the first failed rollout, and the file that has all."""
        file = f"{shown(paths.failures)} has the reason of each failed rollout"
        if not self.key:
            return file
        return (
            f"palestra show {shown(paths.output)} {self.key} shows the first failed rollout, {file}"
        )

    @classmethod
    def of(cls, paths: RunPaths) -> Self:
        first: dict[tuple[str, str, str], str] = {}
        counts: Counter[tuple[str, str, str]] = Counter()
        keys: list[RolloutKey] = []
        attempts = FailedAttempts()
        for line in read_jsonl(paths.failures) if paths.failures.exists() else ():
            attempts.note(line.row)
            if not line.row.get(FAILURE_TERMINAL):
                continue  # another attempt followed, and has the last word
            keys.append(RolloutKey(line.row[TASK_INDEX], line.row[ROLLOUT_INDEX]))
            hint = own_hint(str(line.row.get("hint") or ""))
            message, cause = str(line.row["message"]), line.row.get("cause")
            kind = failure_kind(str(line.row[FAILURE_CLASS]), str(cause or ""), message)
            counts[kind] += 1
            marked = with_cause(message + (f" ({in_words_called(hint)})" if hint else ""), cause)
            first.setdefault(kind, _way_to(line.row) + marked)
        messages: dict[str, list[str]] = {}
        for kind, _ in counts.most_common():
            messages.setdefault(kind[0], []).append(first[kind])
        scored = scored_keys(paths.output)
        # The same one as after the table, which is in the order of the tasks.
        key = min((key for key in keys if key not in scored), default="")
        return cls(messages, attempts.unscored(scored=scored), str(key))


def _way_to(row: JsonObject) -> str:
    """Return the servers of a call that failed below a verification, as `agent/run > env/verify >
    judge/v1/responses: `; else nothing. Their message may only have the URL of an endpoint, which
    the judge can share with the model.
    """
    from palestra.causes import chain

    servers = chain(row.get("hops") or [])
    return f"{servers}: " if "/verify > " in servers else ""

"""`reverify`: today's verifiers over stored responses, inside this command and without a model."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

import palestra
from palestra.cli.console import notice, say, shown, warn_all
from palestra.cli.evaluating import find_target
from palestra.cli.guard import FROZEN_AFTER_S, tell_guard
from palestra.cli.loop import CommandStopped, run_to_end
from palestra.cli.meaning import servers_meaning
from palestra.cli.reaching import OwnFleet, Reachable, unless
from palestra.cli.tables import print_table
from palestra.config import InstanceConfig, ResolvedConfig, ServerType, nearest
from palestra.engine import truncated_and_empty
from palestra.errors import ConfigError, Outcome, RunFailed, ServerDied
from palestra.rollouts import Progress
from palestra.rollouts.reverification import (
    Checked,
    FoundTaskRows,
    Origin,
    Reverification,
    ReverifyLimits,
    ReverifyPaths,
    Routes,
    StoredRollouts,
    TaskRows,
    UnverifiedAnswers,
    Verifier,
    begin,
    check_modes,
    check_places,
    failures_beside,
    holds_failures,
    record_stopped,
    scored_beside,
    stopped_rows,
)
from palestra.schema import RunPaths, read_jsonl
from palestra.settings import EvalArgs, ReverifyArgs, existing_path, load

SAY_EVERY_S = 5.0


def reverify(args: ReverifyArgs, overrides: list[str]) -> int:
    """Verify stored rows again; exit 1 when some could not be."""
    paths = ReverifyPaths(args.output.absolute())
    try:
        with contextlib.ExitStack() as stack:
            work = _prepare(args, overrides, paths, stack)
            result = run_to_end(_run(work))
    except CommandStopped as stopped:
        notice(f"stopped by {stopped.signal.name}")
        if paths.partial.exists():
            notice(f"hint: what is done is in {_how_to_go_on(paths)}")
        return stopped.exit_code
    return _report(result, args, paths)


def _how_to_go_on(paths: ReverifyPaths) -> str:
    return f"{shown(paths.partial)}; --resume goes on from there"


# Deciding


@dataclass(frozen=True, slots=True)
class _Work:
    """All that can be known before a server is started."""

    args: ReverifyArgs
    paths: ReverifyPaths
    config: ResolvedConfig
    """Of the servers that are needed, and no others."""
    stored: StoredRollouts
    checked: Checked
    tasks: TaskRows | FoundTaskRows


def _prepare(
    args: ReverifyArgs, overrides: list[str], paths: ReverifyPaths, stack: contextlib.ExitStack
) -> _Work:
    unverified = _unverified(args)
    failures = None if unverified is None else unverified.path
    sources = [path for path in (args.rollouts, args.inputs, failures) if path is not None]
    check_places(paths, sources, overwrite=args.overwrite, resume=args.resume)
    extra, wanted = _environment(args, overrides)
    config = load(overrides, ng=False, extra=extra, required=())
    warn_all(config.warnings)
    tasks = _tasks(args, config)
    stack.enter_context(tasks)
    stored = StoredRollouts(
        args.rollouts,
        _routes(config, wanted),
        limit=args.limit,
        tasks=tasks,
        unverified=unverified,
    )
    checked = stored.check()
    for text in (*checked.notices, *_taken_from(tasks)):
        notice(text)
    # Of a row whose verification failed no judge's answer is stored.
    models = args.fresh_judge or unverified is not None
    names = _needed(config, checked.servers, models=models)
    # Now that they are known, what these servers lack is an error.
    config = _only(load(overrides, ng=False, extra=extra, required=names), names)
    return _Work(args, paths, config, stored, checked, tasks)


def _unverified(args: ReverifyArgs) -> UnverifiedAnswers | None:
    """The answers that are to be verified besides scored rows; says which there are."""
    if holds_failures(args.rollouts):
        found = UnverifiedAnswers.found_in(args.rollouts, scored=scored_beside(args.rollouts))
        if len(found):
            notice(f"{shown(args.rollouts)}: {found.told()}")
        return found if len(found) else None
    path = failures_beside(args.rollouts)
    if not path.is_file():
        return None
    found = UnverifiedAnswers.found_in(path, scored=args.rollouts)
    if not len(found):
        return None
    more = "" if args.with_failures else "; --with-failures verifies those, too"
    notice(f"{shown(path.absolute())}: {found.told()}{more}")
    return found if args.with_failures else None


def _tasks(args: ReverifyArgs, config: ResolvedConfig) -> TaskRows | FoundTaskRows:
    """The task rows that were named, else those that lie where such rows do.

    That is: the run's own inputs, the example rows in the same folder, as the folder of an
    environment's data has them, and the example rows of the configured environments.
    """
    if args.inputs is not None:
        return TaskRows(args.inputs)
    own = RunPaths(scored_beside(args.rollouts) or args.rollouts).materialized_inputs
    shipped = [
        existing_path(str(dataset["jsonl_fpath"]))
        for agent in config.instances_of(ServerType.AGENT)
        for dataset in agent.datasets
        if dataset.get("type") == "example" and dataset.get("jsonl_fpath")
    ]
    beside = args.rollouts.with_name("example.jsonl")
    others = [path for path in (beside, *shipped) if path.absolute() != args.rollouts.absolute()]
    return FoundTaskRows(own, others)


def _taken_from(tasks: TaskRows | FoundTaskRows) -> Iterator[str]:
    if isinstance(tasks, FoundTaskRows):
        for path in tasks.used():
            yield f"what rollouts lack of their tasks is taken from {shown(path.absolute())}"


def _environment(args: ReverifyArgs, overrides: list[str]) -> tuple[dict[str, Any], str | None]:
    """Settings that bring the environment, and its name when it is to verify every row."""
    given = args.environment
    if given is None or any("config_paths" in item for item in overrides):
        return {}, given
    target = find_target(EvalArgs(target=given), overrides)
    name = None if given.endswith((".yaml", ".yml")) else next(iter(target.extra), target.name)
    return {**target.extra, "config_paths": list(target.configs)}, name


def _routes(config: ResolvedConfig, wanted: str | None) -> Routes:
    """Which resources server verifies which rows. Raises ConfigError when there is none."""
    servers = config.instances_of(ServerType.RESOURCES)
    if not servers:
        raise ConfigError(
            "no environment is configured, so nothing can verify",
            hint='--environment NAME, or "+config_paths=[…]" with the environment\'s config',
        )
    if wanted is not None:
        return Routes({}, _named(wanted, servers))
    return Routes(
        {
            agent.name: name
            for agent in config.instances_of(ServerType.AGENT)
            if (name := _environment_of(agent)) in config.instances
        },
        servers[0].name if len(servers) == 1 else None,
    )


def _named(wanted: str, servers: Sequence[InstanceConfig]) -> str:
    """The instance of that name, else the only one of that folder."""
    names = [server.name for server in servers]
    of_folder = [server.name for server in servers if server.implementation == wanted]
    if wanted in names:
        return wanted
    if len(of_folder) == 1:
        return of_folder[0]
    near = nearest(wanted, names)
    meant = f"; did you mean {near!r}?" if near else ""
    raise ConfigError(
        f"there is no environment {wanted!r} in the configuration{meant}",
        hint=f"environments: {', '.join(names)}",
    )


def _environment_of(agent: InstanceConfig) -> str:
    """The resources server that an agent refers to; empty when it refers to none."""
    own = agent.settings.get("resources_server")
    if isinstance(own, Mapping):
        return str(own.get("name"))
    return next(iter(agent.referenced(ServerType.RESOURCES)), "")


def _needed(config: ResolvedConfig, servers: Iterable[str], *, models: bool) -> frozenset[str]:
    """`servers` and what they refer to; `models` says whether judges are among that."""
    needed: set[str] = set()
    left = list(servers)
    while left:
        name = left.pop()
        if name in needed:
            continue
        needed.add(name)
        refs = config.instance(name).refs
        left += [
            ref.name
            for ref in refs
            if ref.type != ServerType.MODEL or (models and ref.name in config.instances)
        ]
    return frozenset(needed)


def _only(config: ResolvedConfig, names: Collection[str]) -> ResolvedConfig:
    """The configuration without the other instances, which may not even be whole."""
    left_out = config.instances.keys() - set(names)
    return ResolvedConfig(
        tree={key: value for key, value in config.tree.items() if key not in left_out},
        instances={name: config.instances[name] for name in config.instances if name in names},
        sources=config.sources,
        warnings=config.warnings,
    )


# Doing


async def _run(work: _Work) -> Mapping[str, Any]:
    async with _fleet(work) as fleet:
        args = work.args
        sessions = await check_modes(fleet.client, work.checked.servers, force=args.force)
        if sessions.forced:
            notice(
                f"warning: {', '.join(sorted(sessions.forced))}: --force verifies without the live session; "
                "the rewards may not be those of the rollouts"
            )
        origin = _origin(work)
        with begin(work.paths, origin, resume=args.resume, version=palestra.__version__) as begun:
            for text in begun.notices:
                notice(text)
            if begun.finished is not None:
                notice(f"{shown(work.paths.output)} is complete already")
                return begun.finished
            tell_guard(
                reverified=str(work.paths.output),
                again=f"what is done is in {_how_to_go_on(work.paths)}",
                limit_s=args.timeout_s + FROZEN_AFTER_S,
            )
            reverification = Reverification(
                rows=lambda: work.stored.rows(work.checked.rows),
                origin=origin,
                partial=begun.partial,
                version=palestra.__version__,
                limits=ReverifyLimits(args.concurrency, args.timeout_s),
            )
            verifier = Verifier(
                fleet.client,
                sessions=sessions,
                fresh_judge=args.fresh_judge,
                timeout_s=args.timeout_s,
                stopped=stopped_rows(work.paths.output),
            )
            try:
                return await unless(fleet.watch(), _watched(reverification, verifier))
            except ServerDied as died:
                if died.failure is not None:
                    record_stopped(work.paths.output, died.failure)
                    where = f"what is done is in {_how_to_go_on(work.paths)}"
                    died.hint = "; ".join(filter(None, [died.hint, where]))
                raise


@contextlib.asynccontextmanager
async def _fleet(work: _Work) -> AsyncIterator[Reachable]:
    """The servers, in this process whatever else runs: those have yesterday's verifiers."""
    # What a program is to read from standard output is the result alone.
    quiet = (
        contextlib.redirect_stdout(sys.stderr) if work.args.as_json else contextlib.nullcontext()
    )
    async with contextlib.AsyncExitStack() as stack:
        with quiet:
            fleet = await stack.enter_async_context(OwnFleet(work.config).open())
        yield fleet


def _origin(work: _Work) -> Origin:
    return Origin(
        rollouts=work.checked.digest,
        rows=work.checked.rows,
        inputs=work.tasks.digest,
        verifiers=servers_meaning(work.config),
        judge="fresh" if work.args.fresh_judge else "replayed",
    )


async def _watched(work: Reverification, verifier: Verifier) -> dict[str, Any]:
    """Run it, with a line now and then that says how far it is."""
    showing: list[asyncio.Task[None]] = []
    try:
        return await work.run(
            verifier, on_start=lambda p: showing.append(asyncio.create_task(_show(p)))
        )
    finally:
        for task in showing:
            task.cancel()
        await asyncio.gather(*showing, return_exceptions=True)


async def _show(progress: Progress) -> None:
    while True:
        await asyncio.sleep(SAY_EVERY_S)
        notice(_describe(progress))


def _describe(progress: Progress) -> str:
    accounting = progress.accounting
    done = accounting.scored + accounting.failed
    rate = (done - progress.done_before) / max(time.monotonic() - progress.started, 1e-6)
    left = f", {accounting.remaining / rate:.0f} s left" if rate > 0 else ""
    return (
        f"{done}/{accounting.requested} rows, {accounting.failed} failed, {rate:.0f} rows/s{left}"
    )


# Telling


def _report(result: Mapping[str, Any], args: ReverifyArgs, paths: ReverifyPaths) -> int:
    """The accounting, the table of changes, the files; the exit code."""
    failed: dict[str, int] = result["failed"]
    if args.as_json:
        say(orjson.dumps(result, option=orjson.OPT_INDENT_2).decode())
    else:
        _show_changes(result)
        for path in paths.all():
            if path.exists():
                say(f"  {shown(path)}")
    if not failed:
        return 0
    kinds = ", ".join(f"{kind} {count}" for kind, count in failed.items())
    notice(
        f"error: {sum(failed.values())} of {result['rows']} rows could not be verified ({kinds}); "
        f"the first: {_first_failure(paths.failures)}"
    )
    notice(f"hint: {_failure_hint(failed, args)}")
    return RunFailed.exit_code


def _show_changes(result: Mapping[str, Any]) -> None:
    failed = sum(result["failed"].values())
    marks = truncated_and_empty(result["truncated"], result["empty_answers"])
    say(f"{result['rows']} rows = {result['verified']} verified{marks} + {failed} failed")
    counts = ("rows", "unchanged", "changed", "no_previous", "failed")
    environments: Mapping[str, Mapping[str, Any]] = result["environments"]
    print_table(
        ("environment", "rows", "unchanged", "changed", "no previous", "failed", "mean reward"),
        [
            (name, *(found[count] for count in counts), _means(found))
            for name, found in environments.items()
        ],
        right="rows,unchanged,changed,no previous,failed,mean reward",
    )
    pairs = [
        (name, f"{pair['before']:g} -> {pair['after']:g}", pair["rows"])
        for name, found in environments.items()
        for pair in found["pairs"]
    ]
    pairs += [
        (name, "other", found["other_pairs"])
        for name, found in environments.items()
        if found["other_pairs"]
    ]
    if pairs:
        print_table(("environment", "reward", "rows"), pairs, right="rows")
        print_table(
            ("first changed rows", "reward"),
            [
                (change["place"], f"{change['before']:g} -> {change['after']:g}")
                for change in result["first_changed"]
            ],
        )


def _means(found: Mapping[str, Any]) -> str:
    """Old and new mean over the rows that have both; else the new one."""
    if found["mean_before"] is None:
        return "-" if found["mean_reward"] is None else f"{found['mean_reward']:.4g}"
    return f"{found['mean_before']:.4g} -> {found['mean_after']:.4g}"


def _first_failure(failures: Path) -> str:
    line = next(read_jsonl(failures), None)
    return "" if line is None else f"line {line.row['line']}: {line.row['message']}"


def _failure_hint(failed: Mapping[str, int], args: ReverifyArgs) -> str:
    if Outcome.DATA_ERROR in failed and args.inputs is None:
        return (
            "--inputs FILE adds the fields of the task rows, if those are what the verifier misses"
        )
    if Outcome.JUDGE_ERROR in failed and not args.fresh_judge:
        return "--fresh-judge asks the judge anew, instead of replaying what the rows hold"
    return "the failures file says why, row by row; --overwrite starts again once it is mended"

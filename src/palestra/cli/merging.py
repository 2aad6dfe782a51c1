"""`merge` and `ng_aggregate_rollouts`: merge the shards of a run, and compute metrics of the whole."""

import contextlib
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from palestra.api import FleetChoice, OwnFleet, find, open_run
from palestra.cli.console import in_words_called, notice, say, say_json, warn_all
from palestra.cli.fleet_commands import OBSERVER
from palestra.cli.loop import CommandStopped, run_to_end
from palestra.cli.tables import print_key_metrics
from palestra.config import ResolvedConfig
from palestra.errors import PalestraError
from palestra.rollouts import MergePlan, RunSize, aggregate, merge
from palestra.schema import JsonDict, RunPaths
from palestra.settings import AggregateArgs, MergeArgs, args_from, load
from palestra.system import shown


def ask_agents(
    config: ResolvedConfig, output: Path, destination: Path, *, own_fleet: bool = False
) -> None:
    """Get the metrics of the rollouts in `output` from their agents; write them to `destination`
    and print them.

    Uses the running fleet, unless `own_fleet` is set or none runs: then a fleet is started from the
    configuration, and stopped afterwards.
    """

    async def ask() -> list[JsonDict]:
        async with contextlib.AsyncExitStack() as stack:
            choice: FleetChoice = OwnFleet(config, OBSERVER)
            if not own_fleet:
                choice = await stack.enter_async_context(find(config, OBSERVER))
            # Metrics are of answers that are there already: no model is needed, it may be gone.
            fleet = await stack.enter_async_context(choice.open(models=False))
            return await aggregate(fleet.client, output, destination)

    try:
        metrics = run_to_end(ask())
    except CommandStopped as stopped:
        notice(f"stopped by {stopped.signal.name}; the earlier files at the output are unchanged")
        raise SystemExit(stopped.exit_code) from None
    print_key_metrics(metrics, RunPaths(output).materialized_inputs)


_OVERRIDE = re.compile(r"(\+\+?|~)|[A-Za-z_][\w.@/]*=")


def merge_arguments(args: MergeArgs) -> int:
    """Merge shards; also compute metrics, when a fleet runs or a configuration is given.

    `args.shards` may also contain overrides of the configuration.
    """
    overrides = [item for item in args.shards if _is_override(item)]
    config = load(overrides, ng=False, require_all=bool(overrides))
    warn_all(config.warnings)
    code = merge_shards(
        config,
        args.output,
        [item for item in args.shards if item not in overrides],
        allow_partial=args.allow_partial,
        overwrite=args.overwrite,
    )
    if args.as_json:
        say_json(open_run(args.output).to_dict())
    return code


def merge_shards(
    config: ResolvedConfig,
    output: Path,
    shards: Sequence[str],
    *,
    allow_partial: bool,
    overwrite: bool,
    run_size: RunSize | None = None,
    own_fleet: bool = False,
) -> int:
    """Merge `shards` into `output`, and get the metrics from their agents where these are
    reachable.

    `run_size`: the size of the run; default: the size that all shards name. `own_fleet`: do not use a
    running fleet.
    """
    plan = merge(
        output,
        shards,
        allow_partial=allow_partial,
        overwrite=overwrite,
        run_size=run_size,
        report=notice,
    )
    if plan.accounting.scored:
        metrics = plan.paths.aggregate_metrics
        try:
            ask_agents(config, plan.paths.output, metrics, own_fleet=own_fleet)
        except PalestraError as error:
            notice(f"no aggregate metrics: {error.message}")
            hint = (
                "the agents compute these metrics: start the agents with `palestra run`, or pass "
                "their --config, and run the same command again; `palestra profile` does not "
                "need them"
            )
            notice(f"hint: {in_words_called(hint)}")
    _report(plan)
    return 0


def aggregate_rollouts(overrides: list[str]) -> int:
    """Merge the files that `input_glob` matches, and get the metrics of the whole from the agents."""
    config = load(overrides, ng=True)
    warn_all(config.warnings)
    args = args_from(AggregateArgs, config.tree)
    output, partial = Path(args.output_jsonl_fpath), args.allow_partial_rollouts
    metrics = RunPaths(output).aggregate_metrics
    if args.merge_shards:
        # As the field's commands do: what was there is kept as .bak.
        plan = merge(output, args.shards, allow_partial=partial, overwrite=True, report=notice)
        ask_agents(config, output, metrics)
        _report(plan)
        return 0
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".merging-", dir=output.parent) as aside:
        merged_file = Path(aside) / output.name
        plan = merge(merged_file, args.shards, allow_partial=partial, report=notice)
        ask_agents(config, merged_file, metrics)
    say(plan.accounting.line())
    say(f"  {shown(metrics)}")
    return 0


def _report(plan: MergePlan) -> None:
    say(plan.accounting.line())
    if not plan.completeness.complete:
        say(str(plan.completeness))
    for path in plan.paths.recorded():
        if path.exists():
            say(f"  {shown(path)}")


def _is_override(argument: str) -> bool:
    """Whether an argument is an override rather than a shard. The path of an existing file is a
    shard.
    """
    return _OVERRIDE.match(argument) is not None and not Path(argument).exists()

"""`eval`: run fleet, collection and profile in one process, from the name of an environment."""

from dataclasses import replace

from palestra.api import Evaluation, OwnFleet, open_run, prepare_evaluation
from palestra.cli.collecting import check_events_target, collect_with, stoppable
from palestra.cli.console import command_line, masking, notice, say, say_json
from palestra.cli.fleet_commands import OBSERVER
from palestra.cli.profiling_commands import profile_files
from palestra.cli.watching import watching
from palestra.rollouts import refuse_events_in
from palestra.schema import RunPaths
from palestra.settings import EvalArgs


def evaluate(args: EvalArgs, overrides: list[str]) -> int:
    """Run one environment against one model, and profile the rollouts."""
    if args.as_json:
        check_events_target(args.collecting.get("json_events"))
    with prepare_evaluation(args, overrides, notice) as evaluation:
        return _evaluate(evaluation, args)


def _evaluate(evaluation: Evaluation, args: EvalArgs) -> int:
    config, collecting = evaluation.config, evaluation.collecting
    settings = replace(evaluation.settings, command=command_line(config.secrets))
    refuse_events_in(RunPaths(settings.output_jsonl_fpath), collecting.json_events)
    with (
        watching(
            collecting.progress, collecting.json_events, lag_threshold_s=collecting.watchdog
        ) as watch,
        masking(config.secrets),
    ):
        main = collect_with(OwnFleet(config, OBSERVER), settings, watch, metrics=False)
        code = stoppable(main, settings, watch)
    if code not in {0, 1}:
        return code
    say()
    output = settings.output_jsonl_fpath
    group_by = args.group_by or evaluation.group_by
    # Without a row, as with --limit 0, there is nothing to profile.
    if output.exists() and RunPaths(output).materialized_inputs.stat().st_size:
        profile_files(None, output, allow_partial=True, group_by=group_by, allow_ungrouped=True)
    if args.as_json:
        say_json(open_run(output).to_dict())
    return code

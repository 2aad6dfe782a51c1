"""`reverify`: run today's verifiers over stored responses, inside this command and without a model."""

from collections.abc import Mapping
from pathlib import Path

from palestra.analysis import amount
from palestra.api import Reverified, own_overrides, prepared_reverification
from palestra.cli.console import notice, say, say_json
from palestra.cli.fleet_commands import OBSERVER
from palestra.cli.loop import CommandStopped, run_to_end
from palestra.cli.tables import print_table
from palestra.engine import truncated_and_empty
from palestra.errors import Outcome, RunFailed
from palestra.rollouts import ReverifyPaths, failures_beside, holds_failures
from palestra.schema import JsonObject, read_jsonl
from palestra.settings import JUDGE_OPTION, ReverifyArgs
from palestra.system import shown


def reverify(args: ReverifyArgs, overrides: list[str]) -> int:
    """Verify stored rows again; exit 1 when some rows could not be verified."""
    code, reverified = reverify_rows(args, overrides)
    if args.as_json and reverified is not None:
        say_json(reverified.to_dict())
    return code


def reverify_rows(args: ReverifyArgs, overrides: list[str]) -> tuple[int, Reverified | None]:
    """Verify stored rows again, and print how it went.

    Return the exit code, and the result: None when a signal stopped the command.
    """
    overrides = [*overrides, *own_overrides(args.environment, args.own_settings, overrides)]
    with prepared_reverification(args, overrides, OBSERVER) as prepared:
        try:
            result = run_to_end(prepared.run())
        except CommandStopped as stopped:
            notice(f"stopped by {stopped.signal.name}")
            if prepared.paths.partial.exists():
                notice(f"hint: {prepared.how_to_continue}")
            return stopped.exit_code, None
    code = _report(result, prepared.args, prepared.paths)
    return code, Reverified(prepared.paths.output, result)


def _report(result: JsonObject, args: ReverifyArgs, paths: ReverifyPaths) -> int:
    """Print the accounting, the table of changes and the files; return the exit code."""
    failed: dict[str, int] = result["failed"]
    if not args.as_json:
        _show_changes(result)
        for path in paths.all():
            if path.exists():
                say(f"  {shown(path)}")
    # The result of a finished re-verification may have been written before there was this count.
    if differing := result.get("conversation_differs"):
        notice(
            f"warning: in {amount(differing, 'row')} the user or a tool says something else now than "
            f"the model saw, or the conversation ends elsewhere (first: {result['first_conversation_differs']}): "
            "their rewards are of the old conversation; only new rollouts have the new one"
        )
    if not failed:
        return 0
    kinds = ", ".join(f"{kind} {count}" for kind, count in failed.items())
    notice(
        f"error: {sum(failed.values())} of {result['rows']} rows could not be verified ({kinds}); "
        f"the first: {_first_failure(paths.failures, args.rollouts)}"
    )
    notice(f"hint: {_failure_hint(failed, args)}")
    return RunFailed.exit_code


def _show_changes(result: JsonObject) -> None:
    failed = sum(result["failed"].values())
    marks = truncated_and_empty(result["truncated"], result["empty_answers"])
    say(f"{result['rows']} rows = {result['verified']} verified{marks} + {failed} failed")
    counts = ("rows", "unchanged", "changed", "no_previous", "failed")
    environments: Mapping[str, JsonObject] = result["environments"]
    print_table(
        ("environment", "rows", "unchanged", "changed", "no previous", "failed", "mean reward"),
        [
            (name, *(changes[count] for count in counts), _means(changes))
            for name, changes in environments.items()
        ],
        right="rows,unchanged,changed,no previous,failed,mean reward",
    )
    for name, changes in environments.items():
        if changes["no_previous"] and changes["mean_before"] is not None:
            say(f"{name}: {_two_means(changes)}")
    pairs = [
        (name, f"{pair['before']:g} -> {pair['after']:g}", pair["rows"])
        for name, changes in environments.items()
        for pair in changes["pairs"]
    ]
    pairs += [
        (name, "other", changes["other_pairs"])
        for name, changes in environments.items()
        if changes["other_pairs"]
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


def _means(changes: JsonObject) -> str:
    """Return the old and the new mean reward, over rows that have both; without old rewards, the
    new mean.
    """
    if changes["mean_before"] is None:
        return "-" if changes["mean_reward"] is None else f"{changes['mean_reward']:.4g}"
    return f"{changes['mean_before']:.4g} -> {changes['mean_after']:.4g}"


def _two_means(changes: JsonObject) -> str:
    """Return the means of rows with an old reward, which are comparable, and the mean of all."""
    both = changes["unchanged"] + changes["changed"]
    return (
        f"mean reward {_means(changes)} is of the {amount(both, 'row')} with a previous reward; "
        f"of all {changes['verified']:,} verified rows it is {changes['mean_reward']:.4g}"
    )


def _first_failure(failures: Path, rollouts: Path) -> str:
    """Return the place and the message of the first failure. `rollouts`: the file that was verified;
    beside it is the file of the answers that the run itself could not verify.
    """
    line = next(read_jsonl(failures), None)
    if line is None:
        return ""
    is_beside = line.row.get("of_failures") and not holds_failures(rollouts)
    file = failures_beside(rollouts) if is_beside else rollouts
    return f"line {line.row['line']} of {shown(file)}: {line.row['message']}"


def _failure_hint(failed: Mapping[str, int], args: ReverifyArgs) -> str:
    if Outcome.DATA_ERROR in failed and args.inputs is None:
        return "if the verifier misses fields of the task rows, pass their file with --inputs FILE"
    if Outcome.JUDGE_ERROR in failed:
        judge = "another model after --judge and" if args.judge else JUDGE_OPTION
        return f"the same command with {judge} --overwrite asks the judge again"
    return "the failures file has the reason of each row; fix it, then start again with --overwrite"

"""The commands that read a run's files: profile, merge, reverify, compare, select, scores."""

import typer

from palestra.cli.console import guarded
from palestra.cli.flags import (
    AS_JSON,
    Configs,
    Flags,
    Overrides,
    run,
    settings_command,
    with_configs,
)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    settings_command(app, "ProfileArgs", "JsonArgs", required=False)(profile)
    settings_command(app, "MergeArgs")(merge)
    settings_command(app, "ReverifyArgs")(reverify)
    settings_command(app, "CompareArgs")(compare)
    settings_command(app, "SelectArgs")(select)
    settings_command(app, "ScoresArgs")(scores)


def profile(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Compute reward statistics per task and per agent, and print the table. Same as
    ng_reward_profile.

    `palestra profile FILE` is short for `--rollouts FILE`.
    """
    from palestra.cli.profiling_commands import profile as profile_run

    rollouts = "rollouts_jsonl_fpath"
    first = overrides[0] if overrides else "="
    if rollouts not in flags and "=" not in first and not first.startswith("~"):
        flags[rollouts], overrides = [first], (overrides or [])[1:]
    as_json = flags.pop(AS_JSON, False)
    words = with_configs(configs, overrides)
    guarded(lambda: profile_run(words, ng=False, extra=flags, as_json=as_json))


def merge(flags: Flags, configs: Configs = None) -> None:
    """Merge the shards of one run into the same bytes that a run without shards writes.

    Also makes aggregate metrics, when a fleet runs or --config names its agents.
    """
    flags["shards"] = with_configs(configs, flags["shards"])
    run("palestra.cli.merging:merge_arguments", "MergeArgs", flags)


def reverify(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Run today's verifiers over stored responses, without a model, and show which rewards change.

    Without --environment, each row goes to the environment of its agent in the configs. Answers of
    a failures file whose verification failed are verified, too, and become scored rows.
    """
    run(
        "palestra.cli.reverifying:reverify", "ReverifyArgs", flags, with_configs(configs, overrides)
    )


def compare(flags: Flags) -> None:
    """Test whether run B beats run A, task by task: interval, p-value, regressions, missing
    rollouts.

    The materialized inputs and the failures of a run are found by their names, in its folder.
    """
    run("palestra.cli.comparing:compare_runs", "CompareArgs", flags)


def select(flags: Flags) -> None:
    """Export the tasks that are neither too easy nor too hard, as a dataset to collect again; or,
    with --failed, the tasks whose rollouts failed.

    Rollouts without a reward never count as difficulty. A provenance file in the same folder
    records for every row where it comes from and how sure its pass rate is.
    """
    run("palestra.cli.selecting:select_tasks", "SelectArgs", flags)


def scores(flags: Flags) -> None:
    """Print the usual table of scores: pass@1, maj@k, pass@k in percent, mean ± error over seeds."""
    run("palestra.cli.scoring:show_scores", "ScoresArgs", flags)

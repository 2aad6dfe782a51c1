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
from palestra.programs import is_bare


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    settings_command(app, "ProfileArgs", "JsonArgs", required=False)(profile)
    settings_command(app, "MergeArgs")(merge)
    settings_command(app, "ReverifyArgs")(reverify)
    settings_command(app, "CompareArgs")(compare)
    settings_command(app, "SelectArgs")(select)
    settings_command(app, "ScoresArgs")(scores)


def profile(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Compute reward statistics per task and per agent. Prints the table. Same as
    ng_reward_profile.

    `palestra profile FILE` is short for `--rollouts FILE`.
    """
    from palestra.cli.profiling_commands import profile as profile_run

    rollouts = "rollouts_jsonl_fpath"
    words = overrides or []
    if rollouts not in flags and words and is_bare(words[0]):
        flags[rollouts], overrides = words[:1], words[1:]
    as_json = flags.pop(AS_JSON, False)
    words = with_configs(configs, overrides)
    guarded(lambda: profile_run(words, ng=False, extra=flags, as_json=as_json))


def merge(flags: Flags, configs: Configs = None) -> None:
    """Merge the shards of one run. Writes the same bytes as a run without shards.

    Also makes aggregate metrics, when a fleet runs or --config names its agents.
    """
    flags["shards"] = with_configs(configs, flags["shards"])
    run("palestra.cli.merging:merge_arguments", "MergeArgs", flags)


def reverify(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Verify stored responses again, without the model. Shows which rewards change.

    Without --environment, each row goes to the environment of its agent in the configs. Answers of
    a failures file whose verification failed are verified, too, and become scored rows.
    """
    run(
        "palestra.cli.reverifying:reverify", "ReverifyArgs", flags, with_configs(configs, overrides)
    )


def compare(flags: Flags) -> None:
    """Test whether run B beats run A, task by task. Prints the interval, the p-value, regressions and
    missing rollouts.

    The materialized inputs and the failures of a run are found by their names, in its folder.
    """
    run("palestra.cli.comparing:compare_runs", "CompareArgs", flags)


def select(flags: Flags) -> None:
    """Export tasks that are neither too easy nor too hard. They are a dataset to collect again. With
    --failed: the tasks whose rollouts failed.

    Rollouts without a reward never count as difficulty. A provenance file in the same folder
    records for every row where it comes from and how sure its pass rate is.
    """
    run("palestra.cli.selecting:select_tasks", "SelectArgs", flags)


def scores(flags: Flags) -> None:
    """Print pass@1, maj@k and pass@k of models, in percent. Each is the mean ± error over seeds."""
    run("palestra.cli.scoring:show_scores", "ScoresArgs", flags)

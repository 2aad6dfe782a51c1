"""`palestra profile`, `merge`, `reverify`: the flags of the commands that read a run's files."""

from pathlib import Path
from typing import Annotated

import typer

from palestra.cli.console import guarded
from palestra.cli.options import Configs, Overrides, given, with_configs


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(profile)
    app.command()(merge)
    app.command()(reverify)


def profile(
    materialized_inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--inputs",
            "--materialized-inputs-jsonl-fpath",
            help="Materialized inputs; default those beside the rollouts.",
        ),
    ] = None,
    rollouts: Annotated[
        list[str] | None,
        typer.Option(
            "--rollouts",
            "--rollouts-jsonl-fpath",
            help="Scored rows: a file, plain, .gz or .zst, or a quoted glob of shards.",
        ),
    ] = None,
    allow_partial: Annotated[
        bool | None,
        typer.Option("--allow-partial", help="Profile what is there of an unfinished run."),
    ] = None,
    group_by: Annotated[
        str | None, typer.Option(help="A field of the rollout rows to group the table by.")
    ] = None,
    aggregate: Annotated[
        bool | None,
        typer.Option("--aggregate", help="Ask the agents for the environments' own metrics too."),
    ] = None,
    configs: Configs = None,
    overrides: Overrides = None,
) -> None:
    """Reward statistics per task and per agent, and the table. Same as ng_reward_profile.

    `palestra profile FILE` is short for `--rollouts FILE`.
    """
    from palestra.cli.profiling_commands import profile as profile_run

    if not rollouts and overrides and "=" not in overrides[0] and not overrides[0].startswith("~"):
        rollouts, *overrides = [overrides[0]], *overrides[1:]
    extra = given(
        materialized_inputs_jsonl_fpath=materialized_inputs,
        rollouts_jsonl_fpath=rollouts,
        allow_partial_rollouts=allow_partial,
        group_by=group_by,
        aggregate=aggregate,
    )
    guarded(lambda: profile_run(with_configs(configs, overrides), ng=False, extra=extra))


def merge(
    output: Annotated[Path, typer.Argument(help="Where the merged rows go (.jsonl).")],
    shards: Annotated[
        list[str],
        typer.Argument(
            metavar="SHARD...",
            help="Shards' output files, or folders or quoted globs of them; then overrides.",
        ),
    ],
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Merge what is there of an unfinished run.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Move other files at the output to .bak.")
    ] = False,
    configs: Configs = None,
) -> None:
    """Merge the shards of one run: the same bytes as if it had never been cut.

    Aggregate metrics are made too, when a fleet runs or --config names its agents.
    """
    from palestra.cli.merging import merge as merge_shards

    guarded(
        lambda: merge_shards(
            output,
            with_configs(configs, shards),
            allow_partial=allow_partial,
            overwrite=overwrite,
        )
    )


def reverify(
    rollouts: Annotated[
        Path, typer.Option("--rollouts", "-r", help="Scored rows of a run, or its failures file.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the new rows go (.jsonl).")],
    environment: Annotated[
        str | None,
        typer.Option(
            "--environment",
            "-e",
            help="What verifies every row: an environment's name, a Python file, or an instance "
            "of the configs.",
        ),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(help="Materialized inputs or tasks, for fields that the rollouts lack."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="First n rows; 0 means none.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Rows verified at once.")] = 64,
    timeout: Annotated[
        float, typer.Option(min=0.001, help="Seconds that one row may take.")
    ] = 600.0,
    fresh_judge: Annotated[
        bool, typer.Option("--fresh-judge", help="Ask judges anew; without it, replay answers.")
    ] = False,
    with_failures: Annotated[
        bool,
        typer.Option(
            "--with-failures",
            help="Also the answers in the run's failures file, whose verification failed.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also with environments that need their live session."),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Move what is at the output to .bak.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where it stopped.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The changes as JSON.")] = False,
    configs: Configs = None,
    overrides: Overrides = None,
) -> None:
    """Run today's verifiers over stored responses, without a model, and show what changes.

    Without --environment, each row goes to the environment of its agent in the configs. A failures
    file gives the answers whose verification failed: they become scored rows.
    """

    def command() -> int:
        from palestra.cli.reverifying import ReverifyArgs
        from palestra.cli.reverifying import reverify as reverify_rollouts

        args = ReverifyArgs(
            rollouts=rollouts,
            output=output,
            environment=environment,
            inputs=inputs,
            limit=limit,
            concurrency=concurrency,
            timeout_s=timeout,
            fresh_judge=fresh_judge,
            with_failures=with_failures,
            force=force,
            overwrite=overwrite,
            resume=resume,
            as_json=as_json,
        )
        return reverify_rollouts(args, with_configs(configs, overrides))

    guarded(command)

"""`palestra doctor`: the flags of the examination before a run, which are those of `collect`."""

from typing import Annotated

import typer

from palestra.cli.console import guarded
from palestra.cli.options import (
    MAX_ATTEMPTS,
    MIN_COVERAGE,
    ON_STALE,
    OVERWRITE,
    RESUME,
    ROLLOUT_TIMEOUT,
    Configs,
    Overrides,
    given,
    with_configs,
)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("doctor")(doctor)


def doctor(
    input_path: Annotated[
        str | None, typer.Option("--input", "-i", help="Tasks, one JSON row a line.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Where scored rows would go (.jsonl).")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Agent for rows that name none.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="First n rows; 0 means none.")] = None,
    num_repeats: Annotated[
        int | None, typer.Option("--num-repeats", "--repeats", help="Rollouts per row; default 1.")
    ] = None,
    num_repeats_add_seed: Annotated[
        bool | None, typer.Option(help="Seed each rollout with its index.")
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option("--concurrency", help="Rollouts in flight, or auto; default no bound."),
    ] = None,
    prompt_config: Annotated[
        str | None, typer.Option(help="YAML template that makes the input from row fields.")
    ] = None,
    resume: Annotated[bool | None, typer.Option("--resume", help=RESUME)] = None,
    overwrite: Annotated[bool | None, typer.Option("--overwrite", help=OVERWRITE)] = None,
    min_coverage: Annotated[float | None, typer.Option(help=MIN_COVERAGE)] = None,
    rollout_timeout: Annotated[float | None, typer.Option(help=ROLLOUT_TIMEOUT)] = None,
    max_attempts: Annotated[int | None, typer.Option(help=MAX_ATTEMPTS)] = None,
    on_stale: Annotated[str | None, typer.Option(help=ON_STALE)] = None,
    shard: Annotated[
        str | None, typer.Option(help="I/N: this job's share of the tasks, from 0/N on.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Without --input: the configs' datasets of this type."),
    ] = None,
    progress: Annotated[str | None, typer.Option(hidden=True)] = None,
    json_events: Annotated[str | None, typer.Option(hidden=True)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
    configs: Configs = None,
    overrides: Overrides = None,
) -> None:
    """Say what would go wrong in a run, before it costs a rollout. Arguments as for collect.

    Checks this machine, the endpoints, the configuration, every row, the verifiers and what an
    earlier run left; then forecasts requests, tokens, time and disk. Exits 1 when it finds an
    error.
    """
    from palestra.cli.doctoring import doctor as examine

    extra = given(
        input_jsonl_fpath=input_path,
        output_jsonl_fpath=output,
        agent_name=agent,
        limit=limit,
        num_repeats=num_repeats,
        num_repeats_add_seed=num_repeats_add_seed,
        num_samples_in_parallel=concurrency,
        prompt_config=prompt_config,
        resume_from_cache=resume,
        overwrite=overwrite,
        min_coverage=min_coverage,
        rollout_timeout=rollout_timeout,
        max_attempts=max_attempts,
        on_stale=on_stale,
        shard=shard,
        split=split,
        progress=progress,
        json_events=json_events,
    )
    guarded(lambda: examine(with_configs(configs, overrides), extra=extra, as_json=as_json))

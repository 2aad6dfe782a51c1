"""`palestra eval`, `collect`: the flags of the commands that make rollouts."""

from pathlib import Path
from typing import Annotated

import typer

from palestra.cli.console import guarded
from palestra.cli.options import (
    MAX_ATTEMPTS,
    MIN_COVERAGE,
    ON_STALE,
    OVERWRITE,
    PATIENCE,
    RESUME,
    ROLLOUT_TIMEOUT,
    Configs,
    Overrides,
    given,
    with_configs,
)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(collect)
    app.command("eval")(evaluate)


def collect(
    input_path: Annotated[
        str | None, typer.Option("--input", "-i", help="Tasks, one JSON row a line.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Where scored rows go (.jsonl).")
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
    patience: Annotated[str | None, typer.Option(metavar="SECONDS", help=PATIENCE)] = None,
    on_stale: Annotated[str | None, typer.Option(help=ON_STALE)] = None,
    shard: Annotated[
        str | None, typer.Option(help="I/N: this job's share of the tasks, from 0/N on.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Without --input: the configs' datasets of this type."),
    ] = None,
    progress: Annotated[str | None, typer.Option(help="rich, plain or none.")] = None,
    json_events: Annotated[
        str | None, typer.Option(help="File for one JSON object per event; - for stdout.")
    ] = None,
    configs: Configs = None,
    overrides: Overrides = None,
) -> None:
    """Run rows through agents and record how each rollout ends. Same as ng_collect_rollouts.

    Uses the running fleet; when none runs, the servers of --config start inside this command.
    """
    from palestra.cli.collecting import collect as collect_rollouts

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
        patience=patience,
        on_stale=on_stale,
        shard=shard,
        split=split,
        progress=progress,
        json_events=json_events,
    )
    guarded(lambda: collect_rollouts(with_configs(configs, overrides), ng=False, extra=extra))


def evaluate(
    target: Annotated[
        str, typer.Argument(help="An environment's name, a Python file, or a config file.")
    ],
    overrides: Overrides = None,
    model: Annotated[
        str | None,
        typer.Option(help="local, openai:NAME, vllm:URL[#NAME], or a configured instance."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="How many tasks; 0 means none.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Rollouts per task; default 1.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where scored rows go; default a new folder in runs/.")
    ] = None,
    concurrency: Annotated[
        str | None, typer.Option(help="Rollouts in flight, or auto; default no bound.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of tasks made on demand.")] = 0,
    rows: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE for an environment that makes its tasks; may be repeated."),
    ] = None,
    max_output_tokens: Annotated[int | None, typer.Option(help="Tokens per turn.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Sampling temperature.")] = None,
    group_by: Annotated[
        str | None, typer.Option(help="A field of the rollout rows to group the table by.")
    ] = None,
    progress: Annotated[str | None, typer.Option(help="rich, plain or none.")] = None,
    json_events: Annotated[
        str | None, typer.Option(help="File for one JSON object per event; - for stdout.")
    ] = None,
    resume: Annotated[bool | None, typer.Option("--resume", help=RESUME)] = None,
    overwrite: Annotated[bool | None, typer.Option("--overwrite", help=OVERWRITE)] = None,
    on_stale: Annotated[str | None, typer.Option(help=ON_STALE)] = None,
    min_coverage: Annotated[float | None, typer.Option(help=MIN_COVERAGE)] = None,
    rollout_timeout: Annotated[float | None, typer.Option(help=ROLLOUT_TIMEOUT)] = None,
    max_attempts: Annotated[int | None, typer.Option(help=MAX_ATTEMPTS)] = None,
    patience: Annotated[str | None, typer.Option(metavar="SECONDS", help=PATIENCE)] = None,
) -> None:
    """Run one environment against one model and profile it, all in this process."""

    def command() -> int:
        from palestra.cli.evaluating import EvalArgs
        from palestra.cli.evaluating import evaluate as evaluate_environment

        args = EvalArgs(
            target=target,
            model=model,
            limit=limit,
            output=output,
            seed=seed,
            rows=_pairs(rows or []),
            max_output_tokens=max_output_tokens,
            temperature=temperature,
            group_by=group_by,
            collecting=given(
                num_repeats=repeats,
                num_samples_in_parallel=concurrency,
                progress=progress,
                json_events=json_events,
                resume_from_cache=resume,
                overwrite=overwrite,
                on_stale=on_stale,
                min_coverage=min_coverage,
                rollout_timeout=rollout_timeout,
                max_attempts=max_attempts,
                patience=patience,
            ),
        )
        return evaluate_environment(args, overrides or [])

    guarded(command)


def _pairs(items: list[str]) -> dict[str, str]:
    from palestra.errors import ConfigError

    pairs = [item.partition("=") for item in items]
    bad = [item for item, (_, equals, _) in zip(items, pairs, strict=True) if not equals]
    if bad:
        raise ConfigError(f"--rows {bad[0]!r} is not KEY=VALUE")
    return {key: value for key, _, value in pairs}

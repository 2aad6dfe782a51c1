"""`palestra prepare`, `render-prompts`: the flags of the commands that make rows ready."""

from typing import Annotated

import typer

from palestra.cli.console import guarded
from palestra.cli.options import Configs, Overrides, given, with_configs


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(prepare)


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

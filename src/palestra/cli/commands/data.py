"""`palestra prepare`, `render-prompts`, `dataset import`, `benchmark`: the flags of commands that
make rows.
"""

from typing import Annotated

import typer

from palestra.cli.commands.datasets import dataset
from palestra.cli.console import guarded
from palestra.cli.flags import (
    AS_JSON,
    Configs,
    Flags,
    JsonFlag,
    Overrides,
    run,
    settings_command,
    with_configs,
)
from palestra.programs import is_bare

benchmark = typer.Typer(
    help="List benchmarks, and make their files.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    settings_command(app, "PrepareArgs", "OwnSettings", "JsonArgs", required=False)(prepare)
    settings_command(app, "RenderArgs", required=False)(render_prompts)
    settings_command(dataset, "ImportArgs", name="import")(import_rows)
    app.add_typer(benchmark, name="benchmark")


def prepare(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Check and write the agents' datasets for training. Measures every row.

    Same as ng_prepare_data. If one row is bad, nothing is written.
    """

    def command() -> int:
        from palestra.cli.environment_flags import own_settings
        from palestra.cli.preparing import prepare as prepare_data
        from palestra.settings import OwnSettings, args_from

        words = own_settings(
            args_from(OwnSettings, {"own_settings": flags.pop("own_settings", {})}),
            with_configs(configs, overrides),
        )
        return prepare_data(words, ng=False, extra=flags, as_json=as_json)

    as_json = flags.pop(AS_JSON, False)
    guarded(command)


def import_rows(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Make task rows from a file or a dataset of the hub. From a table, from chats, or from questions with answers."""
    run("palestra.cli.importing:import_rows", "ImportArgs", flags, with_configs(configs, overrides))


def render_prompts(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Fill rows into a prompt template. Same as ng_materialize_prompts."""

    def command() -> int:
        from palestra.cli.importing import render

        return render(with_configs(configs, overrides), ng=False, extra=flags)

    guarded(command)


@benchmark.command("list")
def list_benchmarks(
    configs: Configs = None,
    overrides: Overrides = None,
    as_json: JsonFlag = False,
) -> None:
    """List the benchmarks of --config, or else of the project. Same as ng_list_benchmarks."""

    def command() -> int:
        from palestra.cli.benchmarks import list_benchmarks as show

        return show(with_configs(configs, overrides), ng=False, as_json=as_json)

    guarded(command)


@settings_command(benchmark, "BenchmarkArgs", name="prepare", required=False)
def prepare_benchmark(
    flags: Flags,
    names: Annotated[
        list[str] | None, typer.Argument(help="Benchmarks; none: all. Then overrides.")
    ] = None,
    configs: Configs = None,
) -> None:
    """Run the scripts that make benchmarks' files. Checks their rows. Same as ng_prepare_benchmark."""
    overrides = [text for text in names or () if not is_bare(text)]

    def command() -> int:
        from palestra.cli.benchmarks import prepare as run

        benchmark_names = [text for text in names or () if text not in overrides]
        return run(with_configs(configs, overrides), ng=False, names=benchmark_names, extra=flags)

    guarded(command)

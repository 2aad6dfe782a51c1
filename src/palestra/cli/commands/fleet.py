"""`palestra run`, `status`, `config`, `pip-list`, `version`: the flags about a fleet and its host."""

from typing import Annotated

import typer

from palestra.cli.console import guarded
from palestra.cli.flags import Configs, Overrides, with_configs


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(run)
    app.command()(status)
    app.command()(config)
    app.command("pip-list")(pip_list)
    app.command()(version)


def run(configs: Configs = None, overrides: Overrides = None) -> None:
    """Start every server of the configuration, and serve until Ctrl-C. Same as ng_run."""
    from palestra.cli.fleet_commands import run_fleet

    guarded(lambda: run_fleet(with_configs(configs, overrides), ng=False))


def status(
    wait: Annotated[
        float | None, typer.Option(help="Seconds to wait until every server is ready.")
    ] = None,
    rollouts: Annotated[
        bool,
        typer.Option(
            "--rollouts", help="What each rollout in flight waits for, and for how long, instead."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    overrides: Overrides = None,
) -> None:
    """One line per server of the running fleet. Exits 0 only if all are ready."""
    if rollouts:
        from palestra.cli.rollouts_status import rollouts_status

        guarded(lambda: rollouts_status(overrides or [], as_json=as_json))
    from palestra.cli.fleet_commands import status as show

    guarded(lambda: show(overrides or [], ng=False, wait_s=wait, as_json=as_json))


def config(configs: Configs = None, overrides: Overrides = None) -> None:
    """Print the configuration as the system sees it, secrets masked. Same as ng_dump_config."""
    from palestra.cli.fleet_commands import dump_config

    guarded(lambda: dump_config(with_configs(configs, overrides), ng=False))


def pip_list(
    server: Annotated[str, typer.Argument(help="Its folder: resources_servers/NAME.")],
    format_: Annotated[
        str, typer.Option("--format", help="columns, freeze or json.", metavar="FORMAT")
    ] = "columns",
    outdated: Annotated[
        bool, typer.Option("--outdated", help="Only those with newer versions.")
    ] = False,
) -> None:
    """The packages of the environment that a server runs in. Same as ng_pip_list."""

    def command() -> int:
        from palestra.cli.packages import pip_list as show
        from palestra.settings import PipListArgs, args_from

        given = {"entrypoint": server, "format": format_, "outdated": outdated}
        return show(args_from(PipListArgs, given))

    guarded(command)


def version(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """What is installed, and where."""
    from palestra.cli.fleet_commands import version as show

    guarded(lambda: show(as_json=as_json))

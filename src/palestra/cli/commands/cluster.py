"""`palestra cluster rollouts` and `run-cmd`: a flag for each option of `palestra.cluster`'s."""

from typing import Annotated

import typer

from palestra.cli.commands.cluster_runs import add_to
from palestra.cli.console import guarded
from palestra.cli.flags import Flags, settings_command
from palestra.cli.options import Overrides

cluster = typer.Typer(help="Rollouts over many jobs of a cluster.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.add_typer(cluster, name="cluster")
    add_to(cluster)


@settings_command(cluster, "palestra.cluster.options:RolloutOptions")
def rollouts(flags: Flags, overrides: Overrides = None) -> None:
    """Collect rollouts over seeds and chunks, a job each; then merge and profile them."""

    def command() -> int:
        from palestra.cli.clustering.runs import submit

        return submit(flags, overrides or ())

    guarded(command)


@settings_command(
    cluster,
    "palestra.cluster.commands:CommandOptions",
    name="run-cmd",
    required=False,  # the command may follow the options
    context_settings={
        "allow_interspersed_args": False,  # what follows the options is the command, as it is
        "token_normalize_func": lambda name: name.replace("_", "-"),
    },
)
def run_cmd(
    flags: Flags,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Instead of --command.")
    ] = None,
) -> None:
    """Run one command as a job, with bash; status, logs and cancel know it as they know rollouts."""

    def command() -> int:
        from palestra.cli.clustering.runs import submit_command

        return submit_command(flags, words or ())

    guarded(command)


__all__ = ["register"]

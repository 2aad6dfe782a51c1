"""`palestra diagnose`: the flags of the command that says what went wrong with a run."""

from pathlib import Path
from typing import Annotated

import typer

from palestra.cli.console import guarded


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(diagnose)


def diagnose(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="An output or its stem, a run's folder, a log, or a Slurm job's id."
        ),
    ],
    log: Annotated[
        list[Path] | None,
        typer.Option(
            "--log", help="A further log to read: a command's, a server's, an endpoint's."
        ),
    ] = None,
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input", "-i", help="The input file, to compare with; default the manifest's."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """What went wrong with a run: layer, cause, quoted evidence, what to do.

    Exit 1 when something is wrong, 0 when nothing was found.
    """

    def command() -> int:
        from palestra.cli.diagnosing import diagnose as diagnose_run

        return diagnose_run(run, logs=tuple(log or ()), inputs=tuple(inputs or ()), as_json=as_json)

    guarded(command)

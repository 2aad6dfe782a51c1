"""`palestra skills`: the skills for coding agents, put where such an agent looks for them."""

from pathlib import Path
from typing import Annotated, Final

import typer

from palestra.cli.console import guarded

FOLDER: Final = Path(".agents/skills")
"""Where coding agents look for a project's skills."""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    group = typer.Typer(
        name="skills", help="Skills for coding agents: how to use Palestra.", no_args_is_help=True
    )
    group.command()(install)
    group.callback()(_group)
    app.add_typer(group)


def _group() -> None:
    """Skills for coding agents: how to use Palestra."""


def install(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where to; Claude Code reads .claude/skills.")
    ] = FOLDER,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that were changed there.")
    ] = False,
) -> None:
    """Copy the skills into DIR, each a folder with a SKILL.md."""

    def command() -> int:
        from palestra.cli.skills import install_skills

        return install_skills(folder, overwrite=overwrite)

    guarded(command)

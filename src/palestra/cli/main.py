"""The `palestra` command line: ordinary flags, and any override (`key=value`) after them."""

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import typer

from palestra.cli.commands import (
    cluster,
    data,
    datasets,
    doctor,
    environments,
    files,
    models,
    rollouts,
)
from palestra.cli.console import INTERRUPTED, notice
from palestra.cli.guard import fork_under_guard

app = typer.Typer(
    name="palestra",
    help="Run language models against environments, and get rewards you can trust.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for _group in (rollouts, doctor, files, environments, models, data, datasets, cluster):
    _group.register(app)


def run_as(name: str, words: Sequence[str], arguments: Sequence[str]) -> NoReturn:
    """Run the command at the path `words` under another name, which its help and its errors show."""
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    command.main([*arguments], prog_name=name)
    raise SystemExit(0)


GUARDED = frozenset({"collect", "doctor", "eval", "reverify", "test", "verify-env"})
"""Commands that run authors' code inside themselves."""


def main() -> None:
    """Run the `palestra` console script."""
    runs_authors_code = GUARDED & set(sys.argv[1:2]) or sys.argv[1:3] == ["cluster", "drive"]
    try:
        if runs_authors_code and "--help" not in sys.argv:
            fork_under_guard()
        app()
    except KeyboardInterrupt:
        notice("stopped by SIGINT before anything had begun")
        sys.exit(INTERRUPTED)

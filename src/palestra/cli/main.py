"""The `palestra` command line: ordinary flags, and any override (`key=value`) after them."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final, NoReturn

import typer

from palestra.cli.commands import (
    browsing,
    cluster,
    data,
    datasets,
    doctor,
    environments,
    files,
    models,
    rollouts,
)
from palestra.cli.examples import add_examples
from palestra.cli.guard import fork_under_guard
from palestra.cli.usage import run_command_line

HELP: Final = ("-h", "--help")
COMPLETED_LINE: Final = "PALESTRA_COMPLETE"
"""The environment variable in which a shell passes the command line to complete."""
_NO_COLOR: Final = "--no-color"
_PROGRAM_FOLLOWS: Final = frozenset({"--", "gym", "run-cmd"})
"""Words after which the rest of the command line is not ours."""


def gym(context: typer.Context) -> None:
    """Run NeMo Gym's command line: palestra gym GROUP ACTION. Same as gym and ng."""
    from palestra.cli.gym import run

    run(context.args, program="palestra gym")


app = typer.Typer(
    name="palestra",
    help="Run language models against environments, and get rewards you can trust.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": [*HELP]},
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from palestra.cli.installed import print_version

        raise SystemExit(print_version())


@app.callback(epilog="`palestra COMMAND -h` has the flags of a command, with examples.")
def _palestra(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
    no_color: Annotated[
        bool,
        typer.Option(_NO_COLOR, help="Print plain text, as with NO_COLOR=1; also after COMMAND."),
    ] = False,
) -> None:
    """Run language models against environments, and get rewards you can trust."""
    del version, no_color  # `main` obeys the second


app.command(
    "gym",
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": [],
    },
)(gym)
for _group in (browsing, rollouts, doctor, files, environments, models, data, datasets, cluster):
    _group.register(app)
add_examples(app)


def run_as(name: str, words: Sequence[str], arguments: Sequence[str]) -> NoReturn:
    """Run the command at the path `words` under another name, which its help and its errors show."""
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    run_command_line(command.main, args=[*arguments], prog_name=name, help_option_names=[*HELP])


GUARDED = frozenset({"collect", "doctor", "eval", "reverify", "run", "test", "verify-env"})
"""Commands that run authors' code inside themselves."""


def _obey_no_color() -> None:
    """Take `--no-color` out of the command line, wherever it is, and set `NO_COLOR`."""
    arguments = sys.argv[1:]
    ours = next(
        (at for at, word in enumerate(arguments) if word in _PROGRAM_FOLLOWS), len(arguments)
    )
    if _NO_COLOR in arguments[:ours]:
        os.environ["NO_COLOR"] = "1"
        other_words = [word for word in arguments[:ours] if word != _NO_COLOR]
        sys.argv[1:] = [*other_words, *arguments[ours:]]


def _refuse_divided_lists() -> None:
    """Exit with an error when a space divides a list in brackets."""
    arguments = sys.argv[1:]
    if not any("=[" in word for word in arguments):
        return
    from palestra.cli.bare_words import refuse_divided_lists
    from palestra.cli.console import fail
    from palestra.errors import ConfigError

    try:
        refuse_divided_lists(("palestra",), arguments)
    except ConfigError as error:
        fail(error)


def main() -> None:
    """Run the command line of the `palestra` console script."""
    _obey_no_color()
    if (line := os.environ.get(COMPLETED_LINE)) is not None:
        from palestra.cli.completing import complete

        complete(typer.main.get_command(app), line)
        return
    _refuse_divided_lists()
    runs_authors_code = GUARDED & set(sys.argv[1:2]) or sys.argv[1:3] == ["cluster", "drive"]
    if runs_authors_code and not {*HELP} & {*sys.argv}:
        fork_under_guard()
    run_command_line(typer.main.get_command(app).main)

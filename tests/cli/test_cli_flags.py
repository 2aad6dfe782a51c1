"""A command's flags are made from the fields of a settings model."""

from typing import Annotated

import pytest
import typer
from pydantic import BaseModel, Field
from typer.testing import CliRunner

from palestra.cli.flags import Flags, settings_command
from palestra.config import Flag, flag


class Settings(BaseModel):
    """One of each kind."""

    source: Annotated[str, Flag(argument=True)] = Field(description="Where from.")
    attempts: int = Field(default=3, ge=1, description="How often.")
    patience: Annotated[float | None, flag(metavar="SECONDS")] = Field(
        default=None, description="How long, or none."
    )
    names: Annotated[tuple[str, ...], flag("--name", "-n")] = Field(
        default=(), description="Repeatable."
    )
    loud: bool = Field(default=False, description="Say more.")
    hidden: int = 0


def typed(*arguments: str) -> str:
    app = typer.Typer(rich_markup_mode=None)

    def command(flags: Flags) -> None:
        typer.echo(sorted(flags.items()))

    settings_command(app, f"{__name__}:Settings")(command)
    return CliRunner().invoke(app, arguments).output


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        (["a"], "[('source', 'a')]"),
        (["a", "--attempts", "2"], "[('attempts', 2), ('source', 'a')]"),
        (["a", "--patience", "none"], "[('patience', 'none'), ('source', 'a')]"),
        (["a", "-n", "x", "--name", "y"], "[('names', ['x', 'y']), ('source', 'a')]"),
        (["a", "--loud"], "[('loud', True), ('source', 'a')]"),
    ],
)
def test_only_what_was_typed_arrives(arguments: list[str], flags: str) -> None:
    assert typed(*arguments).strip() == flags


def test_the_help_has_defaults_and_bounds_of_the_fields() -> None:
    shown = " ".join(typed("--help").split())

    assert "How often; default 3. [x>=1]" in shown
    assert "--hidden" not in shown
    assert "--no-loud" not in shown


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["a", "--attempts", "0"], "Invalid value for '--attempts'"),
        (["a", "--hidden", "1"], "No such option: --hidden"),
        ([], "Missing argument 'SOURCE'"),
    ],
)
def test_a_refusal_names_the_flag(arguments: list[str], refusal: str) -> None:
    assert refusal.lower() in typed(*arguments).lower()

"""`palestra doctor` takes the arguments of `palestra collect`."""

import typer.main
from typer.testing import CliRunner

from palestra.cli.commands import doctor, rollouts
from palestra.cli.main import app as palestra


def test_every_flag_of_collect_is_one_of_the_doctor() -> None:
    app = typer.Typer()
    rollouts.register(app)
    doctor.register(app)
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]

    collect = {parameter.name for parameter in commands["collect"].params}
    examine = {parameter.name for parameter in commands["doctor"].commands["check"].params}

    assert examine == collect


def test_the_help_names_the_command_as_it_is_typed() -> None:
    said = CliRunner().invoke(palestra, ["doctor", "--help"], prog_name="palestra").output

    assert "Usage: palestra doctor [OPTIONS]" in said
    assert "doctor check" not in said

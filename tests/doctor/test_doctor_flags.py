"""`palestra doctor` takes the arguments of `palestra collect`."""

import typer.main

from palestra.cli.commands import doctor, rollouts


def test_every_flag_of_collect_is_one_of_the_doctor() -> None:
    app = typer.Typer()
    rollouts.register(app)
    doctor.register(app)
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]

    flags = {name: {p.name for p in commands[name].params} for name in ("collect", "doctor")}

    assert flags["doctor"] - flags["collect"] == {"as_json"}
    assert flags["collect"] <= flags["doctor"]

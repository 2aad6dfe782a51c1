"""`palestra doctor`, `diagnose`: the flags of the examinations before and after a run.

The doctor has the very flags of `collect`.
"""

from typing import Any, Final, final

import typer
from typer.core import TyperCommand, TyperGroup

from palestra.cli.console import guarded
from palestra.cli.flags import Configs, Flags, Overrides, run, settings_command, with_configs

_ITSELF: Final = "check"
"""What `palestra doctor` is short for: `palestra doctor check`."""


@final
class _DoctorGroup(TyperGroup):
    """Commands of the doctor; what names none of them belongs to the doctor itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the doctor itself in front, unless a command is named."""
        is_command = args[:1] and args[0] in self.commands
        return super().parse_args(ctx, args if is_command else [_ITSELF, *args])


@final
class _Doctor(TyperCommand):
    """The doctor itself, whose help and errors name it as its user does: `palestra doctor`."""

    def make_context(self, *named_and_args: Any, parent: Any = None, **extra: Any) -> Any:
        """As the child of the application, where the group has that name."""
        _name, args = named_and_args
        return super().make_context(parent.info_name, args, parent=parent.parent, **extra)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`: the doctor with whatever flags `collect` has now."""
    group = typer.Typer(cls=_DoctorGroup)
    epilog = "`palestra doctor tools FILE` checks the tool schemas of a file alone."
    add = settings_command(
        group, "CollectArgs", "JsonArgs", name=_ITSELF, required=False, cls=_Doctor, epilog=epilog
    )
    add(doctor)
    settings_command(group, "ToolsArgs")(tools)
    app.add_typer(group, name="doctor", help="Say what would go wrong, before a run.")
    settings_command(app, "DiagnoseArgs")(diagnose)


def doctor(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Say what would go wrong in a run, before it costs a rollout. Arguments as for collect.

    Checks this machine, the endpoints, the configuration, every row, the verifiers and what an
    earlier run left; then forecasts requests, tokens, time and disk. Exits 1 when it finds an
    error.
    """
    from palestra.cli.doctoring import doctor as examine

    as_json = flags.pop("as_json", False)
    guarded(lambda: examine(with_configs(configs, overrides), extra=flags, as_json=as_json))


def tools(flags: Flags) -> None:
    """Check every distinct tool schema of a file by rules, and by compiling its grammar.

    Exits 1 when there are errors, and 2 when the file cannot be read.
    """
    run("palestra.cli.tool_schemas:check_tools", "ToolsArgs", flags)


def diagnose(flags: Flags) -> None:
    """What went wrong with a run: layer, cause, quoted evidence, what to do.

    Exit 1 when something is wrong, 0 when nothing was found.
    """
    run("palestra.cli.diagnosing:diagnose", "DiagnoseArgs", flags)

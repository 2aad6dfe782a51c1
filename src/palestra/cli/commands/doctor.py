"""`palestra doctor`, `diagnose`: the flags of the examinations before and after a run.

The doctor has the very flags of `collect`.
"""

from pathlib import Path
from typing import Annotated, Any, Final, final

import typer
from typer.core import TyperCommand, TyperGroup

from palestra.cli.console import guarded
from palestra.cli.flags import Configs, Flags, Overrides, settings_command, with_configs

_ITSELF: Final = "check"
"""What `palestra doctor` is short for: `palestra doctor check`."""


@final
class _DoctorGroup(TyperGroup):
    """Commands of the doctor; what names none of them belongs to the doctor itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the doctor itself in front, unless a command is named."""
        named = args[:1] and args[0] in self.commands
        return super().parse_args(ctx, args if named else [_ITSELF, *args])


@final
class _Doctor(TyperCommand):
    """The doctor itself, whose help and errors name it as its user does: `palestra doctor`."""

    def make_context(self, *given: Any, parent: Any = None, **extra: Any) -> Any:
        """As the child of the application, where the group has that name."""
        _name, args = given
        return super().make_context(parent.info_name, args, parent=parent.parent, **extra)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`: the doctor with whatever flags `collect` has now."""
    group = typer.Typer(cls=_DoctorGroup)
    epilog = "`palestra doctor tools FILE` checks the tool schemas of a file alone."
    add = settings_command(
        group, "CollectArgs", name=_ITSELF, required=False, cls=_Doctor, epilog=epilog
    )
    add(doctor)
    group.command()(tools)
    app.add_typer(group, name="doctor", help="Say what would go wrong, before a run.")
    app.command()(diagnose)


def doctor(
    flags: Flags,
    configs: Configs = None,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
) -> None:
    """Say what would go wrong in a run, before it costs a rollout. Arguments as for collect.

    Checks this machine, the endpoints, the configuration, every row, the verifiers and what an
    earlier run left; then forecasts requests, tokens, time and disk. Exits 1 when it finds an
    error.
    """
    from palestra.cli.doctoring import doctor as examine

    guarded(lambda: examine(with_configs(configs, overrides), extra=flags, as_json=as_json))


def tools(
    file: Annotated[Path, typer.Argument(help="Rows, or Chat Completions bodies (.jsonl).")],
    summary_key: Annotated[
        str, typer.Option(help="A field of the rows (dotted: agent_ref.name) to count by.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Check every distinct tool schema of a file by rules, and by compiling its grammar.

    Exits 1 when there are errors, and 2 when the file cannot be read.
    """
    from palestra.cli.tool_schemas import check_tools

    guarded(lambda: check_tools(file, summary_key=summary_key, as_json=as_json))


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

"""`palestra doctor tools`: the flags of the check of tool schemas, beside `palestra doctor`."""

from pathlib import Path
from typing import Annotated, Any, Final, final

import typer
from typer.core import TyperCommand, TyperGroup

from palestra.cli.console import guarded

DOCTOR: Final = "doctor"
_ITSELF: Final = "check"
"""What `palestra doctor` is short for: `palestra doctor check`."""


@final
class DoctorGroup(TyperGroup):
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
    """Add the command to `app`, which has `palestra doctor` already."""
    group = typer.Typer(cls=DoctorGroup)
    for known in [known for known in app.registered_commands if known.name == DOCTOR]:
        app.registered_commands.remove(known)
        known.name, known.cls = _ITSELF, _Doctor
        known.epilog = "`palestra doctor tools FILE` checks the tool schemas of a file alone."
        group.registered_commands.append(known)
    group.command()(tools)
    app.add_typer(group, name=DOCTOR, help="Say what would go wrong, before a run.")


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

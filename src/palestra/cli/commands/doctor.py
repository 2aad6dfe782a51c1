"""`palestra doctor`, `diagnose`: the flags of the checks before and after a run.

`palestra doctor` takes the same flags as `collect`.
"""

from pathlib import Path
from typing import Any, Final, final

import typer
from typer.core import TyperCommand, TyperGroup

from palestra.cli.console import guarded
from palestra.cli.flags import (
    AS_JSON,
    Configs,
    Flags,
    Overrides,
    run,
    settings_command,
    with_configs,
)

_ITSELF: Final = "check"
"""The command that `palestra doctor` runs when no subcommand is named."""


@final
class _DoctorGroup(TyperGroup):
    """The group of the doctor's commands; without a subcommand, `palestra doctor` runs `check`."""

    default_command = _ITSELF

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command `check`, unless the arguments begin with a command's name."""
        is_command = args[:1] and args[0] in self.commands
        return super().parse_args(ctx, args if is_command else [self.default_command, *args])


@final
class _Doctor(TyperCommand):
    """The default command `check`; its help and errors show the name `palestra doctor`."""

    def make_context(self, *named_and_args: Any, parent: Any = None, **extra: Any) -> Any:
        """Make the command's context under the group's name, as a child of the application."""
        _name, args = named_and_args
        return super().make_context(parent.info_name, args, parent=parent.parent, **extra)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`; the doctor takes the flags of `collect`."""
    group = typer.Typer(cls=_DoctorGroup)
    epilog = "`palestra doctor tools FILE` checks the tool schemas of a file alone."
    add = settings_command(
        group,
        "CollectArgs",
        "ModelArgs",
        "JsonArgs",
        name=_ITSELF,
        required=False,
        cls=_Doctor,
        epilog=epilog,
    )
    add(doctor)
    settings_command(group, "ToolsArgs")(tools)
    app.add_typer(
        group, name="doctor", help="Report what would go wrong in a run, before it starts."
    )
    settings_command(app, "DiagnoseArgs")(diagnose)


def doctor(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Report what would go wrong in a run, before it costs a rollout. Arguments as for collect.

    An environment in one file is a config: palestra doctor shelf.py --model local.

    Checks this machine, the endpoints, the configuration, every row, the verifiers and the files of
    an earlier run; then forecasts requests, tokens, time and disk. Exits 1 when it finds an error.
    """

    def command() -> int:
        from palestra.cli.bare_words import refuse_bare_words
        from palestra.cli.doctoring import ENDPOINT_PATIENCE_S, report_on
        from palestra.cli.doctoring import doctor as examine
        from palestra.cli.environment_flags import files_in, with_models
        from palestra.errors import CallError, RunFailed
        from palestra.settings import ModelArgs, args_from

        as_json = flags.pop(AS_JSON, False)
        fields = {name: flags.pop(name) for name in ModelArgs.model_fields if name in flags}
        words = with_configs(configs, overrides)
        refuse_bare_words("doctor", words)
        settings = {"patience": ENDPOINT_PATIENCE_S, **flags}
        try:
            models = args_from(ModelArgs, fields)
            words, extra = with_models(models, words, settings)
        except (CallError, RunFailed) as error:  # the endpoint does not name its model
            return report_on(error, as_json=as_json)
        if files := files_in(words):  # which shows no output unless one is named
            flags.setdefault("output_jsonl_fpath", f"runs/{Path(files[0].path).stem}.jsonl")
        return examine(words, extra={**extra, **flags}, models=models, as_json=as_json)

    guarded(command)


def tools(flags: Flags) -> None:
    """Check every distinct tool schema of a file: by rules, and by compiling its grammar.

    Exits 1 when there are errors, and 2 when the file cannot be read.
    """
    run("palestra.cli.tool_schemas:check_tools", "ToolsArgs", flags)


def diagnose(flags: Flags) -> None:
    """Explain what went wrong in a run. Names layer, cause, evidence and what to do.

    Exits 1 when something is wrong, 0 when nothing was found.
    """
    run("palestra.cli.diagnosing:diagnose", "DiagnoseArgs", flags)

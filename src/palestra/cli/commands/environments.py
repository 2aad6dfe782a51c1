"""`palestra init`, `test`, `verify-env`, `skills`: the flags of the commands for environment
authors.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from palestra.cli.console import fail, guarded
from palestra.cli.flags import Configs, Flags, Overrides, run, settings_command, with_configs
from palestra.config import NamedFile
from palestra.errors import ConfigError

skills = typer.Typer(
    name="skills", help="Skills for coding agents: how to use Palestra.", no_args_is_help=True
)

SKILLS_FOLDER: Final = Path(".agents/skills")
"""The folder of a project in which coding agents look for skills."""


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    settings_command(app, "InitArgs")(init)
    settings_command(app, "TestArgs", name="test")(run_tests)
    settings_command(app, "VerifyEnvArgs", name="verify-env")(verify_env)
    app.add_typer(skills)


def init(flags: Flags) -> None:
    """Make a new environment. It passes its own tests from the start."""
    run("palestra.cli.scaffolding:init", "InitArgs", flags)


def run_tests(flags: Flags) -> None:
    """Run the tests of servers. Checks their examples, metrics, rollouts and READMEs, too."""
    run("palestra.cli.authoring:test_servers", "TestArgs", flags)


def verify_env(flags: Flags, overrides: Overrides = None, configs: Configs = None) -> None:
    """Test a verifier with right, wrong and hostile answers. Right ones must pass, the others must
    fail, and none may break it.
    """
    function = "palestra.cli.verifying:verify_env"
    _refuse_second_file(str(flags["environment"]), overrides or [])
    run(function, "VerifyEnvArgs", flags, with_configs(configs, overrides))


def _refuse_second_file(environment: str, words: Sequence[str]) -> None:
    """Exit with an error when a file is examined, and a word after it is a file, too."""
    files = [word for word in words if "=" not in word and NamedFile.parse(word) is not None]
    if files and NamedFile.parse(environment) is not None:
        fail(
            ConfigError(
                f"`palestra verify-env` examines one environment at a time: {environment}, or {files[0]}",
                hint=f"leave {files[0]} out; a command of its own examines it",
            )
        )


@skills.callback()
def _skills() -> None:
    """Skills for coding agents: how to use Palestra."""


@skills.command()
def install(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where to; Claude Code reads .claude/skills.")
    ] = SKILLS_FOLDER,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that were changed there.")
    ] = False,
) -> None:
    """Copy the skills into DIR. Each is a folder with a SKILL.md."""

    def command() -> int:
        from palestra.cli.authoring import install_skills

        return install_skills(folder, overwrite=overwrite)

    guarded(command)

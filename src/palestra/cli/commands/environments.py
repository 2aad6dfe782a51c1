"""`palestra init`, `test`, `verify-env`, `skills`: the flags of what authors of environments use."""

from pathlib import Path
from typing import Annotated, Final

import typer

from palestra.cli.console import guarded
from palestra.cli.flags import Configs, Overrides, with_configs

skills = typer.Typer(
    name="skills", help="Skills for coding agents: how to use Palestra.", no_args_is_help=True
)

SKILLS_FOLDER: Final = Path(".agents/skills")
"""Where coding agents look for a project's skills."""


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(init)
    app.command("test")(run_tests)
    app.command("verify-env")(verify_env)
    app.add_typer(skills)


def init(
    name: Annotated[str, typer.Argument(help="Its name, or resources_servers/NAME.")],
    config_only: Annotated[
        bool,
        typer.Option("--config-only", help="Only configs/NAME.yaml, for a folder with app.py."),
    ] = False,
) -> None:
    """Make the folder of a new environment, which passes its tests as it is."""

    def command() -> int:
        from palestra.cli.authoring import init as make

        return make(name, config_only=config_only)

    guarded(command)


def run_tests(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Environments' names or servers' folders; none: all of the project."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=1.0, help="Seconds that one folder's tests may take.")
    ] = 600.0,
    record: Annotated[
        bool,
        typer.Option("--record", help="First record example rollouts and metrics anew."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The results as JSON.")] = False,
) -> None:
    """Run servers' tests, and look at their examples, metrics, rollouts and READMEs."""

    def command() -> int:
        from palestra.cli.authoring import TestArgs, test_servers

        return test_servers(TestArgs(names or (), timeout, as_json=as_json, record=record))

    guarded(command)


def verify_env(
    environment: Annotated[
        str,
        typer.Argument(
            help="An environment's name, its folder, a Python file, or an instance of --config."
        ),
    ],
    overrides: Overrides = None,
    repeats: Annotated[int, typer.Option(min=2, help="How often an answer is verified.")] = 3,
    timeout: Annotated[
        float, typer.Option(min=0.001, help="Seconds that one answer may take.")
    ] = 60.0,
    hostile_seconds: Annotated[
        float, typer.Option(min=1.0, help="Seconds for all hostile answers together.")
    ] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
    configs: Configs = None,
) -> None:
    """Try a verifier: right answers pass, wrong and hostile ones do not, and nothing shakes it."""

    def command() -> int:
        from palestra.cli.verifying import VerifyEnvArgs
        from palestra.cli.verifying import verify_env as verify
        from palestra.conformance import ExaminationLimits

        limits = ExaminationLimits(timeout_s=timeout, repeats=repeats, hostile_s=hostile_seconds)
        args = VerifyEnvArgs(environment, limits, as_json=as_json)
        return verify(args, with_configs(configs, overrides))

    guarded(command)


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
    """Copy the skills into DIR, each a folder with a SKILL.md."""

    def command() -> int:
        from palestra.cli.authoring import install_skills

        return install_skills(folder, overwrite=overwrite)

    guarded(command)

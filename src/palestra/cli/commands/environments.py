"""`palestra verify-env`: the flags of the commands for authors of environments."""

from typing import Annotated

import typer

from palestra.cli.console import guarded
from palestra.cli.options import Configs, Overrides, with_configs


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("verify-env")(verify_env)


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
    ] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
    configs: Configs = None,
) -> None:
    """Try a verifier: right answers pass, wrong and hostile ones do not, and nothing shakes it."""

    def command() -> int:
        from palestra.cli.verifying import VerifyEnvArgs
        from palestra.cli.verifying import verify_env as verify
        from palestra.conformance import Limits

        limits = Limits(timeout_s=timeout, repeats=repeats)
        args = VerifyEnvArgs(environment, limits, as_json=as_json)
        return verify(args, with_configs(configs, overrides))

    guarded(command)

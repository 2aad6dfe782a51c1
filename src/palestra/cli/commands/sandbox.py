"""`palestra sandbox`: the flags of the commands about the sandbox for untrusted programs."""

from typing import Annotated

import typer

from palestra.cli.console import guarded

sandbox = typer.Typer(help="The sandbox for untrusted programs.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.add_typer(sandbox, name="sandbox")


@sandbox.callback()
def _group() -> None:
    """Keeps `serve` a command of its own while it is the only one."""


@sandbox.command()
def serve(
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 6000,
    token: Annotated[
        str, typer.Option(help="Asked of callers; default $PALESTRA_SANDBOX_TOKEN.")
    ] = "",
    at_once: Annotated[int, typer.Option(help="Programs at a time; default one per core.")] = 0,
    backend: Annotated[str, typer.Option(help="bubblewrap or process.")] = "bubblewrap",
) -> None:
    """Run other machines' programs in this machine's sandbox, until Ctrl-C.

    They find it by NEMO_SKILLS_SANDBOX_HOST and NEMO_SKILLS_SANDBOX_PORT.
    """

    def command() -> int:
        from palestra.cli.serving_sandbox import serve_sandbox

        return serve_sandbox(host, port, token=token, at_once=at_once, backend=backend)

    guarded(command)

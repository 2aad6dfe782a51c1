"""`sandbox serve`: this machine's sandbox, for programs of others."""

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from palestra.cli.console import guarded, notice

if TYPE_CHECKING:
    from palestra.sandbox import SandboxSettings

sandbox = typer.Typer(help="The sandbox for untrusted programs.", no_args_is_help=True)


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
    guarded(lambda: serve_sandbox(host, port, token=token, at_once=at_once, backend=backend))


def serve_sandbox(host: str, port: int, *, token: str, at_once: int, backend: str) -> int:
    """Serve until stopped. Raises ConfigError when it cannot."""
    from palestra.cli.loop import Stopped, run_to_end
    from palestra.errors import ConfigError
    from palestra.sandbox import SandboxSettings
    from palestra.sandbox.settings import TOKEN_VARIABLE
    from palestra.serving import LOOPBACK

    token = token or os.environ.get(TOKEN_VARIABLE, "")
    if host not in LOOPBACK and not token:
        raise ConfigError(
            f"the sandbox is to listen on {host}, and there is no token to protect it",
            hint=f"set {TOKEN_VARIABLE} to a long random text, here and where it is used",
        )
    if backend not in {"bubblewrap", "process"}:
        raise ConfigError(
            f"a sandbox service has no back end {backend!r}", hint="bubblewrap or process"
        )
    settings = SandboxSettings.model_validate({"backend": backend, "at_once": at_once})
    try:
        run_to_end(_serve(host, port, token, settings))
    except Stopped as stopped:
        notice("stopped")
        return 0 if stopped.signal is signal.SIGINT else stopped.exit_code
    return 0


async def _serve(host: str, port: int, token: str, settings: "SandboxSettings") -> None:
    from palestra.errors import ConfigError
    from palestra.sandbox import Sandbox
    from palestra.sandbox.service import SandboxService
    from palestra.serving.listener import serving
    from palestra.serving.sockets import holder_of, listen

    async with Sandbox(settings) as own:
        try:
            sock = listen(host, port)
        except OSError as error:
            held = f": {holder_of(port)} holds it" if holder_of(port) else ""
            raise ConfigError(f"cannot listen on {host}:{port} ({error}){held}") from error
        service = SandboxService(own, token=token)
        async with serving(service.app(), sock):
            at = f"{host}:{sock.getsockname()[1]}"
            notice(f"sandbox ({settings.backend}) ready at {at}; stop it with Ctrl-C")
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await service.aclose()

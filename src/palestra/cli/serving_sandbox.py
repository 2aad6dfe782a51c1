"""`sandbox serve`: this machine's sandbox, for programs of others."""

import asyncio
import os
import signal

from palestra.cli.console import notice
from palestra.cli.loop import Stopped, run_to_end
from palestra.errors import ConfigError
from palestra.sandbox import Sandbox, SandboxSettings
from palestra.sandbox.service import SandboxService
from palestra.sandbox.settings import TOKEN_VARIABLE
from palestra.serving import LOOPBACK
from palestra.serving.listener import serving
from palestra.serving.sockets import holder_of, listen


def serve_sandbox(host: str, port: int, *, token: str, at_once: int, backend: str) -> int:
    """Serve until stopped. Raises ConfigError when it cannot."""
    token = token or os.environ.get(TOKEN_VARIABLE, "")
    if backend not in {"bubblewrap", "process"}:
        raise ConfigError(
            f"a sandbox service has no back end {backend!r}", hint="bubblewrap or process"
        )
    if not token and (host not in LOOPBACK or backend == "process"):
        # Without isolation whoever reaches it is this user, and on loopback every program does.
        what = "run programs without isolation" if backend == "process" else f"listen on {host}"
        raise ConfigError(
            f"the sandbox is to {what}, and there is no token to protect it",
            hint=f"set {TOKEN_VARIABLE} to a long random text, here and where it is used",
        )
    settings = SandboxSettings.model_validate({"backend": backend, "at_once": at_once})
    try:
        run_to_end(_serve(host, port, token, settings))
    except Stopped as stopped:
        notice("stopped")
        return 0 if stopped.signal is signal.SIGINT else stopped.exit_code
    return 0


async def _serve(host: str, port: int, token: str, settings: SandboxSettings) -> None:
    async with Sandbox(settings) as own:
        try:
            sock = listen(host, port)
        except OSError as error:
            holder = holder_of(port)
            held = f": {holder} holds it" if holder else ""
            raise ConfigError(f"cannot listen on {host}:{port} ({error}){held}") from error
        async with SandboxService(own, token=token) as service, serving(service.app(), sock):
            at = f"{host}:{sock.getsockname()[1]}"
            notice(f"sandbox ({settings.backend}) ready at {at}; stop it with Ctrl-C")
            await asyncio.get_running_loop().create_future()

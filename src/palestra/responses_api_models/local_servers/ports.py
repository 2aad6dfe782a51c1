"""The port of a server that cannot be handed a socket: free before, and its own afterwards."""

import contextlib
import errno
import os

from palestra.errors import ConfigError, RunFailed
from palestra.fleet import holder_of, holders_of, listen


def free_port(host: str, port: int) -> int:
    """`port` when nobody has it, and for 0 one that was free a moment ago.

    Raises ConfigError, naming who has it, and for a host that is none of ours.
    """
    try:
        with contextlib.closing(listen(host, port)) as bound:
            return int(bound.getsockname()[1])
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise ConfigError(f"nothing can listen on {host}:{port}: {error.strerror}") from error
        holder = holder_of(port)
        raise ConfigError(
            f"port {port} of {host} is taken{holder and f' by {holder}'}",
            hint="end that first, or choose another --port; 0 takes a free one",
        ) from error


def require_own(port: int, group: int, *, name: str) -> None:
    """Raises RunFailed when what listens on `port` is known and none of the process group's."""
    holders = holders_of(port)
    if holders and not any(_is_in(holder, group) for holder in holders):
        raise RunFailed(
            f"port {port} is answered by {holder_of(port) or 'another process'}, not by the {name} "
            "that was started",
            hint="end that first, or choose another --port",
        )


def _is_in(process: int, group: int) -> bool:
    try:
        return os.getpgid(process) == group
    except ProcessLookupError:
        return False

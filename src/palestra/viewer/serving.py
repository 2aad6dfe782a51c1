"""Serves the viewer: the port, the printed address, the browser."""

import contextlib
import errno
import ipaddress
import os
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

import uvicorn

from palestra.errors import ConfigError
from palestra.system import raise_descriptor_limit
from palestra.viewer.access import Access, host_name, new_token
from palestra.viewer.app import make_app
from palestra.viewer.requests import Viewer

FIRST_PORT: Final = 7717
PORTS_TRIED: Final = 100
ENDING_S: Final = 1
LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Door:
    """Where the viewer answers. `port`: None takes 7717 or the next free one."""

    host: str = LOOPBACK
    port: int | None = None
    allowed_hosts: tuple[str, ...] = ()
    opens_browser: bool = True


def serve(viewer: Viewer, door: Door, print_line: Callable[[str], None]) -> None:
    """Answer requests until SIGINT or SIGTERM. `print_line`: prints a line for the user.

    Raises ConfigError: the port is taken.
    """
    raise_descriptor_limit()  # a visited run with many fields keeps as many columns open
    token = new_token()
    with contextlib.closing(listening_socket(door)) as listening:
        port = listening.getsockname()[1]
        address = f"http://{shown_host(door.host)}:{port}/#token={token}"
        access = Access(token, allowed_hosts(door))
        app = make_app(viewer, access)
        config = uvicorn.Config(
            app,
            log_level="critical",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=ENDING_S,
        )
        print_line(address)
        for line in ssh_lines(port, os.environ):
            print_line(line)
        with contextlib.closing(app), opened_browser(address, enabled=door.opens_browser):
            _run(_Server(config), listening)


class _Server(uvicorn.Server):
    """A server whose signals this module handles: the command ends with exit code 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End at SIGINT and SIGTERM, without raising them again."""
        is_main = threading.current_thread() is threading.main_thread()
        signals = (signal.SIGINT, signal.SIGTERM) if is_main else ()
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _run(server: uvicorn.Server, listening: socket.socket) -> None:
    server.run(sockets=[listening])


def listening_socket(door: Door) -> socket.socket:
    """Return a bound socket. Raises ConfigError: the port is taken, or there is no such address."""
    ports = range(FIRST_PORT, FIRST_PORT + PORTS_TRIED) if door.port is None else [door.port]
    problem: OSError | None = None
    for port in ports:
        try:
            return _bound(door.host, port)
        except OSError as error:
            problem = error
    if isinstance(problem, socket.gaierror) or (problem and problem.errno == errno.EADDRNOTAVAIL):
        raise ConfigError(
            f"--host: {door.host} is no address of this machine: {problem.strerror}",
            hint="leave --host out, or choose an address that this machine has",
        )
    where = f"port {door.port}" if door.port is not None else f"every port from {FIRST_PORT} on"
    reason = problem.strerror if problem is not None else "unknown"
    raise ConfigError(
        f"--port: {where} of {door.host} cannot be used: {reason}",
        hint="choose another with --port, or leave it out",
    )


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    return listening


def allowed_hosts(door: Door) -> frozenset[str]:
    """Return the host names that requests may use: those allowed, and the one that is printed."""
    names = {name.lower() for name in door.allowed_hosts}
    return frozenset({*names, host_name(shown_host(door.host).lower())})


def shown_host(host: str) -> str:
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_unspecified:
            return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def ssh_lines(port: int, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the command that reaches the viewer from the user's own machine, under SSH."""
    connection = environ.get("SSH_CONNECTION", "").split()
    if len(connection) == 4:
        user = environ.get("USER", "")
        destination = f"{user}@{connection[2]}" if user else connection[2]
        yield f"from your machine: ssh -N -L {port}:127.0.0.1:{port} {destination}"


@contextlib.contextmanager
def opened_browser(address: str, *, enabled: bool) -> Iterator[None]:
    """Open the address in a browser, where there is a terminal and a display.

    The browser gets a file that only this user can read, which redirects: the address has the
    token, and command lines are public.
    """
    if not (enabled and sys.stdout.isatty() and _has_display(os.environ)):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="palestra-view-") as folder:
        path = redirect_file(Path(folder), address)
        threading.Thread(target=webbrowser.open, args=(path.as_uri(),), daemon=True).start()
        yield


def redirect_file(folder: Path, address: str) -> Path:
    """Write a page that redirects to `address`, readable by this user only."""
    path = folder / "open.html"
    text = (
        '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0;url={escape(address)}">'
    )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return path


def _has_display(environ: Mapping[str, str]) -> bool:
    is_desktop = sys.platform == "darwin" or bool(
        environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    )
    return is_desktop and "SSH_CONNECTION" not in environ

"""Listening sockets. The parent binds each socket and passes it to the serving process, so that no
other program can take the port in between. Also finds the process that holds a busy port.
"""

import asyncio
import contextlib
import errno
import random
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import Receive, Scope, Send

from palestra.config import ConfigTree, InstanceConfig, ResolvedConfig, port_range
from palestra.errors import ConfigError, KnownCause
from palestra.transport import ASGIApp

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
"""Hosts that can be reached from this machine only."""

EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to
"""Hosts that mean all addresses of this machine. A server can listen on them, but a client cannot
call them."""

IN_FLIGHT_S: Final = 0.5
"""How long, in seconds, a server that closes waits for its requests in flight. A command that Ctrl-C
stops waits for its servers, and has 2 s for all that it does."""

BACKLOG = 4096
"""How many connections may wait to be accepted. A burst of thousands must not be refused."""


def http_url(host: str, port: int) -> str:
    """Return `http://host:port`, with brackets around an IPv6 address."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def reachable_host(host: str) -> str:
    """Return an address at which a server that listens on `host` can be called.

    For a server that listens on all addresses: this machine's address for outgoing connections,
    which other machines can reach too, or loopback when the machine has none.
    """
    if host not in EVERYWHERE:
        return host
    family, outside, inside = (
        (socket.AF_INET6, "2001:db8::1", "::1")
        if host == "::"
        else (socket.AF_INET, "192.0.2.1", "127.0.0.1")
    )
    # Connecting a datagram socket chooses a route and sends nothing.
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((outside, 9))
        return str(probe.getsockname()[0])
    return inside


def same_host(first: str, second: str) -> bool:
    """Whether both names mean this machine, or both mean the same other machine."""
    return first == second or (_is_here(first) and _is_here(second))


def _is_here(host: str) -> bool:
    return host in LOOPBACK or host in EVERYWHERE or host in {reachable_host(h) for h in EVERYWHERE}


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Port 0 takes any free port. Raises OSError when the port cannot be
    bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    sock.listen(BACKLOG)
    sock.setblocking(False)
    return sock


def listen_in_range(
    owner: str, host: str, low: int, high: int, taken_ports: Collection[int]
) -> socket.socket:
    """Return a listening socket for `owner` on a free port in `low..high`, except `taken_ports`.

    Raises ConfigError: the range has no free port, or `host` is not an address of this machine.
    """
    ports = [port for port in range(low, high + 1) if port not in taken_ports]
    random.shuffle(ports)
    for port in ports:
        try:
            return listen(host, port)
        except OSError as error:
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                raise _OF_SETTINGS.refusal(owner, host, port, error) from error
    raise ConfigError(
        f"no port between {low} and {high} is free on {host} for {owner}",
        hint="widen port_range_low..port_range_high",
    )


def holder_of(port: int) -> str:
    """Return a description of the process that listens on `port`; empty when it cannot be found."""
    for number in holders_of(port):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ")
            return f"process {number} ({command.decode(errors='replace').strip()[:120]})"
    return ""


def holders_of(port: int) -> list[int]:
    """Return the ids of the processes that listen on `port`, among those that we may inspect."""
    inodes = _listening_inodes(port)
    if not inodes:
        return []
    processes = Path("/proc").glob("[0-9]*")
    return [int(process.name) for process in processes if _files_of(process) & inodes]


def _files_of(process: Path) -> set[str]:
    """Return the targets of a process's file descriptors. Descriptors that close meanwhile are left
    out.
    """
    paths: set[str] = set()
    with contextlib.suppress(OSError):
        for fd in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                paths.add(str(fd.readlink()))
    return paths


def _listening_inodes(port: int) -> set[str]:
    inodes: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            if columns[3] == "0A" and int(columns[1].rsplit(":", 1)[1], 16) == port:
                inodes.add(f"socket:[{columns[9]}]")
    return inodes


DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 11000


def check_hosts(config: ResolvedConfig, token: str) -> None:
    """Raise ConfigError when a server can be reached from other machines and the fleet has no
    token.
    """
    outside = [
        f"{instance.name} ({instance.host})"
        for instance in config.instances.values()
        if instance.placement != "remote" and instance.host not in LOOPBACK
    ]
    if outside and not token:
        raise ConfigError(
            f"not on loopback, and no token to protect it: {', '.join(outside)}",
            hint="set ++fleet_token=<a long random text>, the same for every command",
            cause=KnownCause.NO_TOKEN,
        )


@dataclass(frozen=True, slots=True)
class ListenRemedies:
    """What a user can do about an address at which nothing can listen."""

    port: str
    """For a port that another process uses."""
    host: str
    """For a host that is not this machine, or a port that needs rights."""
    holder: Callable[[int], str]
    """Returns who uses a port; empty when it is not known."""

    def refusal(self, owner: str, host: str, port: int, error: OSError) -> ConfigError:
        """Return the error of `owner`, which cannot listen at an address."""
        is_taken = error.errno == errno.EADDRINUSE
        holder = self.holder(port) or "another program" if is_taken else ""
        uses = f"; {holder} uses this port" if is_taken else ""
        message = f"{owner} cannot listen on {host}:{port}: {error.strerror}{uses}"
        return ConfigError(message.lstrip(), hint=self.port if is_taken else self.host)


_OF_FLAGS: Final = ListenRemedies(
    port="stop that process, or choose another --port; `--port 0` takes a free one",
    host="give an address of this machine with --host, and a port that you may use with --port",
    holder=holder_of,
)
_OF_SETTINGS: Final = ListenRemedies(
    port="choose another port, or leave `port` out to get a free one",
    host="`host` (or default_host) must be an address of this machine, and `port` one that you may use",
    holder=holder_of,
)


def listen_at(
    host: str, port: int, *, remedies: ListenRemedies = _OF_FLAGS, owner: str = ""
) -> socket.socket:
    """Listen at the address that a user chose. `remedies`: how to choose another; by default with a
    command's flags `--host` and `--port`. `owner`: the server that would listen.

    Raises ConfigError: another process uses the port (the error names it), or `host` is not an
    address of this machine.
    """
    try:
        return listen(host, port)
    except OSError as error:
        raise remedies.refusal(owner, host, port, error) from error


def listen_for(instance: InstanceConfig, count: int, config: ResolvedConfig) -> list[socket.socket]:
    """Return `count` listening sockets for an instance. The first one uses the instance's `port`,
    if it is set.

    Raises ConfigError when this port, or every port of the range, is taken.
    """
    tree = config.tree
    low, high = port_range(tree)
    reserved = {
        instance.port for instance in config.instances.values() if instance.port is not None
    }
    reserved |= {*(tree.get("disallowed_ports") or ()), HeadAddress.from_tree(tree).port}
    with contextlib.ExitStack() as opened:
        sockets: list[socket.socket] = []
        for index in range(count):
            if instance.port is not None and index == 0:
                sock = listen_at(
                    instance.host, instance.port, remedies=_OF_SETTINGS, owner=instance.name
                )
            else:
                sock = listen_in_range(instance.name, instance.host, low, high, reserved)
            sockets.append(opened.enter_context(sock))
        opened.pop_all()
    return sockets


@dataclass(frozen=True, slots=True)
class HeadAddress:
    """The address at which the head server listens, and at which a command looks for its fleet.

    Port 0: the fleet chooses any free port, and a command uses the only fleet that runs on this
    machine.
    """

    host: str
    port: int
    token: str = field(default="", repr=False)
    """The token that every request to the fleet must carry. Empty when none is needed."""

    @classmethod
    def from_tree(cls, tree: ConfigTree) -> "HeadAddress":
        """Return the address from the settings `head_server.host`, `head_server.port` and
        `fleet_token`.
        """
        settings = tree.get("head_server") or {}
        host = str(settings.get("host") or tree.get("default_host") or DEFAULT_HOST)
        port = settings.get("port")
        port = DEFAULT_PORT if port is None or port == "" else int(port)
        return cls(host, port, str(tree.get("fleet_token") or ""))

    @property
    def url(self) -> str:
        """The URL `http://host:port` for requests to the head."""
        return http_url(reachable_host(self.host), self.port)


class _QuietServer(uvicorn.Server):
    """uvicorn without its own signal handlers and timer: the fleet decides when to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stopping = asyncio.Event()

    def cut(self) -> None:
        """Disconnect all callers, and cancel the requests in flight."""
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        for request in list(self.server_state.tasks):
            request.cancel()

    async def main_loop(self) -> None:
        await self.stopping.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, sock: socket.socket) -> AsyncIterator[None]:
    """Serve `app` on `sock` while the body runs. Then close the server; requests still in flight
    are cut after `IN_FLIGHT_S`.

    An exception of the body is raised unchanged, after the server has closed.
    """
    config = uvicorn.Config(
        _ending_quietly(app),
        lifespan="off",
        log_level="warning",
        access_log=False,
        # Longer than our client keeps a connection, so that the client is the one to close it.
        timeout_keep_alive=30,
        # For a request that swallows its cancellation.
        timeout_graceful_shutdown=1,
        ws="none",
        backlog=BACKLOG,
        server_header=False,
        # Nothing here asks where a proxy had it from, and reading that costs every request.
        proxy_headers=False,
        date_header=False,
    )
    server = _QuietServer(config)
    # No task group: it would cut the listener off when the body raises, its socket left open.
    listener = asyncio.create_task(server.serve(sockets=[sock]), name="listener")
    try:
        yield
    finally:
        server.stopping.set()
        cutting = asyncio.get_running_loop().call_later(IN_FLIGHT_S, server.cut)
        try:
            await listener
        finally:
            cutting.cancel()
            sock.close()


def _ending_quietly(app: ASGIApp) -> ASGIApp:
    """Return `app` without the CancelledError of a request that was cut: uvicorn would print it as
    a bug of the app.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await app(scope, receive, send)

    return answer

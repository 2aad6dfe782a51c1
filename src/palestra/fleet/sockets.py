"""Listening sockets: bound by the parent and handed to whoever serves, so no port is ever lost
between choosing it and using it; and a way to say who holds a busy one.
"""

import asyncio
import contextlib
import random
import resource
import socket
from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import uvicorn

from palestra.config import ConfigTree, InstanceConfig, ResolvedConfig
from palestra.errors import ConfigError, KnownCause
from palestra.transport import ASGIApp

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
"""Hosts that only this machine reaches."""

EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to
"""Hosts that mean every address of this machine: to listen on, not to call."""

BACKLOG = 4096
"""Connections waiting to be accepted; a burst of thousands must not be refused."""


def http_url(host: str, port: int) -> str:
    """`http://host:port`, with the brackets that IPv6 needs."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def reachable_host(host: str) -> str:
    """An address at which a server that listens on `host` can be called.

    For a server that listens everywhere: the address with which this machine goes out, as others
    can reach it there too; loopback when it has none.
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
    """Whether both mean this machine, or the same other one."""
    return first == second or (_is_here(first) and _is_here(second))


def _is_here(host: str) -> bool:
    return host in LOOPBACK or host in EVERYWHERE or host in {reachable_host(h) for h in EVERYWHERE}


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Port 0 takes any free one. Raises OSError when it cannot."""
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


def listen_in_range(host: str, low: int, high: int, taken_ports: Collection[int]) -> socket.socket:
    """A listening socket on a free port in `low..high`, avoiding `taken_ports`.

    Raises ConfigError when the range has no free port.
    """
    ports = [port for port in range(low, high + 1) if port not in taken_ports]
    random.shuffle(ports)
    for port in ports:
        try:
            return listen(host, port)
        except OSError:
            continue
    raise ConfigError(
        f"no port between {low} and {high} is free on {host}",
        hint="widen port_range_low..port_range_high",
    )


def holder_of(port: int) -> str:
    """Which process listens on `port`, in words; empty when that cannot be told."""
    for number in holders_of(port):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ")
            return f"process {number} ({command.decode(errors='replace').strip()[:120]})"
    return ""


def holders_of(port: int) -> list[int]:
    """The processes that listen on `port`, as far as we may look into them."""
    inodes = _listening_inodes(port)
    if not inodes:
        return []
    processes = Path("/proc").glob("[0-9]*")
    return [int(process.name) for process in processes if _files_of(process) & inodes]


def _files_of(process: Path) -> set[str]:
    """What its descriptors refer to; those that were closed while we looked are left out."""
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


def raise_descriptor_limit() -> int:
    """Raise this process's open-file limit as far as it may; the limit now in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 11000


def check_hosts(config: ResolvedConfig, token: str) -> None:
    """Raise ConfigError when a server is reachable from outside, and no token protects the fleet."""
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


def listen_for(instance: InstanceConfig, count: int, config: ResolvedConfig) -> list[socket.socket]:
    """So many listening sockets for an instance: the first on its `port`, where it has one.

    Raises ConfigError when that port, or the whole range of ports, is taken.
    """
    tree = config.tree
    low, high = tree.get("port_range_low") or 10001, tree.get("port_range_high") or 20000
    reserved = {
        instance.port for instance in config.instances.values() if instance.port is not None
    }
    reserved |= {*(tree.get("disallowed_ports") or ()), HeadAddress.from_tree(tree).port}
    with contextlib.ExitStack() as opened:
        sockets: list[socket.socket] = []
        for index in range(count):
            if instance.port is not None and index == 0:
                sock = _listen_on(instance.name, instance.host, instance.port)
            else:
                sock = listen_in_range(instance.host, int(low), int(high), reserved)
            sockets.append(opened.enter_context(sock))
        opened.pop_all()
    return sockets


def _listen_on(name: str, host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        holder = holder_of(port) or "another program"
        raise ConfigError(
            f"{name} cannot listen on {host}:{port}: {error.strerror}; {holder} holds it",
            hint="choose another port, or leave `port` out to get a free one",
        ) from error


@dataclass(frozen=True, slots=True)
class HeadAddress:
    """Where the head listens, and where a command looks for its fleet.

    Port 0 means any free one to the fleet, and the only fleet that runs here to a command.
    """

    host: str
    port: int
    token: str = field(default="", repr=False)
    """What the fleet asks its callers for; empty when it asks for nothing."""

    @classmethod
    def from_tree(cls, tree: ConfigTree) -> "HeadAddress":
        """As `head_server.host`, `head_server.port` and `fleet_token` say."""
        settings = tree.get("head_server") or {}
        host = str(settings.get("host") or tree.get("default_host") or DEFAULT_HOST)
        port = int(settings.get("port", DEFAULT_PORT))
        return cls(host, port, str(tree.get("fleet_token") or ""))

    @property
    def url(self) -> str:
        """`http://host:port`, to be called."""
        return http_url(reachable_host(self.host), self.port)


class _QuietServer(uvicorn.Server):
    """uvicorn without its own signal handlers and clock: the fleet decides when to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stopping = asyncio.Event()

    async def main_loop(self) -> None:
        await self.stopping.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, sock: socket.socket) -> AsyncIterator[None]:
    """Serve `app` on `sock` while the body runs; then close, in-flight requests cut after 2 s.

    What the body raises passes through as it is, after the same orderly end.
    """
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_level="warning",
        access_log=False,
        # Longer than our client keeps a connection, so that the client is the one to close it.
        timeout_keep_alive=30,
        timeout_graceful_shutdown=2,
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
        try:
            await listener
        finally:
            sock.close()

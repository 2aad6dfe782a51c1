"""Check the configured ports, and find free ports for the other servers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from palestra.config.keys import DEFAULT_HEAD_PORT, DEFAULT_HOST, DEFAULT_PORT_RANGE
from palestra.config.origins import Origins
from palestra.config.problems import raise_problems
from palestra.config.resolved import InstanceConfig, ResolvedConfig
from palestra.config.tree import ABSENT
from palestra.errors import ConfigError, Problem

_HEAD = "the head server"
_HEAD_PORT = ("head_server", "port")
_EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to


@dataclass(frozen=True, slots=True)
class _Claim:
    """A host and port that a server was explicitly given. `instance`: None of the head server."""

    owner: str
    host: str
    port: int
    ours: bool
    """Whether this machine binds the address; false for a remote server."""
    instance: InstanceConfig | None = None

    def located(self, message: str, origins: Origins) -> Problem:
        """Return a problem of this claim with the origin of its port."""
        problem = Problem(message)
        if self.instance is None:
            return origins.located(problem, *_HEAD_PORT)
        block = (self.instance.name, self.instance.type.value, self.instance.implementation)
        return origins.located(problem, *block, "port")

    def clashes(self, claim: "_Claim") -> bool:
        if self.port != claim.port:
            return False
        wildcard = not _EVERY_ADDRESS.isdisjoint((self.host, claim.host))
        return self.host == claim.host or (wildcard and self.ours and claim.ours)


def port_problem(port: Any) -> str | None:
    """Return why `port` is not a valid port, as text to follow its name; None when it is valid."""
    if isinstance(port, str) and port.isdecimal():
        return f"must be a number, not the text {port!r}; use ${{oc.decode:…}} around oc.env"
    if isinstance(port, bool) or not isinstance(port, int):
        return f"must be a whole number from 1 to 65535, not {port!r}"
    return None if 1 <= port <= 65535 else f"must be from 1 to 65535, not {port}"


def check_ports(
    tree: Mapping[Any, Any],
    instances: Mapping[str, InstanceConfig],
    origins: Origins | None = None,
) -> None:
    """Raise one error that lists all clashes, disallowed ports and invalid port settings. `origins`:
    of the values of the tree.
    """
    origins = origins or Origins()
    disallowed, problems = _disallowed(tree)
    head, head_problems = _head_address(tree)
    _, range_problems = _port_range(tree)
    problems = [
        origins.located(problem, *problem.key.split("."))
        for problem in (*problems, *head_problems, *range_problems)
    ]
    claims = list(_claims(head, instances))
    problems += [
        b.located(f"{a.owner} and {b.owner} both use {b.host}:{b.port}", origins)
        for index, b in enumerate(claims)
        for a in claims[:index]
        if a.clashes(b)
    ]
    problems += [
        claim.located(
            f"{claim.owner} uses port {claim.port}, which is in disallowed_ports", origins
        )
        for claim in claims
        if claim.ours and claim.owner != _HEAD and claim.port in disallowed
    ]
    raise_problems(problems)


def _claims(head: tuple[str, int], instances: Mapping[str, InstanceConfig]) -> Iterator[_Claim]:
    host, port = head
    if port:
        yield _Claim(_HEAD, _canonical(host), port, ours=True)
    for name, instance in instances.items():
        if instance.port is not None:
            ours = instance.placement != "remote"
            yield _Claim(name, _canonical(instance.host), instance.port, ours, instance)


def _canonical(host: str) -> str:
    return DEFAULT_HOST if host.lower() == "localhost" else host


def _head_address(tree: Mapping[Any, Any]) -> tuple[tuple[str, int], list[Problem]]:
    """Return host and port of the head server, and their problems. Port 0 means any free port."""
    problems: list[Problem] = []
    head = tree.get("head_server") or {}
    if not isinstance(head, Mapping):
        message = "head_server must be a mapping with host and port"
        problems.append(Problem(message, key="head_server"))
        head = {}
    host = head.get("host") or tree.get("default_host") or DEFAULT_HOST
    port = head.get("port", DEFAULT_HEAD_PORT)
    port = DEFAULT_HEAD_PORT if port is None or port == "" else port
    problem = None if port == 0 and port is not False else port_problem(port)
    if problem:
        message = f"head_server.port {problem} (or 0 for any free port)"
        problems.append(Problem(message, key=".".join(_HEAD_PORT)))
        port = 0
    return (str(host), int(port)), problems


def _disallowed(tree: Mapping[Any, Any]) -> tuple[frozenset[int], list[Problem]]:
    ports = tree.get("disallowed_ports") or []
    if not isinstance(ports, list) or not all(type(port) is int for port in ports):
        key = "disallowed_ports"
        return frozenset(), [Problem(f"{key} must be a list of numbers", key=key)]
    return frozenset(ports), []


def can_bind(host: str, port: int) -> bool:
    """Whether `port` is free on `host` now. An unknown host counts as not free."""
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As servers do: a port that only waits out an old connection is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def allocate_ports(
    config: ResolvedConfig,
    names: Iterable[str] | None = None,
    *,
    is_free: Callable[[str, int], bool] = can_bind,
    start: int | None = None,
) -> dict[str, int]:
    """Return the port of each named instance (default: all): the configured one, or a free one.

    Free ports lie in `port_range_low..port_range_high`, both included. Disallowed ports, ports
    configured for another instance and the head server's port are excluded. The search begins at
    `start` (default: a random port, so that fleets started together rarely collide). A port is only
    tested, not reserved: bind it soon, and allocate again if another process took it first.
    """
    import random

    low, high = port_range(config.tree)
    instances = [config.instance(n) for n in (config.instances if names is None else names)]
    begin = random.randrange(high - low + 1) if start is None else start - low
    ring = iter([low + (begin + i) % (high - low + 1) for i in range(high - low + 1)])
    taken_ports = _ports_in_use(config)
    ports: dict[str, int] = {}
    for instance in instances:
        port = instance.port
        if port is None:
            port = next(
                (p for p in ring if p not in taken_ports and is_free(instance.host, p)), None
            )
        if port is None:
            raise ConfigError(
                f"no free port for {instance.name} on {instance.host} in {low} to {high}",
                hint="widen port_range_low and port_range_high, or stop other servers",
            )
        ports[instance.name] = port
    return ports


def _ports_in_use(config: ResolvedConfig) -> frozenset[int]:
    explicit = {i.port for i in config.instances.values() if i.port is not None}
    (_, head), _ = _head_address(config.tree)
    return _disallowed(config.tree)[0] | explicit | {head}


def port_range(tree: Mapping[Any, Any]) -> tuple[int, int]:
    """Return the bounds of free ports, both included. Raises ConfigError: they are no ports."""
    bounds, problems = _port_range(tree)
    raise_problems(problems)
    return bounds


def _port_range(tree: Mapping[Any, Any]) -> tuple[tuple[int, int], list[Problem]]:
    """Return the bounds of free ports, both included, and their problems."""
    names = ("port_range_low", "port_range_high")
    settings = [tree.get(name, ABSENT) for name in names]
    bounds = [
        default if setting in (ABSENT, None, "") else setting
        for setting, default in zip(settings, DEFAULT_PORT_RANGE, strict=True)
    ]
    problems = [
        Problem(f"{name} {problem}", key=name)
        for name, bound in zip(names, bounds, strict=True)
        if (problem := port_problem(bound))
    ]
    if problems:
        return DEFAULT_PORT_RANGE, problems
    low, high = bounds
    if low > high:
        message = f"port_range_low {low} is above port_range_high {high}"
        return DEFAULT_PORT_RANGE, [Problem(message, key="port_range_low")]
    return (low, high), []

"""Find a fleet that already runs, and call it from another process."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, Self, final

import msgspec
import orjson

from palestra.config import ResolvedConfig, ServerType, origin_texts
from palestra.errors import (
    CallError,
    ConfigError,
    DeadlineExceeded,
    InfraError,
    KnownCause,
    PalestraError,
    Phrase,
    RunFailed,
    from_body,
)
from palestra.fleet.instance import InstanceState
from palestra.fleet.runfile import (
    EndedFleet,
    RunFile,
    live_run_files,
    read_ended_fleet,
    read_run_file,
)
from palestra.fleet.sockets import LOOPBACK, HeadAddress, same_host
from palestra.schema import JsonDict, JsonObject
from palestra.server import CHECK_PATH
from palestra.transport import BlockedServer, HttpRequest, HttpTransport, RetryReport, Target

HEAD_TIMEOUT_S = 5.0
LOOK_S: Final = 0.05
"""The interval in seconds between looks for the word of an ending fleet."""
BLOCKED_PATH: Final = "/blocked_servers"
CODE_PATH: Final = "/code"
ORIGINS_PATH: Final = "/config_origins"
START_AGAIN: Final = "start the servers again"
AGAIN: Final = "continue with --resume"


class NoFleet(RunFailed):
    """No fleet answers at the head's address."""

    cause = KnownCause.NO_FLEET


class ForeignFleet(ConfigError):
    """A server answers at the head's address, but it is not the fleet that was started from this
    machine.
    """

    cause = KnownCause.OTHER_FLEET


@dataclass(frozen=True, slots=True)
class AttachedFleet:
    """A running fleet: its configuration (YAML, secrets masked) and its instances."""

    address: HeadAddress
    config_yaml: str
    instances: tuple[JsonObject, ...]
    run: RunFile | None = None
    """The fleet's run file. None for a fleet on another machine."""

    def targets(self) -> dict[str, Target]:
        """Return the address of each instance. An instance without a URL lives inside its process
        and cannot be reached.
        """
        return {
            str(item["name"]): Target(
                str(item["name"]),
                str(item["server_type"]),
                tuple(item.get("urls") or (item["url"],)),
            )
            for item in self.instances
        }


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """The author's code that a server of a fleet runs: the digests of its files at the start of the
    fleet, by their names, and the files that have changed since.
    """

    digests: Mapping[str, str]
    changed: tuple[str, ...] = ()

    def as_json(self) -> JsonDict:
        """Return the fields for the head server's `CODE_PATH`."""
        return {"digests": dict(self.digests), "changed": list(self.changed)}


async def loaded_code(fleet: AttachedFleet, http: HttpTransport) -> dict[str, LoadedCode]:
    """Return the author's code that the servers of `fleet` run, by name; of those that have such
    code.
    """
    answer = await _get(http, fleet.address, CODE_PATH)
    if not isinstance(answer, Mapping) or "error" in answer:
        return {}  # a fleet of an earlier version
    return {
        name: LoadedCode(dict(code["digests"]), tuple(code["changed"]))
        for name, code in answer.items()
    }


@dataclass(frozen=True, slots=True)
class ConfigOrigins:
    """Where the settings of a fleet came from, which its configuration in YAML does not tell.

    `takers`: the blocks that are gone, as in `ResolvedConfig`. `secrets`: for each server the origins
    of its secrets, where they are known. `folder`: the fleet's, in which relative paths are.
    """

    takers: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    folder: str = ""

    @classmethod
    def of(cls, config: ResolvedConfig) -> Self:
        """Return the origins of `config`, now. Reads its files, because it tells their lines."""
        origins = {name: server.secret_origins() for name, server in config.instances.items()}
        texts = iter(origin_texts(list(chain.from_iterable(origins.values()))))
        secrets = {name: list(islice(texts, len(ours))) for name, ours in origins.items() if ours}
        return cls(config.takers, secrets, str(Path.cwd()))

    def masked(self, mask: Callable[[str], str]) -> JsonDict:
        """Return the fields for the head server's `ORIGINS_PATH`."""
        return {
            "takers": {name: mask(origin) for name, origin in self.takers.items()},
            "secrets": {name: list(map(mask, origins)) for name, origins in self.secrets.items()},
            "folder": self.folder,
        }

    def of_secrets(self, server: str) -> Sequence[str]:
        """Return where the secrets of `server` come from; nothing where it is not known."""
        return [self._from_here(origin) for origin in self.secrets.get(server, ())]

    def takers_from_here(self) -> dict[str, str]:
        """Return `takers` for a message of this process."""
        return {name: self._from_here(origin) for name, origin in self.takers.items()}

    def _from_here(self, origin: str) -> str:
        return origin if self.folder == str(Path.cwd()) else f"{origin} in {self.folder}"


async def config_origins(fleet: AttachedFleet, http: HttpTransport) -> ConfigOrigins:
    """Return where the settings of `fleet` came from; nothing when its head does not tell it, as that
    of an earlier version.
    """
    try:
        return msgspec.convert(await _get(http, fleet.address, ORIGINS_PATH), ConfigOrigins)
    except (PalestraError, msgspec.ValidationError):
        return ConfigOrigins()


async def attach(address: HeadAddress, http: HttpTransport) -> AttachedFleet:
    """Read the fleet's configuration and instances from the head server at `address`.

    Raises NoFleet when nothing answers, and ForeignFleet when another server or another fleet
    answers.
    """
    address, run = _locate(address)
    status = await _get(http, address, "/")
    if not isinstance(status, Mapping) or "nonce" not in status:
        raise ForeignFleet(
            Phrase(
                "the server at {url} is not the head server of a fleet (the servers that "
                "`palestra run` starts)",
                url=address.url,
            ),
            hint="choose another port with ++head_server.port=<port>",
        )
    if run is None:
        # The fleet may have come up between looking for its file and asking its head.
        run = _run_file(address)
    if run is None and address.host in LOOPBACK:
        raise ForeignFleet(
            f"the fleet at {address.url} belongs to another user or run directory",
            hint="set PALESTRA_RUN_DIR to the value that the fleet was started with",
        )
    if run is not None and status["nonce"] != run.nonce:
        raise ForeignFleet(
            f"the fleet at {address.url} is not the one that was started in this run directory "
            f"(process {run.pid}); another fleet uses its port now",
            hint="start your fleet again with ++head_server.port=0",
        )
    return AttachedFleet(
        address=address,
        config_yaml=str(await _get(http, address, "/global_config_dict_yaml")),
        instances=tuple(await _get(http, address, "/server_instances")),
        run=run,
    )


@final
class FleetNews:
    """What an attached command knows about the server processes of its fleet.

    `blocked`: the processes whose event loops did not run when the fleet was last asked.
    """

    def __init__(self, fleet: AttachedFleet, http: HttpTransport) -> None:
        self._fleet = fleet
        self._http = http
        self._asking: asyncio.Task[None] | None = None
        self._awaiting_end: asyncio.Task[None] | None = None
        self._stop_awaiting_at = 0.0
        self.blocked: tuple[BlockedServer, ...] = ()

    async def ask(self, within_s: float = 0.0) -> None:
        """Ask the fleet's head. Calls at the same time share one request. Raises RunFailed: the
        fleet has ended, or ends within `within_s` seconds; ServerDied when it was because of one of
        its servers.
        """
        await self._await_end(within_s)
        self.raise_if_ended()
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(), name="blocked servers")
        await asyncio.shield(self._asking)
        self.raise_if_ended()

    async def _await_end(self, within_s: float) -> None:
        """Wait until the fleet has left word of its end, at most `within_s` seconds. Calls at the
        same time share one reader of the file.
        """
        if within_s <= 0:
            return
        self._stop_awaiting_at = time.monotonic() + within_s
        if self._awaiting_end is None or self._awaiting_end.done():
            self._awaiting_end = asyncio.create_task(self._look_for_end(), name="end of fleet")
        # The task goes on for those that came later.
        await asyncio.wait({self._awaiting_end}, timeout=within_s)

    async def _look_for_end(self) -> None:
        # Another process writes the file: there is no event to wait for.
        while self._end() is None and time.monotonic() < self._stop_awaiting_at:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)

    def _end(self) -> EndedFleet | None:
        run = self._fleet.run
        return None if run is None else read_ended_fleet(run)

    def ending_failure(self) -> CallError | None:
        """Return the failure of the rollout whose call ended the fleet; None without one."""
        fleet_end = self._end()
        return None if fleet_end is None else from_body(fleet_end.failure)

    def raise_if_ended(self) -> None:
        """Raise the error with which the fleet ended, when it has left word of its end."""
        fleet_end = self._end()
        if fleet_end is None:
            return
        error = fleet_end.as_error()
        advice = AGAIN if fleet_end.servers_lived else START_AGAIN
        error.hint = "; ".join(filter(None, [error.hint, advice]))
        raise error

    async def _ask(self) -> None:
        # A head that does not answer is no news: what is known of its servers stays.
        with contextlib.suppress(PalestraError, KeyError, TypeError, ValueError):
            servers = await _get(self._http, self._fleet.address, BLOCKED_PATH)
            self.blocked = tuple(map(BlockedServer.from_json, servers))


def _locate(address: HeadAddress) -> tuple[HeadAddress, RunFile | None]:
    if address.port != 0:
        return address, _run_file(address)
    live = live_run_files()
    if not live:
        raise NoFleet(
            "no Palestra servers of yours are running", hint="start one with `palestra run`"
        )
    if len(live) > 1:
        listed = ", ".join(f"{run.port} (process {run.pid})" for run in live)
        raise ConfigError(
            f"several fleets are running; their head ports: {listed}",
            hint="choose one with ++head_server.port=<port>",
            cause=KnownCause.OTHER_FLEET,
        )
    return HeadAddress(live[0].host, live[0].port, address.token), live[0]


def _run_file(address: HeadAddress) -> RunFile | None:
    """Return the run file on this machine for the fleet at `address`. A run file with the same port
    and another host belongs to another fleet.
    """
    run = read_run_file(address.port)
    return run if run is not None and same_host(run.host, address.host) else None


async def _get(http: HttpTransport, address: HeadAddress, path: str) -> Any:
    headers = {"authorization": f"Bearer {address.token}"} if address.token else {}
    try:
        request = HttpRequest(
            "GET", address.url + path, headers, timeout_s=HEAD_TIMEOUT_S, direct=True
        )
        reply = await http.send(request)
    except (InfraError, DeadlineExceeded) as error:
        raise NoFleet(
            f"no fleet answers at {address.url} ({error.message})",
            hint="start one with `palestra run`, or give config_paths to run the servers inside this "
            "command",
        ) from error
    if reply.status == 401:
        raise ConfigError(
            f"the fleet at {address.url} asks for its token",
            hint="give every command the same ++fleet_token",
            cause=KnownCause.NO_TOKEN,
        )
    try:
        return orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return None


PROBE_TIMEOUT_S = 5.0
ENDPOINT_TIMEOUT_S = 15.0
"""Timeout in seconds for a model server's endpoint check. It is longer because the model server may
first send a request to its endpoint."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The status of one server as seen from outside its process. `uptime_s` is in seconds."""

    name: str
    server_type: str
    url: str
    pid: int | None
    uptime_s: float
    state: InstanceState
    reason: str = ""
    endpoint: str = ""
    """For a model server: what its endpoint is and supports, or why this is unknown. Empty for
    other servers."""
    retries: str = ""
    """The requests that the server has sent again since its start, with the last reason and when the
    next one is due; empty without any."""

    @property
    def healthy(self) -> bool:
        """Whether the server answered the status request."""
        return self.state is InstanceState.HEALTHY


async def probe(fleet: AttachedFleet, http: HttpTransport) -> list[ServerStatus]:
    """Request the status of every instance now, and return the results in the fleet's order."""
    return list(await asyncio.gather(*(_probe_one(item, http) for item in fleet.instances)))


def summary_line(statuses: list[ServerStatus]) -> str:
    """Return the summary line that scripts search for: the number of servers, healthy and
    unhealthy.
    """
    healthy = sum(status.healthy for status in statuses)
    return f"{len(statuses)} servers found ({healthy} healthy, {len(statuses) - healthy} unhealthy)"


async def _probe_one(item: JsonObject, http: HttpTransport) -> ServerStatus:
    state, reason, retries = InstanceState(item["status"]), str(item.get("reason") or ""), ""
    if state is InstanceState.HEALTHY and item["url"]:
        try:
            request = HttpRequest("GET", f"{item['url']}/", timeout_s=PROBE_TIMEOUT_S, direct=True)
            reply = await http.send(request)
        except CallError as error:
            state, reason = InstanceState.UNHEALTHY, error.message
        else:
            if reply.status >= 500:
                state, reason = InstanceState.UNHEALTHY, f"GET / answered {reply.status}"
            retries = str(RetryReport.from_status(reply.body) or "")
    return ServerStatus(
        name=str(item["name"]),
        server_type=str(item["server_type"]),
        url=str(item["url"]),
        pid=item.get("pid"),
        uptime_s=float(item.get("uptime_seconds") or 0),
        state=state,
        reason=reason,
        endpoint=await _endpoint(item, http) if state is InstanceState.HEALTHY else "",
        retries=retries,
    )


async def _endpoint(item: JsonObject, http: HttpTransport) -> str:
    if item["server_type"] != ServerType.MODEL or not item["url"]:
        return ""
    try:
        request = HttpRequest(
            "GET", f"{item['url']}{CHECK_PATH}", timeout_s=ENDPOINT_TIMEOUT_S, direct=True
        )
        reply = await http.send(request)
    except CallError as error:
        return error.message
    try:
        body = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return ""
    if reply.status == 200:
        return str(body.get("endpoint") or "") if isinstance(body, dict) else ""
    failure = from_body(body)
    return failure.message if failure is not None else ""

"""Lets a client use a fleet that runs elsewhere (`palestra run`)."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, final

import yaml

from palestra.errors import PalestraError, ServerDied
from palestra.fleet import (
    AttachedFleet,
    ChildExit,
    HeadAddress,
    InstanceState,
    RunningInstance,
    attach,
    http_transport,
    read_ended_fleet,
    server_client,
)
from palestra.transport import HttpTransport, ServerClient

LOOK_EVERY_S: Final = 1.0
FORGIVEN: Final = 2
"""The number of failed polls in a row that are tolerated: the head may be busy."""


@final
class AttachedServers:
    """A running fleet, polled at intervals: another process watches its servers."""

    def __init__(
        self,
        fleet: AttachedFleet,
        client: ServerClient,
        http: HttpTransport,
        *,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        self.client: ServerClient = client
        self.instances: Mapping[str, RunningInstance] = _instances(fleet)
        self.ending: ChildExit | None = None
        self._address = fleet.address
        self._run = fleet.run
        self._http = http
        self._every_s = every_s

    async def watch(self) -> None:
        """Wait until the fleet, or one of its servers, has ended.

        Raises ServerDied. Raises RunFailed: the fleet ended, and none of its servers had died.
        """
        silent = 0
        while True:
            await asyncio.sleep(self._every_s)
            try:
                self.instances = _instances(await attach(self._address, self._http))
                silent = 0
            except (PalestraError, OSError) as error:
                self._raise_if_ended(error)
                silent += 1
                if silent > FORGIVEN:
                    raise ServerDied(
                        f"the fleet at {self._address.url} does not answer any more: {error}",
                        hint="see the last lines that `palestra run` printed",
                    ) from error
                continue
            dead = [item for item in self.instances.values() if item.state is InstanceState.DEAD]
            if dead:
                self.ending = _ending_of(dead[0])
                raise ServerDied(
                    f"server {dead[0].name} (process {dead[0].pid}) ended with {dead[0].reason}",
                    hint="see its last lines in the output of `palestra run`",
                )

    def _raise_if_ended(self, error: Exception) -> None:
        """Raise an error when the fleet is known to have ended; else return.

        Raises ServerDied, with the server that ended the fleet. Raises RunFailed: no server had
        died.
        """
        run = self._run
        if run is None:
            return
        fleet_end = read_ended_fleet(run)
        if fleet_end is not None:
            if fleet_end.server:
                self.ending = ChildExit(
                    fleet_end.server,
                    fleet_end.returncode,
                    fleet_end.last_lines,
                    pid=fleet_end.server_pid,
                )
            raise fleet_end.as_error() from error
        if not run.alive():
            raise ServerDied(
                f"the fleet at {self._address.url} is gone: its own process {run.pid} (`palestra "
                "run`) ended without a message, probably by SIGKILL",
                hint="look for the kernel's out-of-memory message (dmesg)",
            ) from error


@contextlib.asynccontextmanager
async def attached(
    address: HeadAddress | None = None, *, every_s: float = LOOK_EVERY_S
) -> AsyncIterator[AttachedServers]:
    """Connect to the fleet whose head is at `address`; by default the only fleet on this machine.

    Raises NoFleet, ForeignFleet and ConfigError, like `palestra.fleet.attach`.
    """
    http = http_transport({})
    try:
        fleet = await attach(address or HeadAddress.from_tree({}), http)
        tree: Any = yaml.safe_load(fleet.config_yaml) or {}
        client = server_client(fleet.targets(), tree, token=fleet.address.token, http=http)
        yield AttachedServers(fleet, client, http, every_s=every_s)
    finally:
        await http.aclose()


def _ending_of(instance: RunningInstance) -> ChildExit | None:
    """Return how the instance's process ended, parsed from the fleet's text."""
    how, _, what = instance.reason.rpartition(" ")
    number = int(what) if what.isdecimal() else int(getattr(signal.Signals, what, 0))
    if not number or how not in {"signal", "exit code"}:
        return None
    returncode = -number if how == "signal" else number
    # What it printed went to its fleet.
    return ChildExit(instance.name, returncode, (), pid=instance.pid)


def _instances(fleet: AttachedFleet) -> dict[str, RunningInstance]:
    return {
        str(item["name"]): RunningInstance(
            name=str(item["name"]),
            server_type=str(item["server_type"]),
            implementation=str(item.get("implementation") or ""),
            placement=str(item.get("placement") or ""),
            urls=tuple(item.get("urls") or ()),
            pid=item.get("pid"),
            state=InstanceState(item.get("status") or InstanceState.HEALTHY),
            reason=str(item.get("reason") or ""),
            is_shipped=item.get("is_shipped") is True,
        )
        for item in fleet.instances
    }

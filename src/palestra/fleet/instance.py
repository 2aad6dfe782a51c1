"""One running instance, as the head server and the status command report it."""

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from palestra.schema import JsonDict

STUCK_AFTER_S: Final = 10.0
"""An instance is stuck when its event loop has not run for this many seconds."""


class InstanceState(StrEnum):
    """The state of an instance.

    The fleet stores it in `Fleet.instances[name].state`, and the cause in `reason` of the same
    object. The head server returns both as `status` and `reason` of `/server_instances`.
    """

    STARTING = "starting"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    STUCK = "stuck"
    """The process lives, but its event loop has not run for `STUCK_AFTER_S`. The state returns to
    healthy when the loop runs again. Meanwhile `reason` contains what the process is executing."""
    DEAD = "dead"


@dataclass(slots=True)
class RunningInstance:
    """The status of one instance. `started` is in seconds since the epoch.

    `urls` has one entry per worker. It is empty when the instance can only be reached in-process.
    """

    name: str
    server_type: str
    implementation: str
    placement: str
    urls: tuple[str, ...] = ()
    pid: int | None = None
    started: float = 0.0
    state: InstanceState = InstanceState.STARTING
    reason: str = ""
    is_shipped: bool = False
    """Whether the instance's code is part of Palestra."""
    role: str = ""
    """For a model that environments ask: `judge`, or `policy and judge`."""

    def as_json(self) -> JsonDict:
        """Return the instance's fields for the head server's `/server_instances`."""
        url = self.urls[0] if self.urls else ""
        host, _, port = url.rpartition("://")[2].rpartition(":")
        return {
            "process_name": self.name,
            "name": self.name,
            "server_type": self.server_type,
            "type": self.server_type,
            "implementation": self.implementation,
            "placement": self.placement,
            "url": url,
            "urls": list(self.urls),
            "host": host,
            "port": int(port) if port.isdigit() else None,
            "pid": self.pid,
            "start_time": self.started,
            "uptime_seconds": round(time.time() - self.started, 1) if self.started else 0.0,
            "status": self.state.value,
            "reason": self.reason,
            "is_shipped": self.is_shipped,
        }

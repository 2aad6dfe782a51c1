"""One running instance as the head server and the status command describe it."""

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from palestra.schema import JsonDict

STUCK_AFTER_S: Final = 10.0
"""An instance whose event loop has not run for so long is stuck."""


class InstanceState(StrEnum):
    """Where an instance is in its life.

    The fleet keeps it in `Fleet.instances[name].state`, with the reason beside it; the head server
    publishes both as `status` and `reason` of `/server_instances`.
    """

    STARTING = "starting"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    STUCK = "stuck"
    """Its process lives, and its event loop has not run for `STUCK_AFTER_S`. It is healthy again
    when the loop goes on; `reason` says what it does meanwhile."""
    DEAD = "dead"


@dataclass(slots=True)
class RunningInstance:
    """Status of one instance; `started` is seconds since the epoch.

    `urls` has one entry per worker, and none when the instance can only be reached in-process.
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
    """Whether its code came with Palestra."""

    def as_json(self) -> JsonDict:
        """The fields of the head server's `/server_instances`."""
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

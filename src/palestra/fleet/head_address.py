"""Where a fleet's head server is: the one place that reads it from a configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from palestra.fleet.sockets import http_url, reachable_host

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 11000


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
    def from_tree(cls, tree: Mapping[str, Any]) -> "HeadAddress":
        """As `head_server.host`, `head_server.port` and `fleet_token` say."""
        settings = tree.get("head_server") or {}
        host = str(settings.get("host") or tree.get("default_host") or DEFAULT_HOST)
        port = int(settings.get("port", DEFAULT_PORT))
        return cls(host, port, str(tree.get("fleet_token") or ""))

    @property
    def url(self) -> str:
        """`http://host:port`, to be called."""
        return http_url(reachable_host(self.host), self.port)

"""What a server process is told to do, by the fleet that starts it."""

from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What one server process is to do. `targets`: instance -> (server type, urls)."""

    instance: str
    tree: dict[str, Any]
    targets: dict[str, tuple[str, list[str]]]
    fd: int
    secret: str
    token: str

    def encode(self) -> bytes:
        """One line of JSON."""
        return orjson.dumps(
            [self.instance, self.tree, self.targets, self.fd, self.secret, self.token],
            option=orjson.OPT_NON_STR_KEYS,
        )

    @classmethod
    def decode(cls, line: bytes) -> "WorkOrder":
        """The inverse of `encode`."""
        return cls(*orjson.loads(line))

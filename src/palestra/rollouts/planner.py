"""Who plans a run: told by the name of its new inputs, so that a killed command's are removed."""

import os
import socket
from dataclasses import dataclass
from hashlib import blake2b
from typing import Self

from palestra.system import born_at


@dataclass(frozen=True, slots=True)
class Planner:
    """A process on a machine."""

    machine: str
    """A digest of its host name: names may be long, and file names may not."""
    pid: int

    @classmethod
    def this(cls) -> Self:
        """The process that asks."""
        name = socket.gethostname().encode()
        return cls(blake2b(name, digest_size=4).hexdigest(), os.getpid())

    def token(self, salt: str) -> str:
        """Part of a file name; `salt` tells the plans of one process apart."""
        return f"{self.machine}-{self.pid}-{salt}"

    @classmethod
    def of(cls, token: str) -> Self:
        """The planner that made `token`; one on no machine where none did."""
        machine, _, rest = token.partition("-")
        pid = rest.partition("-")[0]
        return cls(machine, int(pid)) if pid.isdecimal() else cls("", 0)

    def is_gone(self) -> bool:
        """Whether it is known to have ended: of another machine nothing is known."""
        if self.machine != Planner.this().machine:
            return False
        return not born_at(self.pid)

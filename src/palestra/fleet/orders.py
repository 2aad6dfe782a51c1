"""What a server process is told to do, by the fleet that starts it."""

from dataclasses import dataclass

import orjson

from palestra.errors import ConfigError, PalestraError, ServerDied
from palestra.schema import JsonDict


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What one server process is to do. `targets`: instance -> (server type, urls)."""

    instance: str
    tree: JsonDict
    targets: dict[str, tuple[str, list[str]]]
    fd: int
    secret: str
    token: str
    worker: int | None = None
    """This process's number among the workers of its instance; None when it is the only one."""
    pulse: tuple[int, int] | None = None
    """File descriptors of the pulse that the fleet reads; None when nobody watches."""
    ray: str = ""
    """Where the fleet's Ray is, as `RayPlace.encode` says it."""

    @property
    def process_name(self) -> str:
        """The instance's name, with the number of the process where it has several."""
        return self.instance if self.worker is None else f"{self.instance}#{self.worker}"

    def encode(self) -> bytes:
        """One line of JSON."""
        return orjson.dumps(
            [
                self.instance,
                self.tree,
                self.targets,
                self.fd,
                self.secret,
                self.token,
                self.worker,
                self.pulse,
                self.ray,
            ],
            option=orjson.OPT_NON_STR_KEYS,
        )

    @classmethod
    def decode(cls, line: bytes) -> "WorkOrder":
        """The inverse of `encode`."""
        return cls(*orjson.loads(line))


REFUSAL_MARK = "\x1epalestra-refusal "
"""How a line begins with which a server process tells its fleet why it will not run."""


def refusal_line(error: PalestraError) -> str:
    """What a server process prints instead of a message that only people could read."""
    encoded = orjson.dumps([error.message, error.hint, error.exit_code]).decode()
    return REFUSAL_MARK + encoded


def read_refusal(server: str, line: str) -> PalestraError:
    """The error that `refusal_line` was made of, as the fleet raises it."""
    message, hint, code = orjson.loads(line.removeprefix(REFUSAL_MARK))
    if code == ConfigError.exit_code:
        return ConfigError(message, hint=hint)
    return ServerDied(f"server {server} could not run: {message}", hint=hint)

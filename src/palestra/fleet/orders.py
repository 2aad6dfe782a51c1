"""The work order that the fleet sends to a server process which it starts."""

from dataclasses import dataclass, field

import orjson

from palestra.errors import ConfigError, PalestraError, ServerDied, read_refusal
from palestra.schema import JsonDict


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """The instructions for one server process. `targets`: instance -> (server type, urls)."""

    instance: str
    tree: JsonDict
    targets: dict[str, tuple[str, list[str]]]
    fd: int
    secret: str
    token: str
    worker: int | None = None
    """This process's number among the workers of its instance. None when the instance has one
    process."""
    pulse: tuple[int, int] | None = None
    """File descriptors of the pulse that the fleet reads. None when no process watches this one."""
    ray: str = ""
    """The address of the fleet's Ray cluster, encoded by `RayPlace.encode`."""
    setting_files: dict[str, str] = field(default_factory=dict)
    """The config file that each of the instance's settings comes from, for messages."""
    file: str = ""
    """The config file with the instance's block; empty when no file has it."""
    setting_references: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The file and the key in it that each of the instance's settings refers to, for messages."""

    @property
    def process_name(self) -> str:
        """The instance's name, followed by the worker's number if the instance has several
        processes.
        """
        return self.instance if self.worker is None else f"{self.instance}#{self.worker}"

    def encode(self) -> bytes:
        """Return the order as one line of JSON."""
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
                self.setting_files,
                self.file,
                self.setting_references,
            ],
            option=orjson.OPT_NON_STR_KEYS,
        )

    @classmethod
    def decode(cls, line: bytes) -> "WorkOrder":
        """Return the order from the line that `encode` returned."""
        return cls(*orjson.loads(line))


def refusal_of(server: str, line: str) -> PalestraError:
    """Return the error from a line of `refusal_line`, as the fleet raises it."""
    message, hint, code = read_refusal(line)
    if code == ConfigError.exit_code:
        return ConfigError(message, hint=hint)
    if not message.startswith(f"{server} could not start"):
        message = f"server {server} could not run: {message}"
    return ServerDied(message, hint=hint)

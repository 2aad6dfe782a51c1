"""What the sandbox service and its client say to each other: JSON, with content in base64."""

import base64

from pydantic import BaseModel, ConfigDict

from palestra.sandbox.limits import Limits
from palestra.sandbox.program import Program

SERVICE = "palestra sandbox"
WITHIN_HEADER = "x-within-s"
RAW = "application/octet-stream"
"""The type of messages to programs, and of their answers."""


class ProgramMessage(BaseModel):
    """A program with its limits, and its standard input."""

    model_config = ConfigDict(extra="forbid")

    argv: list[str]
    files: dict[str, str] = {}
    env: dict[str, str] = {}
    limits: Limits
    stdin: str = ""
    rests: bool = False
    """Of a program to talk to: it needs a place only while it answers."""

    @classmethod
    def of(
        cls, program: Program, limits: Limits, stdin: bytes = b"", *, rests: bool = False
    ) -> "ProgramMessage":
        """The message about a program."""
        return cls(
            argv=list(program.argv),
            files={name: _text(content) for name, content in program.files.items()},
            env=dict(program.env),
            limits=limits,
            stdin=_text(stdin),
            rests=rests,
        )

    def program(self) -> Program:
        """The program. Raises ValueError when its files have no plain names, or no base64."""
        files = {name: _content(text) for name, text in self.files.items()}
        return Program(tuple(self.argv), files, self.env)

    def input(self) -> bytes:
        """Its standard input. Raises ValueError when that is no base64."""
        return _content(self.stdin)


class BegunConversation(BaseModel):
    """A conversation that has begun."""

    id: str
    lease_s: float
    """Seconds without a word from who began it after which it is ended."""


class ServiceStatus(BaseModel):
    """What the service says of itself."""

    service: str
    backend: str
    isolates: bool


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _content(text: str) -> bytes:
    return base64.b64decode(text, validate=True)

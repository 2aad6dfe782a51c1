"""The messages between the sandbox service and its client: JSON, with content in base64."""

import base64

from pydantic import BaseModel, ConfigDict

from palestra.sandbox.limits import Limits
from palestra.sandbox.program import Program

SERVICE = "palestra sandbox"
WITHIN_HEADER = "x-within-s"
RAW = "application/octet-stream"
"""The content type of messages to programs, and of their answers."""


class ProgramMessage(BaseModel):
    """A program with its limits and its standard input."""

    model_config = ConfigDict(extra="forbid")

    argv: list[str]
    files: dict[str, str] = {}
    env: dict[str, str] = {}
    limits: Limits
    stdin: str = ""
    rests: bool = False
    """For a conversation: the program needs a slot only while it answers a message."""

    @classmethod
    def of(
        cls, program: Program, limits: Limits, stdin: bytes = b"", *, rests: bool = False
    ) -> "ProgramMessage":
        """Return the message that describes a program."""
        return cls(
            argv=list(program.argv),
            files={name: _text(content) for name, content in program.files.items()},
            env=dict(program.env),
            limits=limits,
            stdin=_text(stdin),
            rests=rests,
        )

    def program(self) -> Program:
        """Return the program. Raises ValueError: a file has no plain relative name, or its content
        is not base64.
        """
        files = {name: _content(text) for name, text in self.files.items()}
        return Program(tuple(self.argv), files, self.env)

    def input(self) -> bytes:
        """Return the program's standard input. Raises ValueError: it is not base64."""
        return _content(self.stdin)


class BegunConversation(BaseModel):
    """The response to a started conversation: its id and its lease."""

    id: str
    lease_s: float
    """The conversation ends after this many seconds without a message or renewal from its client.
    """


class ServiceStatus(BaseModel):
    """The status of the service: its name, its backend, and whether it isolates programs."""

    service: str
    backend: str
    isolates: bool


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _content(text: str) -> bytes:
    return base64.b64decode(text, validate=True)

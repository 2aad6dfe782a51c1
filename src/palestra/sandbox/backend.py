"""The interface of every sandbox backend: run a program to its end, or exchange messages with one."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from palestra.errors import InfraError
from palestra.sandbox.limits import Limits, SandboxResult
from palestra.sandbox.program import Program


class Conversation(Protocol):
    """A running program that answers one message at a time.

    The program reads and writes frames (a length of four bytes, most significant first, then the
    content) on its standard input and output.
    """

    async def ask(self, message: bytes, /, *, within_s: float) -> bytes:
        """Send `message` and return the program's answer.

        Raises `ConversationEnded` when the program ended, was stopped, or did not answer in time.
        No further message can be sent then.
        """
        ...

    async def end(self) -> SandboxResult:
        """Stop the program if it still runs. Return how it ended, without its standard output."""
        ...


class ConversationEnded(Exception):
    """The program gave no answer. `end()` returns how the program ended."""


class ProgramNotStarted(InfraError):
    """The command cannot be executed, and the machine is not the cause: the command does not exist,
    is not a program, or has too long arguments.
    """

    reason = "program_not_started"


class Backend(Protocol):
    """A place where programs run. Its methods raise `InfraError` when the place itself fails."""

    @property
    def name(self) -> str:
        """The backend's name in the settings."""
        ...

    @property
    def isolates(self) -> bool:
        """Whether the backend protects the machine's files, network and processes from a hostile
        program.
        """
        ...

    async def run(self, program: Program, stdin: bytes, limits: Limits, /) -> SandboxResult:
        """Run a program to its end."""
        ...

    def converse(
        self, program: Program, limits: Limits, /, *, rests: bool
    ) -> AbstractAsyncContextManager[Conversation]:
        """Start a program that answers messages. It is stopped when the context ends.

        `rests`: the program may be idle for long, and needs a slot only while it answers. A backend
        that manages its own slots uses this.
        """
        ...

    async def aclose(self) -> None:
        """Release the backend's resources. Programs that still run are stopped."""
        ...

"""What every back end can do: run a program to its end, and hold a conversation with one."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from palestra.errors import InfraError
from palestra.sandbox.limits import Limits, SandboxResult
from palestra.sandbox.program import Program


class Conversation(Protocol):
    """A running program that answers message by message.

    The program reads and writes frames (four bytes of length, most significant first, then the
    content) on its standard input and output.
    """

    async def ask(self, message: bytes, /, *, within_s: float) -> bytes:
        """The program's answer to `message`.

        Raises `ConversationEnded` when there is none: the program has ended, or was stopped, or
        did not answer in time. Nothing can be asked after that.
        """
        ...

    async def end(self) -> SandboxResult:
        """Stop the program if it still runs; how it ended, without standard output."""
        ...


class ConversationEnded(Exception):
    """The program gave no answer. `end()` says how it ended."""


class ProgramNotStarted(InfraError):
    """No machine's fault: there is no such command, or it is no program, or it has too long words."""

    reason = "program_not_started"


class Backend(Protocol):
    """Where programs run. Methods raise `InfraError` when that place fails."""

    @property
    def name(self) -> str:
        """As settings name it."""
        ...

    @property
    def isolates(self) -> bool:
        """Whether a hostile program is kept from the machine's files, network and processes."""
        ...

    async def run(self, program: Program, stdin: bytes, limits: Limits, /) -> SandboxResult:
        """Run a program to its end."""
        ...

    def converse(
        self, program: Program, limits: Limits, /, *, rests: bool
    ) -> AbstractAsyncContextManager[Conversation]:
        """A program to talk to; it is stopped when the context ends.

        `rests`: it may do nothing for long, and needs a place only while it answers; a back end
        that has places of its own is to know.
        """
        ...

    async def aclose(self) -> None:
        """Let go of what the back end holds; programs that still run are stopped."""
        ...

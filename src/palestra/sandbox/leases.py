"""The conversations that a service holds for its clients, each for the time of a lease.

A client may disappear without ending its conversation. Then the conversation ends when its lease
expires, and its slot is free again. Every message and every renewal restarts the lease.
"""

import asyncio
import secrets
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import final

from palestra.errors import InfraError
from palestra.sandbox.backend import Conversation, ConversationEnded
from palestra.sandbox.limits import SandboxResult


@dataclass(slots=True)
class _Held:
    conversation: Conversation
    stack: AsyncExitStack
    lease_s: float
    answering: "asyncio.Future[bytes] | None" = None
    expiry: asyncio.TimerHandle | None = None


@final
class LeasedConversations:
    """The held conversations by id. The ids are random and cannot be guessed."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._held)

    def add(self, conversation: Conversation, stack: AsyncExitStack, *, lease_s: float) -> str:
        """Hold a conversation that is closed with `stack`, and return its id."""
        if self._closed:
            raise InfraError("the sandbox service is stopping")
        name = secrets.token_urlsafe(16)
        self._held[name] = _Held(conversation, stack.pop_all(), lease_s)
        self._begin_lease(name)
        return name

    async def ask(self, name: str, message: bytes, *, within_s: float) -> bytes:
        """Send a message and return the program's answer. Raises `ConversationEnded` when the
        conversation is over or the id is unknown, and ValueError while the program answers another
        message.

        Cancelling this call ends the conversation. Otherwise the next message would get the answer
        of this one.
        """
        leased = self._find(name)
        if leased.answering is not None:
            raise ValueError("the program has not answered the message before this one")
        self._end_lease(leased)
        leased.answering = asyncio.ensure_future(
            leased.conversation.ask(message, within_s=within_s)
        )
        try:
            return await leased.answering
        except asyncio.CancelledError:
            await self._forget(name)
            raise
        finally:
            leased.answering = None
            self._begin_lease(name)

    def renew(self, name: str) -> None:
        """Restart the conversation's lease. Raises `ConversationEnded` when the id is unknown."""
        leased = self._find(name)
        self._end_lease(leased)
        if leased.answering is None:
            self._begin_lease(name)

    async def end(self, name: str) -> SandboxResult:
        """Stop the program whose id is `name` and return how it ended. Raises `ConversationEnded`: no
        program has this id.
        """
        leased = self._find(name)
        del self._held[name]
        self._end_lease(leased)
        async with leased.stack:
            if leased.answering is not None:
                leased.answering.cancel()
                await asyncio.wait({leased.answering})
            return await leased.conversation.end()

    async def aclose(self) -> None:
        """End all conversations, and accept no new ones."""
        self._closed = True
        for name in list(self._held):
            await self._forget(name)
        if self._ending:
            await asyncio.wait(self._ending)

    def _find(self, name: str) -> _Held:
        leased = self._held.get(name)
        if leased is None:
            raise ConversationEnded
        return leased

    async def _forget(self, name: str) -> None:
        leased = self._held.pop(name, None)
        if leased is not None:
            self._end_lease(leased)
            await leased.stack.aclose()

    def _begin_lease(self, name: str) -> None:
        leased = self._held.get(name)
        if leased is not None:
            loop = asyncio.get_running_loop()
            leased.expiry = loop.call_later(leased.lease_s, self._expire, name)

    @staticmethod
    def _end_lease(leased: _Held) -> None:
        if leased.expiry is not None:
            leased.expiry.cancel()

    def _expire(self, name: str) -> None:
        ending = asyncio.ensure_future(self._forget(name))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

"""Connections to MCP servers: each rollout's own, or one that all rollouts share."""

import asyncio
from contextlib import AsyncExitStack
from typing import final

from palestra.responses_api_agents.mcp_agent.connection import Connection, McpServerSettings


@final
class SharedServers:
    """The shared connections of one agent, opened on their first use and anew when they broke."""

    def __init__(self) -> None:
        self._open: dict[str, Connection] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    async def connection(
        self, name: str, settings: McpServerSettings, rollout: AsyncExitStack
    ) -> Connection:
        """An open connection; one of the rollout's own is closed with `rollout`.

        Raises InfraError when the server cannot be reached.
        """
        if settings.shared:
            return await self._shared(name, settings)
        own = Connection(name, settings)
        rollout.push_async_callback(own.close)
        await own.open()
        return own

    async def close(self) -> None:
        """End all of them."""
        while self._open:
            _, connection = self._open.popitem()
            await connection.close()

    async def _shared(self, name: str, settings: McpServerSettings) -> Connection:
        async with self._opening.setdefault(name, asyncio.Lock()):
            found = self._open.get(name)
            if found is None or not found.alive:
                if found is not None:
                    await found.close()
                found = Connection(name, settings)
                await found.open()
                self._open[name] = found
            return found

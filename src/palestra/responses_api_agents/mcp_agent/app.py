"""`McpAgent`: the loop of `SimpleAgent`, with tools that are found over MCP.

Tools come from the environment's `/mcp`, in the rollout's session, and from the MCP servers of
the settings. A row that names no tools gets all of them; a row that names some gets those. What
no MCP server offers is asked of the environment, as `simple_agent` does.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import cached_property

from pydantic import Field

from palestra.responses_api_agents.mcp_agent.connection import (
    McpServerSettings,
    SharedServers,
    required_library,
)
from palestra.responses_api_agents.mcp_agent.toolbox import EnvironmentTools, OutsideTools, Toolbox
from palestra.responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig
from palestra.schema import Response, ResponseCreateParams, changed
from palestra.transport import Peer


class McpAgentConfig(SimpleAgentConfig):
    """Settings of the agent, beside those of the simple one."""

    environment_tools: bool = True
    """Use the tools at the environment's `/mcp`; it must have `expose_tools_over_mcp: true`."""

    mcp_servers: Mapping[str, McpServerSettings] = Field(default_factory=dict)
    """MCP servers by name, whose tools the model may call too."""


class McpAgent(SimpleAgent):
    """See the module's docstring."""

    config: McpAgentConfig

    async def start(self) -> None:
        """Find the library that talks to MCP servers, before the first row."""
        if self.config.mcp_servers:
            required_library()

    async def stop(self) -> None:
        """End the connections that rollouts share."""
        await self._shared.close()

    @cached_property
    def _shared(self) -> SharedServers:
        return SharedServers()

    async def respond(
        self, params: ResponseCreateParams, *, environment: Peer, model: Peer
    ) -> Response:
        """The loop of `SimpleAgent` with the tools found. Raises as that does."""
        async with AsyncExitStack() as connections:
            toolbox = Toolbox(environment)
            if self.config.environment_tools:
                await toolbox.add(EnvironmentTools(environment))
            for name, settings in self.config.mcp_servers.items():
                connection = await self._shared.connection(name, settings, connections)
                await toolbox.add(OutsideTools(connection))
            if not params.tools:
                params = changed(params, {"tools": toolbox.entries})
            return await self.play(params, model, toolbox.call)

"""`McpAgent`: the loop of `SimpleAgent`, with tools that it lists over MCP.

The tools come from the environment's `/mcp`, in the rollout's session, and from the MCP servers in
the settings. A row without tools gets all of them; a row with tools keeps its own list. A call of a
tool that no MCP server lists goes to the environment, as in `simple_agent`.
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
    """The settings of `McpAgent`, in addition to those of `SimpleAgent`."""

    environment_tools: bool = True
    """Whether to use the tools at the environment's `/mcp`; the environment must set
    `expose_tools_over_mcp: true`."""

    mcp_servers: Mapping[str, McpServerSettings] = Field(default_factory=dict)
    """More MCP servers, by name. The model may call their tools too."""


class McpAgent(SimpleAgent):
    """A tool-calling agent whose tools come from MCP servers; see the module's docstring."""

    config: McpAgentConfig

    async def start(self) -> None:
        """Check, before the first row, that the `mcp` library is installed if `mcp_servers` are
        set.
        """
        if self.config.mcp_servers:
            required_library()

    async def stop(self) -> None:
        """Close the connections that rollouts share."""
        await self._shared.close()

    @cached_property
    def _shared(self) -> SharedServers:
        return SharedServers()

    async def respond(
        self, params: ResponseCreateParams, *, environment: Peer, model: Peer
    ) -> Response:
        """Run the loop of `SimpleAgent` with the tools of all sources.

        Raises the same errors as `SimpleAgent.respond`.
        """
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

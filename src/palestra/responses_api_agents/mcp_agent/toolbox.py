"""The tools of one rollout, collected from several sources under unique names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

from pydantic import Field

from palestra.errors import CallError, WrongSetting
from palestra.responses_api_agents.mcp_agent.connection import McpConnection, NoAnswerInTime
from palestra.schema import FunctionTool, JsonDict, JsonObject, WireModel, encode_json
from palestra.transport import Peer

if TYPE_CHECKING:
    from mcp.types import CallToolResult

_MCP = "/mcp"


@dataclass(frozen=True, slots=True)
class Offered:
    """One tool, as its server describes it."""

    name: str
    description: str
    parameters: JsonObject


class ToolSource(Protocol):
    """A server that provides tools."""

    @property
    def name(self) -> str:
        """The server's name."""

    async def offered(self) -> Sequence[Offered]:
        """Return the server's tools. Raises `CallError`: the server does not list them."""

    async def call(self, tool: str, arguments: JsonObject, /) -> str:
        """Return the output of a tool, including the tool's errors.

        Raises `CallError`: the tool gave no answer.
        """


@final
class Toolbox:
    """The tools of several sources. When two tools have the same name, the later one is named
    `<server>__<tool>`.
    """

    def __init__(self, environment: Peer) -> None:
        self._environment = environment
        self._tools: dict[str, tuple[ToolSource, str]] = {}
        self.entries: list[FunctionTool] = []
        """What the model is told of them."""

    async def add(self, source: ToolSource) -> None:
        """Add the tools of `source`. Raises the errors of `source.offered`."""
        for tool in await source.offered():
            name = tool.name if tool.name not in self._tools else f"{source.name}__{tool.name}"
            self._tools[name] = (source, tool.name)
            self.entries.append(
                FunctionTool(
                    type="function",
                    name=name,
                    description=tool.description,
                    parameters=dict(tool.parameters),
                    strict=False,
                )
            )

    async def call(self, name: str, arguments: JsonObject) -> str:
        """Run a tool. When no source has the tool, the call goes to the environment."""
        source, tool = self._tools.get(name, (None, name))
        if source is None:
            return await self._environment.call_tool(name, arguments)
        return await source.call(tool, arguments)


class _Tool(WireModel):
    name: str
    description: str = ""
    inputSchema: JsonDict = Field(default_factory=dict)  # noqa: N815  # the wire's spelling


class _Part(WireModel):
    text: str = ""


class _Result(WireModel):
    tools: list[_Tool] = Field(default_factory=list)
    content: list[_Part] = Field(default_factory=list)


class _Refusal(WireModel):
    message: str = ""


class _Answer(WireModel):
    result: _Result | None = None
    error: _Refusal | None = None


@final
class EnvironmentTools:
    """The tools at the environment's `/mcp`, called in the rollout's session.

    The requests skip the MCP handshake, which Palestra's `/mcp` does not need.
    """

    def __init__(self, environment: Peer) -> None:
        self._environment = environment

    @property
    def name(self) -> str:
        """The instance name of the environment."""
        return self._environment.name

    async def offered(self) -> Sequence[Offered]:
        """Return the environment's tools.

        Raises WrongSetting: the environment does not provide its tools over MCP.
        """
        try:
            answer = await self._ask("tools/list", {})
        except CallError as error:
            statuses = {hop.status for hop in error.evidence.hops}
            if not statuses & {404, 405}:
                raise
            raise WrongSetting(
                f"{self.name} does not offer its tools over MCP",
                hint="set expose_tools_over_mcp: true on that server, or environment_tools: "
                "false on the agent",
                evidence=error.evidence,
            ) from error
        tools = answer.result.tools if answer.result else []
        return [Offered(tool.name, tool.description, tool.inputSchema) for tool in tools]

    async def call(self, tool: str, arguments: JsonObject, /) -> str:
        """Return the tool's text. An error from the server is returned as text too."""
        answer = await self._ask("tools/call", {"name": tool, "arguments": dict(arguments)})
        if answer.result is None:
            return _error(answer.error.message if answer.error else "no result")
        return "\n".join(part.text for part in answer.result.content)

    async def _ask(self, method: str, params: JsonObject) -> _Answer:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self._environment.call(_MCP, message, _Answer)


@final
class OutsideTools:
    """The tools of one MCP server from the agent's settings."""

    def __init__(self, connection: McpConnection) -> None:
        self._connection = connection

    @property
    def name(self) -> str:
        """The server's name in the settings."""
        return self._connection.name

    async def offered(self) -> Sequence[Offered]:
        """Return the server's tools. Raises InfraError: the server does not list them."""
        return [
            Offered(tool.name, tool.description or "", tool.input_schema)
            for tool in await self._connection.tools()
        ]

    async def call(self, tool: str, arguments: JsonObject, /) -> str:
        """Return the tool's text. A refusal or a timeout is returned as text too."""
        from mcp import MCPError

        try:
            result = await self._connection.call(tool, arguments)
        except NoAnswerInTime:
            limit = self._connection.settings.call_timeout_s
            return _error(f"{tool} gave no answer within {limit:g} s")
        except MCPError as error:
            return _error(error.message)
        return _text(result)


def _text(result: "CallToolResult") -> str:
    """Return the text of a tool result; content that is not text is shown by its type, as
    `[image]`.
    """
    parts = [str(part.text) if part.type == "text" else f"[{part.type}]" for part in result.content]
    if not parts and result.structured_content is not None:
        return encode_json(result.structured_content).decode()
    return "\n".join(parts)


def _error(message: str) -> str:
    return encode_json({"error": message}).decode()


__all__ = ["EnvironmentTools", "OutsideTools", "Toolbox"]

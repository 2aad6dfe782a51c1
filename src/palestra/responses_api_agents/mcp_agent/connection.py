"""Connections to MCP servers. Each connection runs in its own asyncio task.

The `mcp` library's contexts must be closed by the task that opened them, and they wrap errors in
exception groups. The separate task keeps both effects away from the rollout.
"""

import asyncio
import os
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Self, final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from palestra.errors import InfraError, require_extra

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, Tool

STOP_WITHIN_S: Final = 10.0
"""Seconds that closing a connection may take.

A command gets 2 s to end by itself and 2 s after SIGTERM; then it is killed with its child
processes.
"""


class McpServerSettings(BaseModel):
    """The settings of one MCP server: either a command that uses standard input and output, or a
    URL.
    """

    model_config = ConfigDict(extra="forbid")

    command: str | None = None
    """The program to start, with the arguments `args`, the variables `env` (added to a minimal
    environment) and the working directory `cwd`."""
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None

    url: str | None = None
    """The URL of a running server that uses Streamable HTTP."""
    headers: dict[str, str] = Field(default_factory=dict)
    """The headers sent with every request to the URL."""

    tools: list[str] | None = None
    """The names of the tools that the model may use; None for all."""

    shared: bool = False
    """Whether all rollouts use one connection, and one process of a command. Only for stateless
    tools. When false, each rollout has its own connection."""

    start_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds for the server to start and, separately, to list its tools."""

    call_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds for one tool call. After a timeout, the model reads an error as the tool's output."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server has either a command or a url")
        return self


class NoAnswerInTime(Exception):
    """The error for a tool that did not answer within `call_timeout_s`."""


@final
class McpConnection:
    """One connection to an MCP server. Call `open` first and `close` at the end."""

    def __init__(self, name: str, settings: McpServerSettings) -> None:
        self.name = name
        self.settings = settings
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        # What a command says on its standard error; a file, as nobody is there to read a pipe.
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115

    @property
    def alive(self) -> bool:
        """Whether the connection was opened and its task still runs."""
        return self._client is not None and self._task is not None and not self._task.done()

    async def open(self) -> None:
        """Start the command or connect to the URL. Raises InfraError: the server does not answer."""
        self._task = asyncio.create_task(self._hold(), name=f"mcp {self.name}")
        try:
            async with asyncio.timeout(self.settings.start_timeout_s):
                self._client = await asyncio.shield(self._ready)
        except Exception as error:
            lost = self._lost("cannot be reached", error)
            await self.close()
            raise lost from error
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection and end the command's process. The server's errors are not raised."""
        self._stop.set()
        self._client = None
        if self._task is None:
            return
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait({self._task}, timeout=STOP_WITHIN_S)
        self._task.cancel()
        self._log.close()

    async def tools(self) -> list["Tool"]:
        """Return the server's tools, read page by page, that the setting `tools` allows."""
        tools: list[Tool] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(self.settings.start_timeout_s):
                while True:
                    page = await self._connected().list_tools(cursor=cursor)
                    tools.extend(page.tools)
                    cursor = page.next_cursor
                    if not cursor:
                        break
        except Exception as error:
            raise self._lost("did not answer the request for its list of tools", error) from error
        allowed = self.settings.tools
        return [tool for tool in tools if allowed is None or tool.name in allowed]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> "CallToolResult":
        """Call `tool` and return its result.

        Raises the library's MCPError: the server refuses the call. NoAnswerInTime: the call timed
        out. InfraError: the connection failed.
        """
        from mcp import MCPError

        try:
            async with asyncio.timeout(self.settings.call_timeout_s):
                return await self._connected().call_tool(tool, dict(arguments))
        except TimeoutError:
            raise NoAnswerInTime from None
        except MCPError as error:
            if not self._refused(error):
                raise self._lost(f"gave no answer to the tool call {tool}", error) from error
            raise
        except InfraError:
            raise
        except Exception as error:
            raise self._lost(f"gave no answer to the tool call {tool}", error) from error

    def _refused(self, error: Any) -> bool:
        """Whether the server itself sent this error, such as for invalid parameters or an unknown
        tool.
        """
        from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

        answers = {INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND}
        return self.alive and error.code in answers

    def _connected(self) -> "Client":
        if self._client is None or not self.alive:
            raise InfraError(f"the connection to the MCP server {self.name} has ended")
        return self._client

    async def _hold(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                client = await self._entered(stack)
                self._ready.set_result(client)
                await self._stop.wait()
        except Exception as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            # After that, whoever calls finds the connection ended.

    async def _entered(self, stack: AsyncExitStack) -> "Client":
        from mcp import Client, StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.shared._httpx_utils import create_mcp_http_client

        settings = self.settings
        if settings.url is not None:
            http = await stack.enter_async_context(create_mcp_http_client(headers=settings.headers))
            return await stack.enter_async_context(
                Client(streamable_http_client(settings.url, http_client=http))
            )
        parameters = StdioServerParameters(
            command=settings.command or "", args=settings.args, env=settings.env, cwd=settings.cwd
        )
        return await stack.enter_async_context(Client(stdio_client(parameters, self._log)))

    def _lost(self, what: str, error: BaseException) -> InfraError:
        if isinstance(error, InfraError):
            return error
        cause = _innermost(error)
        why = "\n".join((str(cause) or type(cause).__name__, *self._last_lines()))
        return InfraError(
            f"the MCP server {self.name} {what}: {why}",
            hint="test the server's command or URL alone; start_timeout_s and call_timeout_s set "
            "how long to wait",
        )

    def _last_lines(self) -> list[str]:
        """Return the last lines of the command's standard error."""
        if self._log.closed:
            return []
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 2_000))
        return self._log.read().splitlines()[-5:]


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def required_library() -> None:
    """Raise ConfigError, which names the extra to install, when the `mcp` package is not installed."""
    require_extra("mcp", extra="mcp", what="a client of MCP servers")


@final
class SharedServers:
    """The MCP connections of one agent: one per rollout, or one that all rollouts share.

    A shared connection is opened on its first use, and opened again after it broke.
    """

    def __init__(self) -> None:
        self._open: dict[str, McpConnection] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    async def connection(
        self, name: str, settings: McpServerSettings, rollout: AsyncExitStack
    ) -> McpConnection:
        """Return an open connection; a connection that is not shared is closed when `rollout`
        closes.

        Raises InfraError: the server cannot be reached.
        """
        if settings.shared:
            return await self._shared(name, settings)
        connection = McpConnection(name, settings)
        rollout.push_async_callback(connection.close)
        await connection.open()
        return connection

    async def close(self) -> None:
        """Close all shared connections."""
        while self._open:
            _, connection = self._open.popitem()
            await connection.close()

    async def _shared(self, name: str, settings: McpServerSettings) -> McpConnection:
        async with self._opening.setdefault(name, asyncio.Lock()):
            connection = self._open.get(name)
            if connection is None or not connection.alive:
                if connection is not None:
                    await connection.close()
                connection = McpConnection(name, settings)
                await connection.open()
                self._open[name] = connection
            return connection

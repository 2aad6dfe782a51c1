"""Connections to MCP servers, each of which the `mcp` library keeps in a task of its own.

The library's contexts end in the task that began them and wrap what passes through them in
exception groups; neither may happen to a rollout.
"""

import asyncio
import os
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Self, final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from palestra.errors import ConfigError, InfraError

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, Tool

STOP_WITHIN_S: Final = 10.0
"""A command gets 2 s to end by itself, 2 s after SIGTERM, and is then killed, with its children."""


class McpServerSettings(BaseModel):
    """One MCP server: a command that speaks over its standard input and output, or a URL."""

    model_config = ConfigDict(extra="forbid")

    command: str | None = None
    """The program to start; with `args`, `env` (added to a minimal environment) and `cwd`."""
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None

    url: str | None = None
    """Where a running server speaks Streamable HTTP."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Sent with every request to the URL."""

    tools: list[str] | None = None
    """The tools that the model may use; None for all."""

    shared: bool = False
    """Use one connection, and one process of a command, for all rollouts: for tools without state.
    Otherwise each rollout has its own."""

    start_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds for the server to start and say what it offers."""

    call_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds for one tool call; the model is told when there was no answer by then."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server has either a command or a url")
        return self


class NoAnswerInTime(Exception):
    """The tool did not answer within its limit."""


@final
class McpConnection:
    """One live connection. `open` first, `close` at last."""

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
        """Whether the connection is open, as far as is known."""
        return self._client is not None and self._task is not None and not self._task.done()

    async def open(self) -> None:
        """Start or reach the server. Raises InfraError when it does not answer."""
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
        """End the connection, and the process of a command. Raises nothing of the server's."""
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
        """What the server offers, page by page, of what the settings allow."""
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
            raise self._lost("does not list its tools", error) from error
        allowed = self.settings.tools
        return [tool for tool in tools if allowed is None or tool.name in allowed]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> "CallToolResult":
        """Raises the library's MCPError for what the server refuses, NoAnswerInTime, InfraError."""
        from mcp import MCPError

        try:
            async with asyncio.timeout(self.settings.call_timeout_s):
                return await self._connected().call_tool(tool, dict(arguments))
        except TimeoutError:
            raise NoAnswerInTime from None
        except MCPError as error:
            if not self._refused(error):
                raise self._lost(f"gave no answer to {tool}", error) from error
            raise
        except InfraError:
            raise
        except Exception as error:
            raise self._lost(f"gave no answer to {tool}", error) from error

    def _refused(self, error: Any) -> bool:
        """Whether the server itself answered so: parameters that are wrong, a tool unknown."""
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
            hint="try its command or URL by itself; start_timeout_s and call_timeout_s bound it",
        )

    def _last_lines(self) -> list[str]:
        """What a command last said on its standard error."""
        if self._log.closed:
            return []
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 2_000))
        return self._log.read().splitlines()[-5:]


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def required_library() -> None:
    """Raises ConfigError, naming the extra, when the `mcp` package is not there."""
    try:
        import mcp  # noqa: F401  # whether it can be imported is the question
    except ModuleNotFoundError:
        raise ConfigError(
            "MCP servers need a package that is not installed", hint="pip install 'palestra[mcp]'"
        ) from None


@final
class SharedServers:
    """Connections of one agent: each rollout's own, or one that all rollouts share.

    A shared one is opened on its first use, and anew when it broke.
    """

    def __init__(self) -> None:
        self._open: dict[str, McpConnection] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    async def connection(
        self, name: str, settings: McpServerSettings, rollout: AsyncExitStack
    ) -> McpConnection:
        """An open connection; one of the rollout's own is closed with `rollout`.

        Raises InfraError when the server cannot be reached.
        """
        if settings.shared:
            return await self._shared(name, settings)
        connection = McpConnection(name, settings)
        rollout.push_async_callback(connection.close)
        await connection.open()
        return connection

    async def close(self) -> None:
        """End all of them."""
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

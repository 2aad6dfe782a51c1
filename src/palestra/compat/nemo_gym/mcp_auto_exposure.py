"""`nemo_gym.mcp_auto_exposure`: offer an environment's POST routes as MCP tools."""

import secrets
from typing import Any

from fastapi import FastAPI

from palestra.compat.mcp import Catchall, MCPTool, expose


def maybe_auto_expose(server: Any, app: FastAPI) -> dict[str, MCPTool] | None:
    """Add `/mcp` to `app` when the server's config has `expose_tools_over_mcp`; return the tools by
    name, or None.

    Raises ValueError: the app has `/mcp` already, or a tool cannot be offered.
    """
    if not getattr(server.config, "expose_tools_over_mcp", False):
        return None
    return expose(server, app, lambda: app, secret=secrets.token_hex(), needs_token=True)


__all__ = ["Catchall", "MCPTool", "maybe_auto_expose"]

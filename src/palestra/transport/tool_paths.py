"""The paths of tools: which POST paths of an environment are tools, and where a tool is called."""

from typing import Final
from urllib.parse import quote

from palestra.schema import encode_json

_RESERVED_PATHS: Final = frozenset(
    {
        "",
        "run",
        "verify",
        "seed_session",
        "close_session",
        "aggregate_metrics",
        "mcp",
        "docs",
        "openapi.json",
    }
)
"""Endpoint names that are no tools, so a model must not reach them by a tool call."""

_OF_TURNS: Final = frozenset({"reset", "step"})
"""The additional protocol paths of an environment that takes turns."""
_RESERVED_PREFIXES: Final = ("v1/", "ng-rollout/")
"""What the paths of the models' API and the paths of named rollouts begin with."""


def is_tool_path(path: str) -> bool:
    """Whether a POST path belongs to a tool: it has one part, and is not a path of the protocol."""
    name = path[1:]
    return name not in _RESERVED_PATHS and name not in _OF_TURNS and not {"/", "{"} & set(name)


def tool_path(name: str) -> str | None:
    """Return the path to which a model's call of the tool `name` is sent; None when the name is
    reserved, so that the call must not be sent.

    The model wrote the name, so it is quoted: it cannot leave its place in the path.
    """
    if name.rstrip("/") in _RESERVED_PATHS or name.startswith(_RESERVED_PREFIXES):
        return None
    return "/" + quote(name, safe="", errors="replace")


def no_such_tool(name: str) -> str:
    """Return the text for a model that called a tool with a reserved name."""
    return tool_error(f"there is no tool named {name}")


def tool_error(message: str) -> str:
    """Return the text for a model whose tool call failed."""
    return encode_json({"error": message}).decode()

"""Palestra runs language models against environments and scores the rollouts.

This module exports the names that an author of an environment needs. Each is imported at its first
use, so `import palestra` itself is cheap.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palestra.server import (
        ResourcesServer,
        RewardRules,
        Session,
        ToolError,
        environment,
        tool,
    )

__version__ = "0.1.0"

__all__ = [
    "ResourcesServer",
    "RewardRules",
    "Session",
    "ToolError",
    "__version__",
    "environment",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from palestra import server

        return getattr(server, name)
    raise AttributeError(f"module 'palestra' has no attribute {name!r}")

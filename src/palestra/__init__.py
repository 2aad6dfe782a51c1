"""Palestra runs language models against environments and scores the rollouts.

This module exports the names that an author of an environment needs, and the functions behind the
commands. Each is imported at its first use, so `import palestra` itself is cheap.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palestra.api import (
        Model,
        Run,
        acollect,
        aevaluate,
        collect,
        compare,
        evaluate,
        merge,
        open_run,
        scores,
    )
    from palestra.api import list_agents as agents
    from palestra.api import list_environments as environments
    from palestra.api import list_models as models
    from palestra.api import list_runs as runs
    from palestra.sandbox import Limits, Program
    from palestra.server import (
        Environment,
        ResourcesServer,
        RewardRules,
        Session,
        ToolError,
        call,
        environment,
        tool,
    )

__version__ = "0.1.0"

__all__ = [
    "Environment",
    "Limits",
    "Model",
    "Program",
    "ResourcesServer",
    "RewardRules",
    "Run",
    "Session",
    "ToolError",
    "__version__",
    "acollect",
    "aevaluate",
    "agents",
    "call",
    "collect",
    "compare",
    "environment",
    "environments",
    "evaluate",
    "merge",
    "models",
    "open_run",
    "runs",
    "scores",
    "tool",
]
_OF_API = frozenset(
    {
        "Model",
        "Run",
        "acollect",
        "aevaluate",
        "collect",
        "compare",
        "evaluate",
        "merge",
        "open_run",
        "scores",
    }
)
_LISTS = {
    "agents": "list_agents",
    "environments": "list_environments",
    "models": "list_models",
    "runs": "list_runs",
}
_OF_SANDBOX = frozenset({"Limits", "Program"})


def __getattr__(name: str) -> Any:
    if name in _OF_API or name in _LISTS:
        from palestra import api

        return getattr(api, _LISTS.get(name, name))
    if name in _OF_SANDBOX:
        from palestra import sandbox

        return getattr(sandbox, name)
    if name in __all__:
        from palestra import server

        return getattr(server, name)
    from palestra.errors import instead_of

    hint = instead_of(name)
    raise AttributeError(f"module 'palestra' has no attribute {name!r}{hint and f'; {hint}'}")

"""`nemo_gym.sandbox`: one interface to the sandboxes of every provider."""

from palestra.compat.nemo_gym.sandbox.config import (
    resolve_provider_config,
    resolve_provider_metadata,
)
from palestra.compat.sandboxes import (
    AsyncSandbox,
    Sandbox,
    SandboxError,
    SandboxExecResult,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
)

__all__ = [
    "AsyncSandbox",
    "Sandbox",
    "SandboxError",
    "SandboxExecResult",
    "SandboxResources",
    "SandboxSpec",
    "SandboxStatus",
    "resolve_provider_config",
    "resolve_provider_metadata",
]

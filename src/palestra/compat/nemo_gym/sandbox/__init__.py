"""`nemo_gym.sandbox`: one interface to the sandboxes of every provider."""

from palestra.compat.nemo_gym.sandbox.blocking import Sandbox
from palestra.compat.nemo_gym.sandbox.config import (
    resolve_provider_config,
    resolve_provider_metadata,
)
from palestra.compat.nemo_gym.sandbox.providers import (
    ExecResult,
    ProviderUnavailable,
    SandboxCreateError,
    SandboxCreateVerificationError,
    SandboxEndpoint,
    SandboxError,
    SandboxExecResult,
    SandboxHandle,
    SandboxProvider,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
    create_provider,
    get_provider_class,
    list_providers,
    register_provider,
)
from palestra.compat.nemo_gym.sandbox.sandboxes import AsyncSandbox
from palestra.compat.nemo_gym.sandbox.utils import rewrite_image

__all__ = [
    "AsyncSandbox",
    "ExecResult",
    "ProviderUnavailable",
    "Sandbox",
    "SandboxCreateError",
    "SandboxCreateVerificationError",
    "SandboxEndpoint",
    "SandboxError",
    "SandboxExecResult",
    "SandboxHandle",
    "SandboxProvider",
    "SandboxResources",
    "SandboxSpec",
    "SandboxStatus",
    "create_provider",
    "get_provider_class",
    "list_providers",
    "register_provider",
    "resolve_provider_config",
    "resolve_provider_metadata",
    "rewrite_image",
]

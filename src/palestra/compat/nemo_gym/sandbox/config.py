"""`nemo_gym.sandbox.config`: read from the configuration which provider runs sandboxes."""

from palestra.compat.sandboxes import resolve_provider_config, resolve_provider_metadata

__all__ = ["resolve_provider_config", "resolve_provider_metadata"]

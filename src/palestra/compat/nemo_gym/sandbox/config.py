"""`nemo_gym.sandbox.config`: which provider runs sandboxes, as the configuration names it."""

from palestra.compat.sandboxes import resolve_provider_config, resolve_provider_metadata

__all__ = ["resolve_provider_config", "resolve_provider_metadata"]

"""`nemo_gym.sandbox.config`: which provider runs sandboxes, as the configuration names it."""

from collections.abc import Mapping
from typing import Any, Final

from omegaconf import DictConfig, OmegaConf

from palestra.compat.nemo_gym.global_config import get_global_config_dict
from palestra.config import ConfigTree
from palestra.schema import JsonDict

DEFAULT_PROVIDER: Final = "auto"


def resolve_provider_config(provider: Any = None, global_config_dict: Any = None) -> JsonDict:
    """The settings of a provider: given as they are, or by the name of a block of the configuration.

    Without any, those of `sandbox` in the configuration, or none.
    """
    held = get_global_config_dict() if global_config_dict is None else global_config_dict
    if isinstance(provider, str):
        found = held.get(provider)
        return _plain(found) if found is not None else {"provider": provider}
    if provider is None:
        return _plain(held.get("sandbox") or {})
    return _plain(provider)


def resolve_provider_metadata(provider: Any = None, global_config_dict: Any = None) -> JsonDict:
    """What every sandbox of a provider is labelled with."""
    found = resolve_provider_config(provider, global_config_dict).get("metadata")
    return dict(found) if isinstance(found, Mapping) else {}


def provider_name(settings: ConfigTree) -> str:
    """Which provider the settings are of."""
    for key in ("provider", "type", "name"):
        if isinstance(settings.get(key), str):
            return str(settings[key])
    if len(settings) == 1:
        return str(next(iter(settings)))
    return DEFAULT_PROVIDER


def _plain(value: Any) -> JsonDict:
    if isinstance(value, DictConfig):
        value = OmegaConf.to_container(value, resolve=True)
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    return {str(key): inner for key, inner in dict(value).items()}

"""`nemo_gym.sandbox.config`: read from the configuration which provider runs sandboxes.

A provider block has one key, the provider's name, beside the reserved key `default_metadata`:

    my_sandbox:
      docker: {create: {network: none}}
      default_metadata: {team: evaluation}
"""

from collections.abc import Mapping
from typing import Any, Final

from omegaconf import DictConfig, OmegaConf

from palestra.compat.nemo_gym.global_config import get_global_config_dict
from palestra.compat.nemo_gym.sandbox.providers.base import plain
from palestra.config import SERVER_TREES
from palestra.schema import JsonDict

DEFAULT_METADATA: Final = "default_metadata"


def resolve_provider_config(
    sandbox_provider: str | Mapping[str, Any],
    named_configs: Mapping[str, Any] | None = None,
) -> JsonDict:
    """Return the provider block without its default metadata: {provider name: keyword arguments}.

    `sandbox_provider`: the block, or its name in `named_configs`. Default of `named_configs`: this
    process's configuration. Raises ValueError: the name is unknown, or the block does not have
    exactly one provider. Raises TypeError: an argument has another type.
    """
    block = _block(sandbox_provider, named_configs)
    providers = {name: value for name, value in block.items() if name != DEFAULT_METADATA}
    if len(providers) != 1:
        raise ValueError(
            f"a sandbox provider block must name exactly one provider beside `{DEFAULT_METADATA}`; "
            f"it has {len(providers)}: {', '.join(providers) or 'none'}"
        )
    return providers


def resolve_provider_metadata(
    sandbox_provider: str | Mapping[str, Any],
    named_configs: Mapping[str, Any] | None = None,
) -> JsonDict:
    """Return the labels that every sandbox of a provider block gets; empty without
    `default_metadata`. Raises the errors of `resolve_provider_config`.
    """
    resolve_provider_config(sandbox_provider, named_configs)
    metadata = _block(sandbox_provider, named_configs).get(DEFAULT_METADATA)
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise TypeError(f"`{DEFAULT_METADATA}` must be a mapping, not {type(metadata).__name__}")
    return dict(metadata)


def _block(
    sandbox_provider: str | Mapping[str, Any], named_configs: Mapping[str, Any] | None
) -> JsonDict:
    """Return the provider block as plain values."""
    if isinstance(sandbox_provider, str):
        configs = get_global_config_dict() if named_configs is None else named_configs
        block = configs.get(sandbox_provider)
        if not isinstance(block, Mapping):
            names = ", ".join(_candidates(configs)) or "none"
            raise ValueError(  # noqa: TRY004  # the name is wrong, or names something else
                f"unknown sandbox provider config {sandbox_provider!r}; provider configs: {names}"
            )
    elif isinstance(sandbox_provider, Mapping):
        block = sandbox_provider
    else:
        raise TypeError(
            "sandbox_provider must be the name of a config or a mapping, "
            f"not {type(sandbox_provider).__name__}"
        )
    return {str(key): plain(value) for key, value in plain(block).items()}


def _candidates(configs: Mapping[str, Any]) -> list[str]:
    """Return the names of the configs that look like provider blocks."""
    candidates = []
    # Not resolved: a reference elsewhere in the configuration may be broken.
    tree: Any = OmegaConf.to_container(configs) if isinstance(configs, DictConfig) else configs
    for name, value in tree.items():
        keys = set(value) - {DEFAULT_METADATA} if isinstance(value, Mapping) else set()
        if len(keys) == 1 and not keys & set(SERVER_TREES):
            candidates.append(str(name))
    return sorted(candidates)

"""The providers by name. A registered class comes before a built-in one, which comes before an entry
point of the group `nemo_gym.sandbox_providers`.

Palestra's own back ends come last: a project may register a class under any of their names.
"""

import importlib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from palestra.compat.nemo_gym.sandbox.providers.base import SandboxProvider, plain

ENTRY_POINT_GROUP: Final = "nemo_gym.sandbox_providers"

_PROVIDERS: Final = "palestra.compat.nemo_gym.sandbox.providers"

# "module:class", so that a class is imported on use only.
BUILT_IN: Final[Mapping[str, str]] = {
    "apptainer": f"{_PROVIDERS}.apptainer.provider:ApptainerProvider",
    "daytona": f"{_PROVIDERS}.unavailable:DaytonaProvider",
    "docker": f"{_PROVIDERS}.docker.provider:DockerProvider",
    "ecs_fargate": f"{_PROVIDERS}.unavailable:EcsFargateProvider",
    "enroot": f"{_PROVIDERS}.unavailable:EnrootProvider",
    "opensandbox": f"{_PROVIDERS}.unavailable:OpensandboxProvider",
    "openshell": f"{_PROVIDERS}.unavailable:OpenshellProvider",
}
LOCAL: Final[Mapping[str, str]] = {
    "auto": f"{_PROVIDERS}.local.provider:LocalProvider",
    "bubblewrap": f"{_PROVIDERS}.local.provider:BubblewrapProvider",
    "http": f"{_PROVIDERS}.local.provider:HttpProvider",
    "local": f"{_PROVIDERS}.local.provider:LocalProvider",
    "palestra": f"{_PROVIDERS}.local.provider:LocalProvider",
    "process": f"{_PROVIDERS}.local.provider:ProcessProvider",
}

# Projects register classes for the whole process, as the interface says.
_registered: dict[str, type] = {}


def register_provider(name: str, provider_class: type, *, override: bool = False) -> None:
    """Register a provider for this process.

    Raises ValueError: the name is empty, or is registered or built in and `override` is False.
    """
    if not isinstance(name, str) or not name.strip():
        raise ValueError("the name of a sandbox provider must not be empty")
    if not override and (name in _registered or name in BUILT_IN):
        raise ValueError(
            f"sandbox provider {name!r} exists already; pass override=True to replace it"
        )
    _registered[name] = provider_class


def list_providers() -> list[str]:
    """Return the names of all providers, sorted. Whether one works here shows when it is created."""
    return sorted({*_registered, *BUILT_IN, *_entry_points(), *LOCAL})


def get_provider_class(name: str) -> type:
    """Return the class of a provider. Raises ValueError: the name is unknown."""
    if name in _registered:
        return _registered[name]
    if name in BUILT_IN:
        return _imported(BUILT_IN[name])
    entry_point = _entry_points().get(name)
    if entry_point is not None:
        provider_class: type = entry_point.load()
        return provider_class
    if name in LOCAL:
        return _imported(LOCAL[name])
    raise ValueError(f"unknown sandbox provider {name!r}; available: {', '.join(list_providers())}")


def create_provider(config: Mapping[str, Any]) -> SandboxProvider:
    """Return a new provider. `config`: its name -> its keyword arguments, or None.

    Raises ValueError: there is not exactly one key, or the name is empty or unknown. Raises
    TypeError: the arguments are no mapping.
    """
    if not isinstance(config, Mapping):
        raise TypeError(f"a provider config must be a mapping, not {type(config).__name__}")
    if len(config) != 1:
        raise ValueError(
            "a provider config must have exactly one key, the name of the provider; "
            f"it has {len(config)}: {', '.join(map(str, config)) or 'none'}"
        )
    ((name, arguments),) = plain(config).items()
    if not isinstance(name, str) or not name.strip():
        raise ValueError("the name of a sandbox provider must not be empty")
    arguments = plain(arguments)
    if arguments is not None and not isinstance(arguments, Mapping):
        raise TypeError(
            f"the arguments of sandbox provider {name!r} must be a mapping, "
            f"not {type(arguments).__name__}"
        )
    provider: SandboxProvider = get_provider_class(name)(**(arguments or {}))
    return provider


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def _imported(target: str) -> type:
    module, _, name = target.partition(":")
    provider_class: type = getattr(importlib.import_module(module), name)
    return provider_class

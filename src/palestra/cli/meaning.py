"""What a run's rewards depend on, as its manifest remembers it and a running fleet is asked for."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palestra.config import PACKAGE_ROOT, InstanceConfig, ResolvedConfig, redact
from palestra.errors import ConfigError
from palestra.rollouts import CollectSettings, semantics_of


def run_meaning(config: ResolvedConfig, settings: CollectSettings) -> dict[str, Any]:
    """Servers and their code, and the settings of the command that shape rows."""
    shaping = {
        "agent_name": settings.agent_name,
        "responses_create_params": dict(settings.responses_create_params),
        "num_repeats": settings.num_repeats,
        "num_repeats_add_seed": settings.num_repeats_add_seed,
        "prompt": _text(settings.prompt_config) if settings.prompt_config else None,
    }
    return semantics_of(_instances(config), {**shaping, "code": _codes(config)})


def _text(prompt_config: Path) -> str:
    try:
        return prompt_config.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"prompt_config {prompt_config} cannot be read: {error}") from error


def servers_meaning(config: ResolvedConfig) -> dict[str, Any]:
    """`servers` and their `code`, each by instance name."""
    return semantics_of(_instances(config), {"code": _codes(config)})


def _codes(config: ResolvedConfig) -> dict[str, str]:
    return {name: digest for name, i in config.instances.items() if (digest := code_digest(i))}


def _instances(config: ResolvedConfig) -> dict[str, tuple[str, str, Mapping[str, Any]]]:
    masked = redact(config.tree, config.secrets)
    return {
        name: (str(i.type), i.implementation, _own_settings(masked, name, i.settings))
        for name, i in config.instances.items()
    }


def _own_settings(tree: Any, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """An instance's settings, secrets masked."""
    block = next(iter(next(iter(tree[name].values())).values()))
    return {key: block[key] for key in settings if key in block}


def code_digest(instance: InstanceConfig) -> str:
    """A digest of the user's own code behind an instance; empty for what ships with Palestra.

    Of a folder it takes every module, as the entrypoint may import any of them.
    """
    files = [Path(str(instance.settings["path"]))] if "path" in instance.settings else []
    folder = instance.folder
    if folder is not None and not folder.is_relative_to(PACKAGE_ROOT):
        files += sorted(file for file in folder.rglob("*.py") if _counts(file.relative_to(folder)))
    held = b"".join(file.read_bytes() for file in files if file.is_file())
    return hashlib.sha256(held).hexdigest() if held else ""


def _counts(path: Path) -> bool:
    """Whether a module of a server's folder may bear on rewards: no test, nothing in `.venv`."""
    return not any(part == "tests" or part.startswith(".") for part in path.parts)

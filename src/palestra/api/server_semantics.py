"""Collects the settings and code that a run's rewards depend on, for the manifest and for
comparison with a running fleet.

A setting with a secret-like name may not be a secret, and may affect rewards: `stop_token`,
`answer_key`. So its value is not written, but a digest of it is, salted with the names of the
instance and the setting. With the salt, equal secrets have different digests in different places,
and tables of common digests do not help. A person with the manifest can still test guesses, so
operational settings (`api_key`) leave no digest.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from palestra.config import (
    MASK,
    ResolvedConfig,
    config_from_tree,
    find_secrets,
    is_secret_name,
    redact,
)
from palestra.errors import ConfigError
from palestra.fleet import code_digests
from palestra.rollouts import OPERATIONAL, differences, semantics_of, skills_ref
from palestra.schema import JsonDict, JsonObject
from palestra.settings import CollectSettings

LONG_SECRET = 8
"""The least length of a secret that is searched for inside other settings. A shorter one, such as
`vllm`, may occur by chance."""


def run_semantics(
    config: ResolvedConfig, settings: CollectSettings, codes: Mapping[str, Mapping[str, str]]
) -> JsonDict:
    """Return the servers, their code, and the command's settings that affect the rows.

    `codes`: the digests of the author's code that each server runs.
    """
    shaping: JsonDict = {
        "agent_name": settings.agent_name,
        "responses_create_params": dict(settings.responses_create_params),
        "num_repeats": settings.num_repeats,
        "num_repeats_add_seed": settings.num_repeats_add_seed,
        "prompt": _text(settings.prompt_config) if settings.prompt_config else None,
    }
    if (skills := skills_ref(settings)) is not None:
        shaping["skills"] = skills["hash"]
    prompts = [settings.prompt_of(source) for source in settings.inputs]
    if settings.prompt_config is None and any(prompts):
        shaping["prompts"] = [_text(path) if path else None for path in prompts]
    return semantics_of(_instances(config, config.secrets), {**shaping, "code": dict(codes)})


def _text(prompt_config: Path) -> str:
    try:
        return prompt_config.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"prompt_config {prompt_config} cannot be read: {error}") from error


def server_semantics(config: ResolvedConfig) -> JsonDict:
    """Return the settings (`servers`) and the digests (`code`) of the servers, each by instance
    name.
    """
    return semantics_of(_instances(config, config.secrets), {"code": code_digests(config)})


def differs_from_running(runs: ResolvedConfig, planned: ResolvedConfig) -> list[str]:
    """Return the settings in which `planned` differs from the running fleet's config `runs`, whose
    secrets are masked.

    Masked values are unknown and count as equal.
    """
    running = config_from_tree(_unmasked(runs.tree, planned.tree))
    secrets = running.secrets | planned.secrets
    ours = _servers(config_from_tree(_unmasked(planned.tree, runs.tree)), secrets)
    theirs = _servers(running, secrets)
    return differences({name: theirs[name] for name in ours if name in theirs}, ours)


_OF_MODELS: Final = (
    "policy_base_url",
    "policy_model_name",
    "judge_base_url",
    "judge_model_name",
)
"""The settings of a whole fleet that say which models it asks."""


def models_differ(runs: ResolvedConfig, planned: ResolvedConfig) -> dict[str, str]:
    """Return the settings of models in which `planned` differs from the running fleet's config `runs`,
    by name. A command may set them without having a server that they are for.
    """
    running = _unmasked(runs.tree, planned.tree)
    secrets = find_secrets(planned.tree)
    return {
        name: f"{name}: {redact(running[name], secrets)!r} -> {redact(planned_value, secrets)!r}"
        for name in _OF_MODELS
        if (planned_value := planned.tree.get(name))
        and _models_in(running.get(name, planned_value)) != _models_in(planned_value)
    }


def _models_in(value: Any) -> set[str]:
    """Return the addresses, or the name, of a setting of models: one or a list, in any order."""
    values = value if isinstance(value, list | tuple) else [value]
    return {str(item).rstrip("/") for item in values}


def _servers(config: ResolvedConfig, secrets: Collection[str]) -> JsonDict:
    servers: JsonDict = semantics_of(_instances(config, secrets), {})["servers"]
    return servers


def _unmasked(masked: Any, plain: Any) -> Any:
    """Return `masked` with the values of `plain` in place of masks that may hide them."""
    if isinstance(masked, Mapping) and isinstance(plain, Mapping):
        return {key: _unmasked(value, plain.get(key)) for key, value in masked.items()}
    if isinstance(masked, list) and isinstance(plain, list) and len(masked) == len(plain):
        return [_unmasked(mine, its) for mine, its in zip(masked, plain, strict=True)]
    if not isinstance(masked, str) or MASK not in masked or plain is None:
        return masked
    pattern = ".*".join(re.escape(part) for part in masked.split(MASK))
    return plain if re.fullmatch(pattern, str(plain), re.DOTALL) else masked


def _instances(
    config: ResolvedConfig, secrets: Collection[str]
) -> dict[str, tuple[str, str, JsonObject]]:
    long = [secret for secret in secrets if len(secret) >= LONG_SECRET]
    return {
        name: (
            str(i.type),
            i.implementation,
            {key: _remembered(value, (name, key), long) for key, value in i.settings.items()},
        )
        for name, i in config.instances.items()
    }


def _remembered(value: Any, at: tuple[str, ...], secrets: Collection[str]) -> Any:
    """Return a setting in a form that is safe to write down. `at`: the instance's name, followed by
    the path of the setting.
    """
    if isinstance(value, Mapping):
        return {k: _remembered(item, (*at, str(k)), secrets) for k, item in value.items()}
    if isinstance(value, list | tuple):
        return [_remembered(item, (*at, str(n)), secrets) for n, item in enumerate(value)]
    if value is None or isinstance(value, bool) or value in ("", MASK):
        return value
    hidden = [name for name in at[1:] if is_secret_name(name)]
    if not OPERATIONAL.isdisjoint(hidden):  # of a judge within the settings, say
        return MASK
    text = str(value)
    if hidden or find_secrets(text) or any(secret in text for secret in secrets):
        return f"sha256:{hashlib.sha256(chr(0).join((*at, text)).encode()).hexdigest()[:12]}"
    return value

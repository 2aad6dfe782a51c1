"""`--model` of an evaluation: which model server becomes the policy, and with which settings."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from palestra.cli.console import notice
from palestra.cli.endpoints import Wait, wait_for
from palestra.config import MASK, load_config, names_in_files, read_settings
from palestra.errors import ConfigError, ModelError, excerpt

LOCAL = "local"
OPENAI_URL = "https://api.openai.com/v1"
POLICY = "policy_model"
"""The instance that an environment's agents ask, whatever it is."""


def model_config(
    model: str | None,
    overrides: list[str],
    configs: Sequence[str] = (),
    *,
    settings: Mapping[str, Any] | None = None,
) -> tuple[list[str], dict[str, Any]]:
    """Config files and settings for `--model`.

    `local`; `openai:NAME`; `vllm:URL[#NAME]`; the name of a model instance in the configs, which
    are `configs` and those of the overrides and env.yaml. Without one it is their `policy_model`;
    without that, and without an endpoint in the overrides or env.yaml: the local model, which is
    said.

    `settings`: those of the command's options, which with the configs and the overrides say how
    long an endpoint is waited for that is asked which model it serves.
    """
    if model is None:
        if POLICY in names_in_files(overrides, configs):
            return [], {}
        if _names_endpoint(overrides):
            return ["responses_api_models/vllm_model/configs/vllm_model.yaml"], {}
        notice("no model was named: using the small local one (--model says which)")
        model = LOCAL
    if model == LOCAL:
        return ["responses_api_models/local_model/configs/local_model.yaml"], {}
    kind, _, rest = model.partition(":")
    if kind == "openai" and rest:
        return ["responses_api_models/openai_model/configs/openai_model.yaml"], _openai(
            rest, overrides
        )
    if kind == "vllm" and rest:
        return ["responses_api_models/vllm_model/configs/vllm_model.yaml"], _vllm(
            rest, overrides, configs, settings or {}
        )
    if kind in {"openai", "vllm"}:
        raise ConfigError(
            f"--model {model!r} names no model",
            hint="local, openai:NAME, vllm:URL[#NAME], or a model instance of your configs",
        )
    return [], _configured(model, overrides, configs)


def _openai(name: str, overrides: list[str]) -> dict[str, Any]:
    extra = {"policy_model_name": name}
    if not any("policy_base_url" in item for item in overrides):
        extra["policy_base_url"] = OPENAI_URL
    if key := os.environ.get("OPENAI_API_KEY"):
        extra["policy_api_key"] = key
    elif not _sets_key(overrides):
        raise ConfigError(
            f"--model openai:{name} needs a key, and OPENAI_API_KEY is not set",
            hint="export OPENAI_API_KEY=…, or name a variable of yours: "
            "'++policy_api_key=${oc.env:MY_KEY}'",
        )
    return extra


def _vllm(
    endpoint: str, overrides: list[str], configs: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    url, _, name = endpoint.partition("#")
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"--model 'vllm:{url}' holds no URL", hint="vllm:http://HOST:PORT/v1")
    extra = {"policy_base_url": url}
    if not any("policy_api_key" in item for item in overrides):
        extra["policy_api_key"] = os.environ.get("VLLM_API_KEY", "EMPTY")
    if not name:
        wait = Wait.of(
            read_settings(Wait.SETTINGS, overrides=overrides, config_paths=configs, extra=settings)
        )
        name = _only_model(url, _key(overrides, extra), wait)
    extra["policy_model_name"] = name
    return extra


def _configured(model: str, overrides: list[str], configs: Sequence[str]) -> dict[str, Any]:
    """Settings that make the instance `model` of the user's configs the policy."""
    if model not in names_in_files(overrides, configs):
        url = model.startswith(("http://", "https://"))
        raise ConfigError(
            f"--model {model!r} is neither a kind of model nor an instance of your configs",
            hint=f"--model 'vllm:{model}' for an endpoint of Chat Completions"
            if url
            else "local, openai:NAME, vllm:URL[#NAME], or an instance of +config_paths=[…]",
        )
    return {} if model == POLICY else {POLICY: {"_copy": model}}


def _sets_key(overrides: list[str]) -> bool:
    """Whether the command line, a config file or env.yaml gives the key."""
    given = any("policy_api_key" in item for item in overrides)
    return given or "policy_api_key" in names_in_files(overrides)


def _key(overrides: list[str], extra: Mapping[str, Any]) -> str:
    """The endpoint's key, as the model server will be given it."""
    given = [item for item in overrides if "policy_api_key" in item]
    config = load_config(overrides=given, extra=extra, require_all=False, required=())
    return str(config.tree.get("policy_api_key") or "")


def _names_endpoint(overrides: list[str]) -> bool:
    asked = any("policy_base_url" in item or "config_paths" in item for item in overrides)
    env = Path("env.yaml")
    return asked or (env.exists() and "policy_base_url" in env.read_text())


def _only_model(url: str, key: str, wait: Wait) -> str:
    """The model that the endpoint serves, once it answers.

    Raises ConfigError unless there is exactly one, RunFailed when it does not answer in time.
    """
    import asyncio

    from palestra.transport import HttpClient, HttpRequest

    asked = url.rstrip("/") + "/models"

    async def ask() -> list[str]:
        http = HttpClient()
        try:
            headers = {"authorization": f"Bearer {key}"} if key else {}
            request = HttpRequest("GET", asked, headers=headers, timeout_s=10)
            reply = await http.send(request)
            if reply.status in {401, 403}:
                raise ConfigError(
                    f"{asked} answered {reply.status}: {_said(reply.body, key)}",
                    hint="give the key: VLLM_API_KEY, or '++policy_api_key=${oc.env:MY_KEY}'",
                )
            if reply.status >= 500:
                said = _said(reply.body, key)
                raise ModelError(f"{asked} answered {reply.status}: {said}", status=reply.status)
            if reply.status != 200:
                raise ValueError(f"it answered {reply.status}: {_said(reply.body, key)}")
            return [str(item["id"]) for item in orjson.loads(reply.body)["data"]]
        finally:
            await http.aclose()

    try:
        names = asyncio.run(wait_for(POLICY, ask, wait))
    except (ValueError, KeyError, TypeError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it holds no list of models"
        raise ConfigError(
            f"{asked} does not say which models it serves: {reason}",
            hint="does the URL end in /v1? Or name the model: --model 'vllm:URL#NAME'",
        ) from None
    if len(names) != 1:
        raise ConfigError(
            f"{url} serves {len(names)} models: {', '.join(names)}",
            hint="name one: --model 'vllm:URL#NAME'",
        )
    return names[0]


def _said(body: bytes, key: str) -> str:
    """What an endpoint answered; some repeat the key that they reject."""
    said = excerpt(body)
    return said.replace(key, MASK) if key else said

"""`inference_provider`: a model server for a provider of Chat Completions, chosen by name."""

import os
from typing import Any

from pydantic import model_validator

from palestra.config import did_you_mean
from palestra.errors import ConfigError
from palestra.responses_api_models.chat import ChatCompletionsServer, ChatModelConfig
from palestra.responses_api_models.providers import PROVIDERS, Dialect, Provider

NAMES = tuple(
    name
    for name, provider in PROVIDERS.items()
    if provider.dialect != Dialect.MESSAGES and not provider.model_server
)
"""The providers that this model server knows by name. The others have a model server of their own.
"""


class InferenceProviderConfig(ChatModelConfig):
    """The settings of `inference_provider`."""

    provider: str
    """One of `NAMES`, whose values are the defaults of the settings below; or any name, when
    `base_url` is set."""
    base_url: str | list[str] = ""
    uses_reasoning_parser: bool = True

    @model_validator(mode="before")
    @classmethod
    def _as_the_provider_wants(cls, fields: Any) -> Any:
        """Fill in the provider's default settings.

        Raises ConfigError: the provider is unknown, or there is no API key for it.
        """
        if not isinstance(fields, dict) or not isinstance(name := fields.get("provider"), str):
            return fields
        provider = PROVIDERS[name] if name in NAMES else Provider(key_needed=False)
        if name not in NAMES and not fields.get("base_url"):
            raise ConfigError(
                f"provider {name!r} is unknown{did_you_mean(name, NAMES)}",
                hint=f"one of {', '.join(NAMES)}; any other name needs its base_url",
            )
        key = fields.get("api_key") or os.environ.get(provider.key_variable, "")
        if not key and provider.key_needed:
            raise ConfigError(
                f"provider {name!r} needs a key, and {provider.key_variable} is not set",
                hint=f"set {provider.key_variable} in the environment, or api_key",
            )
        provider_fields = {
            "base_url": provider.base_url,
            "max_tokens_parameter": provider.max_tokens_parameter,
            "uses_interleaved_reasoning": provider.takes_reasoning_back,
        }
        return {**provider_fields, **fields, "api_key": key}


class InferenceProvider(ChatCompletionsServer):
    """A model server in front of a hosted provider."""

    config: InferenceProviderConfig

"""`inference_provider`: a hosted provider by its name."""

import os
from typing import Any

from pydantic import model_validator

from palestra.config import did_you_mean
from palestra.errors import ConfigError
from palestra.responses_api_models.chat import ChatCompletionsServer, ChatModelConfig
from palestra.responses_api_models.inference_provider.providers import PROVIDERS


class InferenceProviderConfig(ChatModelConfig):
    """Settings of `inference_provider`."""

    provider: str
    """One of the names in `providers.py`; it gives every setting below that is not given."""
    base_url: str | list[str] = ""
    uses_reasoning_parser: bool = True

    @model_validator(mode="before")
    @classmethod
    def _as_the_provider_wants(cls, given: Any) -> Any:
        """Fill in what the provider's name says. Raises ConfigError for an unknown one."""
        if not isinstance(given, dict) or not isinstance(name := given.get("provider"), str):
            return given
        provider = PROVIDERS.get(name)
        if provider is None:
            raise ConfigError(
                f"provider {name!r} is not known{did_you_mean(name, set(PROVIDERS))}",
                hint=f"one of {', '.join(PROVIDERS)}; any other endpoint is vllm_model's, by its "
                "base_url",
            )
        key = given.get("api_key") or os.environ.get(provider.key_variable, "")
        if not key:
            raise ConfigError(
                f"provider {name!r} needs a key, and there is none",
                hint=f"set {provider.key_variable} in the environment, or api_key",
            )
        known = {
            "base_url": provider.base_url,
            "max_tokens_parameter": provider.max_tokens_parameter,
            "uses_interleaved_reasoning": provider.takes_reasoning_back,
        }
        return {**known, **given, "api_key": key}


class InferenceProvider(ChatCompletionsServer):
    """The Responses API in front of a hosted provider."""

    config: InferenceProviderConfig

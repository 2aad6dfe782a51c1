"""`inference_provider`: a model server for a hosted provider, chosen by name."""

import os
from typing import Any, Literal, NamedTuple

from pydantic import model_validator

from palestra.config import did_you_mean
from palestra.errors import ConfigError
from palestra.responses_api_models.chat import ChatCompletionsServer, ChatModelConfig


class Provider(NamedTuple):
    """The settings of one provider of Chat Completions."""

    base_url: str
    key_variable: str
    """The environment variable that usually contains the user's API key."""
    max_tokens_parameter: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    takes_reasoning_back: bool = False
    """Whether earlier turns may be sent with their reasoning; other providers refuse the field."""


PROVIDERS: dict[str, Provider] = {
    "cerebras": Provider("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "deepinfra": Provider("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "fireworks": Provider("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "gemini": Provider("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "groq": Provider("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "huggingface": Provider("https://router.huggingface.co/v1", "HF_TOKEN"),
    "mistral": Provider("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "nvidia": Provider("https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY", "max_completion_tokens"),
    "openrouter": Provider(
        "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", takes_reasoning_back=True
    ),
    "together": Provider("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "xai": Provider("https://api.x.ai/v1", "XAI_API_KEY"),
}


class InferenceProviderConfig(ChatModelConfig):
    """The settings of `inference_provider`."""

    provider: str
    """A key of `PROVIDERS`. The provider's values are the defaults of the settings below."""
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
        provider = PROVIDERS.get(name)
        if provider is None:
            raise ConfigError(
                f"provider {name!r} is not known{did_you_mean(name, set(PROVIDERS))}",
                hint=f"one of {', '.join(PROVIDERS)}; any other endpoint is vllm_model's, by its "
                "base_url",
            )
        key = fields.get("api_key") or os.environ.get(provider.key_variable, "")
        if not key:
            raise ConfigError(
                f"provider {name!r} needs a key, and there is none",
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

"""Hosted providers by name: where they are, and what they call things."""

from typing import Literal, NamedTuple


class Provider(NamedTuple):
    """One provider of Chat Completions."""

    base_url: str
    key_variable: str
    """The environment variable in which its users keep their key."""
    max_tokens_parameter: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    takes_reasoning_back: bool = False
    """Whether earlier turns may be sent with their reasoning: others refuse the field."""


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

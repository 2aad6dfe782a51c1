"""The providers of models: one row of data for each name before the `:` of `--model`.

A row says where the provider is, which environment variable contains the user's key, which protocol
the provider speaks, and its quirks. A project adds rows with `model_providers` in its env.yaml.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from palestra.config import did_you_mean, raise_problems
from palestra.errors import Problem
from palestra.settings import sentence_of

MODEL_PROVIDERS: Final = "model_providers"
"""The setting with a project's own rows."""


class Dialect(StrEnum):
    """The protocol of a provider."""

    RESPONSES = "responses"
    """OpenAI's Responses API."""
    CHAT = "chat"
    """Chat Completions."""
    MESSAGES = "messages"
    """Anthropic's Messages."""


class Provider(BaseModel):
    """One provider of models."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str = ""
    """The URL below which the protocol's paths are, including `/v1`. Empty: the user gives it."""
    key_variable: str = ""
    """The environment variable with the API key; empty: there is none."""
    key_needed: bool = True
    """Whether requests without a key are refused. False for servers on the user's own machines."""
    dialect: Dialect = Dialect.CHAT
    url_variable: str = ""
    """The environment variable with the base URL of the user's own endpoint or gateway."""
    model_server: str = ""
    """The model server for this provider, when it is not the one of its dialect."""
    max_tokens_parameter: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What Chat Completions of this provider call the limit of an answer's tokens."""
    takes_reasoning_back: bool = False
    """Whether earlier turns of a chat may be sent with their reasoning. Other providers refuse it."""


def _own_server(base_url: str, key_variable: str, model_server: str = "") -> Provider:
    """Return the row of a server that users start themselves, at its usual port."""
    return Provider(
        base_url=base_url, key_variable=key_variable, key_needed=False, model_server=model_server
    )


PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        # The small model that Palestra starts itself.
        "local": Provider(key_needed=False, model_server="local_model"),
        # https://docs.vllm.ai/en/latest/serving/openai_compatible_server/
        "vllm": _own_server("http://127.0.0.1:8000/v1", "VLLM_API_KEY", "vllm_model"),
        # https://docs.sglang.io/docs/get-started/quickstart
        "sglang": _own_server("http://127.0.0.1:30000/v1", "SGLANG_API_KEY"),
        # https://docs.ollama.com/api/openai-compatibility
        "ollama": _own_server("http://127.0.0.1:11434/v1", "OLLAMA_API_KEY"),
        # https://lmstudio.ai/docs/developer/openai-compat
        # https://lmstudio.ai/docs/developer/core/authentication
        "lmstudio": _own_server("http://127.0.0.1:1234/v1", "LM_API_TOKEN"),
        # https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
        "llamacpp": _own_server("http://127.0.0.1:8080/v1", "LLAMA_API_KEY"),
        # https://platform.openai.com/docs/api-reference/introduction
        "openai": Provider(
            base_url="https://api.openai.com/v1",
            url_variable="OPENAI_BASE_URL",
            key_variable="OPENAI_API_KEY",
            dialect=Dialect.RESPONSES,
            max_tokens_parameter="max_completion_tokens",
        ),
        # https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle
        "azure": Provider(
            key_variable="AZURE_OPENAI_API_KEY",
            url_variable="AZURE_OPENAI_ENDPOINT",
            model_server="azure_openai_model",
            max_tokens_parameter="max_completion_tokens",
        ),
        # https://platform.claude.com/docs/en/api/overview
        "anthropic": Provider(
            base_url="https://api.anthropic.com/v1",
            key_variable="ANTHROPIC_API_KEY",
            dialect=Dialect.MESSAGES,
        ),
        # https://ai.google.dev/gemini-api/docs/openai
        "google": Provider(
            base_url="https://generativelanguage.googleapis.com/v1beta/openai",
            key_variable="GEMINI_API_KEY",
        ),
        # https://openrouter.ai/docs/quickstart
        "openrouter": Provider(
            base_url="https://openrouter.ai/api/v1",
            key_variable="OPENROUTER_API_KEY",
            takes_reasoning_back=True,
        ),
        # https://docs.together.ai/docs/inference/openai-compatibility
        "together": Provider(
            base_url="https://api.together.ai/v1", key_variable="TOGETHER_API_KEY"
        ),
        # https://docs.fireworks.ai/tools-sdks/openai-compatibility
        "fireworks": Provider(
            base_url="https://api.fireworks.ai/inference/v1", key_variable="FIREWORKS_API_KEY"
        ),
        # https://console.groq.com/docs/openai
        "groq": Provider(base_url="https://api.groq.com/openai/v1", key_variable="GROQ_API_KEY"),
        # https://docs.mistral.ai/developers/quickstarts/first-api-request
        "mistral": Provider(base_url="https://api.mistral.ai/v1", key_variable="MISTRAL_API_KEY"),
        # https://api-docs.deepseek.com/
        "deepseek": Provider(base_url="https://api.deepseek.com", key_variable="DEEPSEEK_API_KEY"),
        # https://docs.x.ai/developers/quickstart
        "xai": Provider(base_url="https://api.x.ai/v1", key_variable="XAI_API_KEY"),
        # https://build.nvidia.com/ (llms.txt: "Authenticate and connect to NVIDIA NIM APIs")
        "nvidia": Provider(
            base_url="https://integrate.api.nvidia.com/v1", key_variable="NVIDIA_API_KEY"
        ),
        # https://huggingface.co/docs/inference-providers/index
        "hf": Provider(base_url="https://router.huggingface.co/v1", key_variable="HF_TOKEN"),
        # https://inference-docs.cerebras.ai/resources/openai
        "cerebras": Provider(
            base_url="https://api.cerebras.ai/v1", key_variable="CEREBRAS_API_KEY"
        ),
        # https://docs.deepinfra.com/chat/overview
        "deepinfra": Provider(
            base_url="https://api.deepinfra.com/v1/openai", key_variable="DEEPINFRA_API_KEY"
        ),
    }
)
"""Palestra's own rows. The comment above each is the provider's page with these values."""


def providers_with(rows: Any) -> dict[str, Provider]:
    """Return the rows of `PROVIDERS` and those of the setting `model_providers`, which replace rows
    of the same name.

    Raises ConfigError: a row of the setting is not valid.
    """
    if rows is None:
        return dict(PROVIDERS)
    if not isinstance(rows, Mapping):
        hint = f"{MODEL_PROVIDERS}: {{corp: {{base_url: https://…/v1, key_variable: CORP_KEY}}}}"
        text = f"{MODEL_PROVIDERS} must map names to rows, got {rows!r:.80}"
        raise_problems([Problem(text, key=MODEL_PROVIDERS, hint=hint)])
    return {**PROVIDERS, **{str(name): _row(str(name), row) for name, row in rows.items()}}


def _problem(name: str, problem: ErrorDetails) -> Problem:
    """Return what is wrong with a field of the row `name`, with the nearest field."""
    where = ".".join([MODEL_PROVIDERS, name, *map(str, problem["loc"])])
    if problem["type"] == "extra_forbidden":
        near = did_you_mean(str(problem["loc"][-1]), Provider.model_fields)
        return Problem(f"{where} is no field of a row{near}", key=where)
    is_row = problem["type"] == "model_type"
    expected = "should be a mapping of fields" if is_row else sentence_of(problem)
    return Problem(f"{where} {expected}, got {problem['input']!r:.80}", key=where)


def _row(name: str, row: Any) -> Provider:
    problems: list[Problem] = []
    try:
        provider = Provider.model_validate(row)
    except ValidationError as error:
        problems = [_problem(name, problem) for problem in error.errors(include_url=False)]
    # Raised out here: as the cause, pydantic's error would show the row.
    raise_problems(
        problems,
        hint=f"correct env.yaml, or where else {MODEL_PROVIDERS} is set; the fields of a row: "
        f"{', '.join(Provider.model_fields)}",
    )
    if provider.base_url and not provider.base_url.startswith(("http://", "https://")):
        key = f"{MODEL_PROVIDERS}.{name}.base_url"
        hint = "a base URL begins with https:// or http://, and mostly ends in /v1"
        raise_problems([Problem(f"{key}: {provider.base_url!r} is not a URL", key=key, hint=hint)])
    return provider

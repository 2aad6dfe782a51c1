"""`azure_openai_model`: a deployment of Azure OpenAI, called through Chat Completions."""

from functools import cached_property
from typing import ClassVar, Literal
from urllib.parse import quote, urlencode

from palestra.responses_api_models.chat import ChatCompletionsServer, ChatModelConfig, base_urls


class AzureOpenAIModelConfig(ChatModelConfig):
    """The settings of `azure_openai_model`."""

    base_url: str | list[str]
    """The URL of the Azure resource, without a path: `https://NAME.openai.azure.com`."""
    model: str
    """The name of the deployment, which may differ from the model's name."""
    api_version: str = ""
    """The version of the dated API, such as `2024-10-21`. Empty: the undated API below
    `/openai/v1`."""
    uses_reasoning_parser: bool = True
    uses_interleaved_reasoning: bool = False
    max_tokens_parameter: Literal["max_tokens", "max_completion_tokens"] = "max_completion_tokens"


class AzureOpenAIModel(ChatCompletionsServer):
    """A model server in front of an Azure OpenAI deployment. It sends the key in the header
    `api-key`.
    """

    config: AzureOpenAIModelConfig
    key_header: ClassVar[str] = "api-key"

    @cached_property
    def _base_urls(self) -> tuple[str, ...]:
        path = "/openai/v1"
        if self.config.api_version:
            path = f"/openai/deployments/{quote(self.config.model, safe='')}"
        return tuple(
            url.removesuffix("/openai/v1").removesuffix("/openai") + path
            for url in base_urls(self.config.base_url)
        )

    @cached_property
    def _query(self) -> str:
        version = self.config.api_version
        return f"?{urlencode({'api-version': version})}" if version else ""

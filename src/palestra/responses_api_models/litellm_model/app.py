"""`litellm_model`: a LiteLLM proxy, and every provider that it speaks to."""

from palestra.responses_api_models.chat import ChatCompletionsServer, ChatModelConfig


class LiteLLMModelConfig(ChatModelConfig):
    """Settings of `litellm_model`."""

    uses_reasoning_parser: bool = True
    """LiteLLM brings every provider's reasoning into `reasoning_content`."""


class LiteLLMModel(ChatCompletionsServer):
    """The Responses API in front of a LiteLLM proxy."""

    config: LiteLLMModelConfig

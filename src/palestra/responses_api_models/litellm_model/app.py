"""`litellm_model`: a model server for a LiteLLM proxy and all providers behind it."""

from palestra.responses_api_models.chat import ChatCompletionsServer, ChatModelConfig


class LiteLLMModelConfig(ChatModelConfig):
    """The settings of `litellm_model`."""

    uses_reasoning_parser: bool = True
    """True by default: LiteLLM returns every provider's reasoning in `reasoning_content`."""


class LiteLLMModel(ChatCompletionsServer):
    """A model server in front of a LiteLLM proxy."""

    config: LiteLLMModelConfig

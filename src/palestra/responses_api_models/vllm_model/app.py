"""`vllm_model`: any Chat Completions endpoint, vLLM above all."""

from palestra.responses_api_models.chat import ChatCompletionsServer, ChatModelConfig


class VLLMModelConfig(ChatModelConfig):
    """Settings of `vllm_model`."""


class VLLMModel(ChatCompletionsServer):
    """The Responses API in front of a Chat Completions endpoint."""

    config: VLLMModelConfig

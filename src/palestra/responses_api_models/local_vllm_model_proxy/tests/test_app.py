"""`local_vllm_model_proxy`: other settings for the vLLM of another server."""

from palestra.responses_api_models.local_vllm_model_proxy.app import LocalVLLMModelProxyConfig


def test_the_model_server_is_all_that_must_be_given() -> None:
    config = LocalVLLMModelProxyConfig.model_validate(
        {"model_server": {"type": "responses_api_models", "name": "engine"}}
    )

    assert config.model_server.name == "engine"
    assert config.model == ""

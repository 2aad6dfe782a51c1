"""`local_vllm_model`: a vLLM that the server starts."""

from pathlib import Path

import pytest

from palestra.errors import ConfigError
from palestra.responses_api_models.local_vllm_model.app import LocalVLLMModelConfig


def test_the_model_is_all_that_must_be_given() -> None:
    assert LocalVLLMModelConfig(model="org/tiny").vllm_serve_kwargs == {}


def test_an_endpoint_is_started_and_not_given() -> None:
    with pytest.raises(ConfigError):
        LocalVLLMModelConfig(model=str(Path("tiny")), base_url="http://127.0.0.1:1/v1")

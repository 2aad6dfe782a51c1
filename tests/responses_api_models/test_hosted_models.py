"""Servers that are Chat Completions with another address, key or default."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from endpoint_fakes import VLLM, ScriptedTransport, reply

from palestra.errors import ConfigError, ModelNotServed
from palestra.responses_api_models import inference_provider
from palestra.responses_api_models.azure_openai_model.app import (
    AzureOpenAIModel,
    AzureOpenAIModelConfig,
)
from palestra.responses_api_models.inference_provider.app import (
    NAMES,
    InferenceProvider,
    InferenceProviderConfig,
)
from palestra.responses_api_models.litellm_model.app import LiteLLMModel, LiteLLMModelConfig
from palestra.responses_api_models.providers import PROVIDERS
from palestra.schema import Response, ResponseCreateParams
from palestra.server import ModelServer, Session
from palestra.transport import ServerClient

QUESTION = ResponseCreateParams(input="hi", max_output_tokens=9)


def answered() -> ScriptedTransport:
    return ScriptedTransport([reply(*VLLM["chat"])])


def azure(http: ScriptedTransport, **settings: Any) -> AzureOpenAIModel:
    given = {"base_url": "https://me.openai.azure.com", "model": "my gpt", "api_key": "k" * 9}
    config = AzureOpenAIModelConfig.model_validate({"name": "policy_model", **given, **settings})
    return AzureOpenAIModel(config=config, server_client=ServerClient({}, http))


def provider(http: ScriptedTransport, **settings: Any) -> InferenceProvider:
    config = InferenceProviderConfig.model_validate(
        {"name": "policy_model", "model": "m", **settings}
    )
    return InferenceProvider(config=config, server_client=ServerClient({}, http))


def ask(server: ModelServer) -> Response:
    return asyncio.run(server.responses(QUESTION, Session("s")))


def test_azure_is_asked_by_deployment_and_version_with_its_own_key_header() -> None:
    http = answered()

    ask(azure(http, api_version="2024-10-21"))

    (request,) = http.requests
    assert request["url"] == (
        "https://me.openai.azure.com/openai/deployments/my%20gpt/chat/completions"
        "?api-version=2024-10-21"
    )
    assert request["headers"]["api-key"] == "k" * 9
    assert "authorization" not in request["headers"]
    assert request["body"]["max_completion_tokens"] == 9


@pytest.mark.parametrize("path", ["", "/", "/openai", "/openai/v1", "/openai/v1/"])
def test_azure_without_a_version_is_asked_below_v1(path: str) -> None:
    http = answered()

    ask(azure(http, base_url=f"https://me.openai.azure.com{path}"))

    assert http.requests[0]["url"] == "https://me.openai.azure.com/openai/v1/chat/completions"


def test_a_deployment_that_azure_does_not_know_is_named() -> None:
    body = {
        "error": {
            "code": "DeploymentNotFound",
            "message": "The API deployment for this resource does not exist.",
        }
    }

    with pytest.raises(ModelNotServed, match="'my gpt': The API deployment"):
        ask(azure(ScriptedTransport([reply(404, body)])))


def test_a_provider_is_found_by_its_name_and_the_key_in_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk-of-the-environment")
    http = answered()

    ask(provider(http, provider="groq"))

    (request,) = http.requests
    assert request["url"] == "https://api.groq.com/openai/v1/chat/completions"
    assert request["headers"]["authorization"] == "Bearer gsk-of-the-environment"
    assert request["body"]["max_tokens"] == 9


def test_what_is_given_goes_over_what_the_providers_name_says() -> None:
    http = answered()

    ask(provider(http, provider="openai", api_key="sk-mine", base_url="http://proxy/v1"))

    (request,) = http.requests
    assert request["url"] == "http://proxy/v1/chat/completions"
    assert request["headers"]["authorization"] == "Bearer sk-mine"
    assert request["body"]["max_completion_tokens"] == 9


def test_a_provider_without_a_key_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)

    with pytest.raises(ConfigError) as caught:
        provider(answered(), provider="mistral")

    assert "MISTRAL_API_KEY" in caught.value.hint


def test_a_misspelt_provider_is_told_what_was_meant() -> None:
    with pytest.raises(ConfigError, match="did you mean") as caught:
        provider(answered(), provider="openruter", api_key="k")

    assert "openrouter" in caught.value.message
    assert "base_url" in caught.value.hint


def test_a_provider_that_nobody_knows_needs_its_url_alone() -> None:
    http = answered()

    ask(provider(http, provider="corp", base_url="http://corp/v1", api_key="k"))

    assert http.requests[0]["url"] == "http://corp/v1/chat/completions"


def test_the_providers_page_has_the_whole_table() -> None:
    page = Path(inference_provider.__file__).with_name("README.md").read_text()

    for name in NAMES:
        row = PROVIDERS[name]
        assert f"| `{name}` | `{row.key_variable}` | `{row.base_url}` |" in page


def test_a_model_that_litellms_proxy_does_not_know_ends_the_run() -> None:
    body = {
        "error": {
            "message": "/chat/completions: Invalid model name passed in model=m. Call `/v1/models` "
            "to view available models for your key.",
            "type": "None",
            "param": "None",
            "code": "400",
        }
    }
    config = LiteLLMModelConfig(name="policy_model", base_url="http://proxy/v1", model="m")
    http = ScriptedTransport([reply(400, body)])

    with pytest.raises(ModelNotServed, match="Invalid model name passed"):
        ask(LiteLLMModel(config=config, server_client=ServerClient({}, http)))


def test_litellms_reasoning_field_is_expected() -> None:
    _, plain = VLLM["chat"]
    (choice,) = plain["choices"]
    said = {**choice["message"], "reasoning_content": "hm"}
    http = ScriptedTransport([reply(200, {**plain, "choices": [{**choice, "message": said}]})])
    config = LiteLLMModelConfig(name="policy_model", base_url="http://proxy/v1", model="m")

    found = ask(LiteLLMModel(config=config, server_client=ServerClient({}, http)))

    assert [item.type for item in found.output] == ["reasoning", "message"]

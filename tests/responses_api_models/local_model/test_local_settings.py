import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

import palestra
from palestra.errors import ConfigError, ModelError
from palestra.fleet import load_server_class
from palestra.responses_api_models.local_model.app import (
    LocalModel,
    LocalModelConfig,
    default_threads,
)
from palestra.schema import ResponseCreateParams
from palestra.server import Session
from palestra.transport import HttpClient, ServerClient

FOLDER = Path(palestra.__file__).parent / "responses_api_models/local_model"


def model(**settings: Any) -> LocalModel:
    config = LocalModelConfig(**settings)
    return LocalModel(config=config, server_client=ServerClient({}, HttpClient()))


def test_the_shipped_config_needs_no_setting() -> None:
    shipped = yaml.safe_load((FOLDER / "configs" / "local_model.yaml").read_text())
    settings = shipped["policy_model"]["responses_api_models"]["local_model"]

    assert load_server_class(FOLDER / settings.pop("entrypoint")) is LocalModel
    assert LocalModelConfig(**settings).model == "smollm2-135m-instruct"


def test_a_base_url_is_refused_because_the_model_starts_its_own_endpoint() -> None:
    with pytest.raises(ConfigError, match="takes no base_url"):
        LocalModelConfig(base_url="http://elsewhere/v1")


@pytest.mark.parametrize("setting", ["threads", "slots", "context_tokens", "start_timeout_s"])
def test_nothing_of_something_is_refused(setting: str) -> None:
    with pytest.raises(ValidationError, match=setting):
        LocalModelConfig(**{setting: 0})


def test_threads_are_few() -> None:
    assert 1 <= default_threads() <= 4


def test_a_model_file_that_is_not_there_is_named_before_anything_starts(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed: palestra[local]")

    with pytest.raises(ConfigError, match=r"no file .*missing\.gguf"):
        asyncio.run(model(model_path=str(tmp_path / "missing.gguf")).start())


def test_a_request_before_the_start_says_that_there_is_no_endpoint_yet() -> None:
    with pytest.raises(ModelError, match="has no endpoint yet"):
        asyncio.run(model().responses(ResponseCreateParams(input="hi"), Session("s")))

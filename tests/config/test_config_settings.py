"""An instance's settings against the pydantic model of its server."""

import subprocess
import sys
from typing import Annotated

import pytest
from config_world import World
from pydantic import BaseModel, ConfigDict, Field, field_validator

from palestra.config import InstanceConfig, ServerRef, ServerType, settings_from
from palestra.errors import ConfigError, KnownCause


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    temperature: float = 1.0


class Settings(BaseModel):
    openai_base_url: str
    model_server: ServerRef | None = None
    max_steps: Annotated[int, Field(ge=1)] = 3
    sampling: list[Inner] = []
    api_key: str = ""
    renamed: int = Field(0, validation_alias="wire_name")
    port: int | None = None

    @field_validator("openai_base_url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        if not value.startswith("http"):
            raise ValueError(f"{value} is not a URL")
        return value


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


def instance(**settings: object) -> InstanceConfig:
    return InstanceConfig(
        name="m",
        type=ServerType.MODEL,
        implementation="openai_model",
        settings=settings,
        host="127.0.0.1",
        port=None,
    )


def message_of(**settings: object) -> str:
    with pytest.raises(ConfigError) as caught:
        settings_from(Settings, instance(**settings))
    return caught.value.message


def test_settings_become_the_servers_model() -> None:
    reference = {"type": "resources_servers", "name": "r"}

    settings = settings_from(
        Settings, instance(openai_base_url="http://x", model_server=reference, wire_name=4)
    )

    assert settings.model_server == ServerRef("resources_servers", "r")
    assert settings.renamed == 4


def test_an_unknown_setting_names_instance_key_nearest_and_all_valid_ones() -> None:
    message = message_of(openai_base_url="http://x", max_stepz=1)

    assert message == (
        "m: max_stepz is not a setting; did you mean 'max_steps'? (valid: api_key, datasets, "
        "description, domain, entrypoint, host, max_steps, model_server, num_workers, "
        "openai_base_url, placement, port, sampling, value, verified, wire_name)"
    )


def test_unknown_missing_and_invalid_settings_are_listed_together() -> None:
    message = message_of(max_stepz=1, max_steps=0)

    assert message.startswith("3 problems")
    assert "++m.responses_api_models.openai_model.openai_base_url=<value>" in message
    assert "m: max_steps: Input should be greater than or equal to 1" in message


def test_an_unknown_nested_setting_names_its_path_and_the_nearest() -> None:
    message = message_of(openai_base_url="http://x", sampling=[{"temprature": 1}])

    assert "m: sampling.0.temprature is not a setting; did you mean 'temperature'?" in message


def test_an_error_does_not_repeat_a_secret() -> None:
    message = message_of(openai_base_url="sk-abc", api_key="sk-abc")

    assert "sk-abc" not in message
    assert "is not a URL" in message


def test_a_model_that_allows_more_gets_more() -> None:
    assert settings_from(Open, instance(anything=1)).model_extra == {"anything": 1}


def test_extra_values_fill_fields_that_the_model_has_and_settings_win() -> None:
    extra = {"port": 1, "host": "h", "max_steps": 9}

    settings = settings_from(
        Settings, instance(openai_base_url="http://x", max_steps=5), extra=extra
    )

    assert (settings.port, settings.max_steps) == (1, 5)


def test_importing_the_package_imports_no_heavy_library(world: World) -> None:
    code = (
        "import sys, palestra.config; "
        "print([m for m in ('omegaconf', 'hydra', 'pydantic', 'yaml') if m in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=world.cwd
    )

    assert done.stdout.strip() == "[]"


def test_each_problem_says_which_setting_it_is_about_and_what_went_wrong() -> None:
    with pytest.raises(ConfigError) as raised:
        settings_from(Settings, instance(max_step=3, max_steps="many"))

    assert [(problem.key, problem.cause) for problem in raised.value.problems] == [
        ("m.responses_api_models.openai_model.max_step", KnownCause.MISSPELT_SETTING),
        ("m.responses_api_models.openai_model.openai_base_url", KnownCause.MISSING_VALUE),
        ("m.responses_api_models.openai_model.max_steps", KnownCause.BAD_VALUE),
    ]
    assert all(problem.message in raised.value.message for problem in raised.value.problems)

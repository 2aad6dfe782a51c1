"""An instance's settings against the pydantic model of its server."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import pytest
from config_world import FLEET, POLICY, World
from pydantic import BaseModel, ConfigDict, Field, field_validator

from palestra.config import InstanceConfig, ServerRef, ServerType, settings_from
from palestra.errors import ConfigError, KnownCause, Problem
from palestra.system import shown


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

    max_price: float = 1.0
    size: float = 1.0


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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api_key", ["sk-proj-AAAABBBBCCCCDDDDEEEEFFFFGGGG1234567890"]),
        ("api_key", 123456789012),
        ("openai_base_url", {"token": "sk-proj-AAAABBBBCCCCDDDDEEEEFFFFGGGG1234567890"}),
        ("openai_base_url", ["http://me:AAAABBBBCCCCDDDDEEEEFFFFGGGG1234567890@host/v1"]),
    ],
)
def test_a_value_of_a_wrong_kind_does_not_repeat_a_part_of_a_secret(
    name: str, value: object
) -> None:
    message = message_of(**{"openai_base_url": "http://x", name: value})

    assert f"m: {name}: Input should be a valid string" in message
    assert "AAAA" not in message
    assert "7890" not in message
    assert "123456" not in message


def test_a_model_that_allows_more_gets_more() -> None:
    assert settings_from(Open, instance(anything=1)).model_extra == {"anything": 1}


def test_extra_values_fill_fields_that_the_model_has_and_settings_win() -> None:
    extra = {"port": 1, "host": "h", "max_steps": 9}

    settings = settings_from(
        Settings, instance(openai_base_url="http://x", max_steps=5), extra=extra
    )

    assert (settings.port, settings.max_steps) == (1, 5)


@pytest.mark.parametrize(
    ("settings", "slips"),
    [
        ({"max_prise": 5.0}, ["max_prise"]),
        ({"max_prise": 5.0, "max_price": 2.0}, ["max_prise"]),
        ({"max_prices": 5.0}, ["max_prices"]),
        ({"max_prices": 5.0, "max_price": 2.0}, []),
        ({"max_price_2": 5.0}, []),
        ({"anything_else": 5.0}, []),
        ({"szie": 1.0}, ["szie"]),
    ],
)
def test_an_additional_key_that_looks_misspelt_is_refused(
    settings: dict[str, float], slips: list[str]
) -> None:
    problems: tuple[Problem, ...] = ()
    try:
        settings_from(Open, instance(**settings))
    except ConfigError as error:
        problems = error.problems

    assert [problem.key.rpartition(".")[2] for problem in problems] == slips
    assert all(problem.cause is KnownCause.MISSPELT_SETTING for problem in problems)


def test_a_misspelt_setting_of_a_servers_class_is_refused_with_its_file(world: World) -> None:
    world.write("resources_servers/shop/app.py", "class Shop:\n    pass\n")
    world.write("shop.yaml", "shop: {resources_servers: {shop: {max_prise: 5, mine: 1}}}")
    loaded = world.load(config_paths=["shop.yaml"]).instance("shop")

    with pytest.raises(ConfigError) as caught:
        settings_from(Open, loaded)

    (problem,) = caught.value.problems
    assert problem.key == "shop.resources_servers.shop.max_prise"
    assert problem.message.startswith(str(world.cwd / "shop.yaml"))


@pytest.mark.parametrize("file", ["shop/app.py", "shared_lib/base.py"])
def test_an_additional_key_that_code_of_the_servers_has_is_accepted(
    world: World, file: str
) -> None:
    world.write("resources_servers/shop/app.py", "class Shop:\n    pass\n")
    world.write(f"resources_servers/{file}", "def price(config):\n    config.max_prise\n")
    world.write("shop.yaml", "shop: {resources_servers: {shop: {max_prise: 5}}}")
    loaded = world.load(config_paths=["shop.yaml"]).instance("shop")

    assert settings_from(Open, loaded).model_extra == {"max_prise": 5}


def test_an_additional_key_that_another_value_refers_to_is_accepted(world: World) -> None:
    world.write("resources_servers/shop/app.py", "class Shop:\n    pass\n")
    world.write(
        "shop.yaml",
        "shop: {resources_servers: {shop: {max_prise: 5, "
        "most: '${shop.resources_servers.shop.max_prise}'}}}",
    )
    loaded = world.load(config_paths=["shop.yaml"]).instance("shop")

    assert settings_from(Open, loaded).model_extra == {"max_prise": 5, "most": 5}


def test_code_of_a_virtual_environment_makes_no_key_known(world: World) -> None:
    world.write("resources_servers/shop/app.py", "class Shop:\n    pass\n")
    world.write("resources_servers/shop/.venv/lib/other.py", "max_prise = 1\n")
    world.write("shop.yaml", "shop: {resources_servers: {shop: {max_prise: 5}}}")
    loaded = world.load(config_paths=["shop.yaml"]).instance("shop")

    with pytest.raises(ConfigError, match="did you mean 'max_price'"):
        settings_from(Open, loaded)


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


class Reference(BaseModel):
    type: Literal["responses_api_models"]
    name: str
    note: str = ""


class Referring(BaseModel):
    model_server: Reference


class Files(BaseModel):
    names: list[str]


class WithFiles(BaseModel):
    files: Files


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "<name>"),
        ({"model_server": "policy_model"}, "policy_model"),
        ({"model_server": 3}, "<name>"),
    ],
)
def test_a_reference_that_is_missing_or_a_name_is_shown_as_it_is_written(
    settings: dict[str, object], name: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_from(Referring, instance(**settings))

    assert caught.value.message.endswith(
        "'++m.responses_api_models.openai_model.model_server="
        f"{{type: responses_api_models, name: {name}}}'"
    )


def test_a_nested_field_is_shown_by_its_name_and_not_by_its_type() -> None:
    with pytest.raises(ConfigError) as caught:
        settings_from(WithFiles, instance())

    assert caught.value.message.endswith("files={names: <names>}'")


def refusal_of_five(file: Path, text: str) -> str:
    """The message about `max_steps`, which is five, where `file` sets it with this text."""
    file.write_text(f"m:\n  responses_api_models:\n    openai_model:\n      {text}\n")
    refused = instance(openai_base_url="http://x", max_steps="five")
    with pytest.raises(ConfigError) as caught:
        settings_from(Settings, replace(refused, setting_files={"max_steps": file}))
    return caught.value.message


def test_a_value_that_is_refused_is_quoted_with_the_file_that_has_it(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"

    message = refusal_of_five(file, "max_steps: five")

    assert message.startswith(f"{shown(file)}:4: m: max_steps: ")
    assert message.endswith("got 'five'")


def refusal_of_number(world: World, *overrides: str) -> Problem:
    """The problem of `api_key`, which refers to a number."""
    config = world.load_text(
        "m: {responses_api_models: {openai_model: {api_key: '${policy_api_key}', "
        "openai_base_url: http://x}}}",
        *overrides,
        need_folders=False,
    )
    with pytest.raises(ConfigError) as caught:
        settings_from(Settings, config.instance("m"))
    (problem,) = caught.value.problems
    return problem


def test_a_key_that_yaml_reads_as_a_number_is_refused_with_its_line_and_not_shown(
    world: World,
) -> None:
    file = world.write("env.yaml", "policy_model_name: x\npolicy_api_key: 8812345678901234\n")

    problem = refusal_of_number(world)

    assert (problem.file, problem.line) == (str(file), 2)
    assert "quotes" in problem.hint
    assert "8812" not in problem.message + problem.hint


def test_a_number_of_an_override_is_not_said_to_be_in_the_file_that_refers_to_it(
    world: World,
) -> None:
    world.write("env.yaml", "policy_api_key: abcd\n")

    problem = refusal_of_number(world, "++policy_api_key=8812345678901234")

    assert problem.file == ""
    assert "quotes" in problem.hint


class Switch(BaseModel):
    return_token_id_information: bool = False


def test_the_value_of_a_switch_about_token_ids_is_no_secret() -> None:
    with pytest.raises(ConfigError) as caught:
        settings_from(Switch, instance(return_token_id_information="maybe"))

    assert caught.value.message.endswith("got 'maybe'")


def test_a_value_of_an_override_is_not_said_to_be_in_a_file(tmp_path: Path) -> None:
    message = refusal_of_five(tmp_path / "m.yaml", "max_steps: 3")

    assert message.startswith("m: max_steps: ")


@pytest.mark.parametrize(
    "override",
    [
        "++agent.responses_api_agents.simple_agent.model_server=policy_model",
        "++agent.responses_api_agents.simple_agent={model_server: policy_model}",
    ],
)
def test_an_overridden_setting_is_not_blamed_on_the_file_that_it_overrides(
    world: World, override: str
) -> None:
    agent = world.load_text(FLEET, *POLICY, override).instance("agent")

    with pytest.raises(ConfigError) as caught:
        settings_from(Referring, agent)

    (refused,) = (p for p in caught.value.problems if p.cause is KnownCause.BAD_VALUE)
    assert refused.message.startswith("agent: model_server: ")
    assert {*agent.setting_files} == {"resources_server"}

"""The settings of an environment in one file: by `--set`, by overrides, and in config files."""

import re
from pathlib import Path

import pytest

from palestra.api import find_target, own_overrides, prepare_evaluation
from palestra.errors import BadInput, ConfigError
from palestra.settings import EvalArgs

SHOP = """
from palestra import Environment


class Shop(Environment):
    data = [{"question": "2 + 2 = ?", "expected": "4"}]
    prompt = "{question}"
    discount: float = 0.0

    def verify(self, answer, expected):
        return (answer == expected) * (1 - self.discount)
"""
SETTING = "shop.resources_servers.environment_file.settings.discount"
SETTINGS = "shop: {resources_servers: {environment_file: {settings: {discount: 0.5}}}}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    (tmp_path / "conf.yaml").write_text(f"config_paths: [shop.py]\n{SETTINGS}")
    return tmp_path


def settings_of_target(overrides: list[str]) -> dict[str, object]:
    tree = find_target(EvalArgs(target="shop.py"), overrides).extra
    settings: dict[str, object] = tree["shop"]["resources_servers"]["environment_file"]["settings"]
    return settings


def refusal(folder: Path, target: str, **arguments: object) -> ConfigError:
    args = EvalArgs.model_validate({"target": target, "model": "openai:tiny", **arguments})
    overrides = ["++policy_api_key=sk", "++policy_base_url=http://127.0.0.1:9/v1"]
    with pytest.raises(ConfigError) as refused, prepare_evaluation(args, overrides):
        pass
    assert not (folder / "runs").exists()
    return refused.value


@pytest.mark.parametrize("environment", ["shop.py", "shop.py:Shop", "conf.yaml"])
def test_set_is_an_override_of_the_environments_setting(folder: Path, environment: str) -> None:
    assert own_overrides(environment, {"discount": "0.25"}, []) == [f"++{SETTING}=0.25"]


def test_set_without_an_environment_is_of_the_one_in_the_config_files(folder: Path) -> None:
    overrides = ["+config_paths=[conf.yaml]", "~not.yet.there"]

    assert own_overrides(None, {"discount": "0.25"}, overrides) == [f"++{SETTING}=0.25"]


def test_set_for_a_config_with_several_environments_is_refused_with_the_override(
    folder: Path,
) -> None:
    (folder / "other.py").write_text(SHOP)
    (folder / "both.yaml").write_text("config_paths: [shop.py, other.py]\n")

    with pytest.raises(ConfigError) as refused:
        own_overrides("both.yaml", {"discount": "0.25"}, [])

    assert {"other", "shop"} <= set(re.findall(r"\w+", refused.value.message))
    assert ".resources_servers.environment_file.settings." in refused.value.hint


def test_set_and_an_override_with_another_value_are_refused_with_both(folder: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        own_overrides("shop.py", {"discount": "0.5"}, [f"++{SETTING}=0.1"])

    assert "--set discount=0.5" in refused.value.message
    assert f"++{SETTING}=0.1" in refused.value.message


def test_set_and_an_override_with_the_same_value_are_taken(folder: Path) -> None:
    assert own_overrides("shop.py", {"discount": "0.50"}, [f"++{SETTING}=0.5"])


def test_a_file_has_the_settings_of_a_config_file(folder: Path) -> None:
    assert settings_of_target(["+config_paths=[settings.yaml]"]) == {"discount": 0.5}


def test_a_file_has_the_settings_of_env_yaml_before_overrides(folder: Path) -> None:
    (folder / "env.yaml").write_text(SETTINGS)

    assert settings_of_target([]) == {"discount": 0.5}
    assert settings_of_target([f"++{SETTING}=0.1"]) == {"discount": 0.1}


def test_settings_that_are_no_mapping_are_refused(folder: Path) -> None:
    with pytest.raises(BadInput, match="should be a mapping"):
        settings_of_target([f"++{SETTING.removesuffix('.discount')}=3"])


def test_a_config_with_settings_of_a_file_alone_is_refused_with_the_file(folder: Path) -> None:
    error = refusal(folder, "settings.yaml")

    assert "'shop'" in error.message
    assert "config_paths: [shop.py]" in error.hint
    assert "palestra eval shop.py --set discount=0.5" in error.hint


def test_a_config_without_an_environment_is_refused_also_with_rows(folder: Path) -> None:
    (folder / "plain.yaml").write_text("discount: 0.5\n")
    (folder / "rows.jsonl").write_text('{"question": "1 + 1 = ?", "expected": "2"}\n')

    error = refusal(folder, "plain.yaml", input="rows.jsonl")

    assert "plain.yaml defines no environment" in error.message
    assert "--set" in error.hint


def test_a_config_whose_environment_has_no_agent_is_refused_with_its_name(folder: Path) -> None:
    (folder / "server.yaml").write_text(
        "lonely: {resources_servers: {mcqa: {entrypoint: app.py, domain: knowledge}}}\n"
    )

    error = refusal(folder, "server.yaml")

    assert "'lonely'" in error.message
    assert "responses_api_agents" in error.hint


@pytest.mark.parametrize("value", ["1", "1.0"])
def test_a_run_records_a_setting_as_its_type_has_it(folder: Path, value: str) -> None:
    args = EvalArgs(target="shop.py", model="openai:tiny", own_settings={"discount": value})
    overrides = ["++policy_api_key=sk", "++policy_base_url=http://127.0.0.1:9/v1"]

    with prepare_evaluation(args, overrides) as evaluation:
        settings = evaluation.config.instance("shop").settings["settings"]

    assert repr(settings) == "{'discount': 1.0}"

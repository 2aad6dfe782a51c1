"""What a manifest remembers of settings, and what a running fleet is held to."""

from typing import Any

import pytest
import yaml

from palestra.api import differs_from_running, models_differ, server_semantics
from palestra.config import ResolvedConfig, config_from_tree, dump_yaml


def config(**settings: Any) -> ResolvedConfig:
    return config_from_tree({"mine": {"resources_servers": {"mcqa": settings}}})


def remembered(**settings: Any) -> dict[str, Any]:
    held: dict[str, Any] = server_semantics(config(**settings))["servers"]["mine"]["settings"]
    return held


def running(own: ResolvedConfig) -> ResolvedConfig:
    """The configuration as a fleet's head server tells it."""
    return config_from_tree(yaml.safe_load(dump_yaml(own)))


@pytest.mark.parametrize("name", ["stop_token", "think_end_token", "answer_key"])
def test_a_setting_that_is_named_like_a_secret_counts_and_is_not_told(name: str) -> None:
    before = remembered(**{name: "</think>"})

    assert before[name].startswith("sha256:")
    assert before != remembered(**{name: "</answer>"})
    assert before == remembered(**{name: "</think>"})


def test_the_same_secret_is_remembered_differently_in_every_place() -> None:
    held = remembered(stop_token="x", other_token="x")

    assert held["stop_token"] != held["other_token"]


def test_a_model_named_like_the_api_key_is_unchanged_when_the_key_changes() -> None:
    before = remembered(api_key="vllm", model="vllm-qwen")

    assert before == {"model": "vllm-qwen"} == remembered(api_key="other", model="vllm-qwen")


def test_a_key_within_other_settings_is_never_written_down() -> None:
    held = remembered(
        api_key="sk-abcdefgh", headers=["Bearer sk-abcdefgh"], judge={"api_key": "sk-ijklmnop"}
    )

    assert "sk-" not in str(held)
    assert held["judge"] == {"api_key": "****"}


def test_what_a_running_fleet_masks_counts_as_equal() -> None:
    own = config(api_key="vllm", model="vllm-qwen", stop_token="</a>", url="http://me:pass@host")

    assert "****-qwen" in str(running(own).tree)
    assert differs_from_running(running(own), own) == []
    other = config(api_key="k", model="vllm-qwen", stop_token="</b>", url="http://me:word@host")
    assert differs_from_running(running(own), other) == []


def test_a_model_that_a_command_without_servers_names_is_compared() -> None:
    fleet = config_from_tree({"policy_model_name": "slow", "policy_base_url": "http://a:1/v1"})
    command = config_from_tree({"policy_model_name": "fast", "policy_base_url": "http://a:1/v1"})

    assert models_differ(fleet, command) == {
        "policy_model_name": "policy_model_name: 'slow' -> 'fast'"
    }
    assert models_differ(fleet, config_from_tree({"policy_api_key": "k"})) == {}
    assert models_differ(config_from_tree({}), command) == {}


def test_what_a_running_fleet_does_not_mask_is_compared() -> None:
    own = config(api_key="vllm", model="vllm-qwen")

    found = differs_from_running(running(own), config(api_key="vllm", model="vllm-llama"))

    assert found == ["mine.settings.model: '****-qwen' -> 'vllm-llama'"]

"""The settings of capture, which a wrong configuration names before anything starts."""

from pathlib import Path
from typing import Any

import pytest

from palestra.config import capture_settings, load_config
from palestra.errors import ConfigError


def test_nothing_is_captured_by_default() -> None:
    assert capture_settings({}) is None
    assert capture_settings({"model_call_capture_dir": "/a"}) is None


def test_enabled_capture_has_its_folder() -> None:
    settings = capture_settings({"observability_enabled": True, "model_call_capture_dir": "/a"})

    assert settings is not None
    assert (settings.folder, settings.calls, settings.token_ids) == (Path("/a"), True, False)


def test_token_ids_can_be_captured_alone() -> None:
    tree = {"token_id_capture": {"enabled": True}, "model_call_capture_dir": "/a"}

    settings = capture_settings(tree)

    assert settings is not None
    assert (settings.calls, settings.token_ids) == (False, True)


@pytest.mark.parametrize(
    ("tree", "named"),
    [
        ({"observability_enabled": True}, "model_call_capture_dir"),
        ({"token_id_capture": {"enabled": True}}, "model_call_capture_dir"),
        ({"observability_enabled": True, "model_call_capture_dir": "a"}, "absolute"),
        ({"observability_enabled": "on"}, "observability_enabled"),
        ({"token_id_capture": True}, "token_id_capture"),
    ],
)
def test_a_wrong_setting_is_a_configuration_error(tree: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        load_config(extra=tree, use_env_yaml=False)


def test_the_settings_are_known_top_level_keys() -> None:
    tree = {"observability_enabled": False, "token_id_capture": {"enabled": False}}

    assert load_config(extra=tree, use_env_yaml=False).warnings == ()

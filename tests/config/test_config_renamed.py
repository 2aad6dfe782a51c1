"""Folders of the field that have another name here are found under their old one."""

import pytest
from config_world import World

from palestra.config import PACKAGE_ROOT, load_config, renamed, resolve_path
from palestra.errors import ConfigError

OLD = "resources_servers/multineedle"
NEW = "resources_servers/example_multi_step"
OLD_CONFIG = f"{OLD}/configs/multineedle.yaml"
NEW_CONFIG = f"{NEW}/configs/example_multi_step.yaml"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD, NEW),
        (OLD_CONFIG, NEW_CONFIG),
        (f"{OLD}/data/example.jsonl", f"{NEW}/data/example.jsonl"),
        (f"{OLD}/app.py", f"{NEW}/app.py"),
    ],
)
def test_the_old_name_finds_what_is_shipped(world: World, old: str, new: str) -> None:
    assert resolve_path(old, world.cwd, PACKAGE_ROOT) == PACKAGE_ROOT / new
    assert (PACKAGE_ROOT / new).exists()


@pytest.mark.parametrize("path", ["nvidia/multineedle", "data/multineedle.jsonl", "multineedle"])
def test_other_names_stay_as_the_user_wrote_them(path: str) -> None:
    assert renamed(path) is None


def test_an_old_name_is_said_once(world: World) -> None:
    loaded = load_config(
        overrides=[f"+input_jsonl_fpath={OLD}/data/example.jsonl"],
        config_paths=[OLD_CONFIG],
        cwd=world.cwd,
        required=(),
    )

    assert [warning for warning in loaded.warnings if OLD in warning] == [
        f"{OLD} is now called {NEW}; the new file is used"
    ]


def test_an_error_in_a_config_of_the_old_name_says_so_too(world: World) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(overrides=[f"+config_paths=[{OLD_CONFIG}]"], cwd=world.cwd)

    assert "policy_model" in caught.value.message
    assert f"{OLD} is now called {NEW}" in caught.value.hint


def test_a_server_of_the_old_name_runs_the_new_folder(world: World) -> None:
    world.write("mine.yaml", "mine: {resources_servers: {multineedle: {entrypoint: app.py}}}")

    loaded = load_config(config_paths=["mine.yaml"], cwd=world.cwd)

    assert loaded.instances["mine"].folder == PACKAGE_ROOT / NEW
    assert any(OLD in warning for warning in loaded.warnings)


def test_a_folder_of_that_name_in_the_project_is_the_projects_own(world: World) -> None:
    own = world.write(OLD_CONFIG, "mine: 1")

    loaded = load_config(config_paths=[OLD_CONFIG], cwd=world.cwd)

    assert loaded.sources == (own,)
    assert not loaded.warnings


@pytest.mark.parametrize("paths", [[OLD_CONFIG, NEW_CONFIG], [NEW_CONFIG, OLD_CONFIG]])
def test_both_names_in_one_list_are_an_error(world: World, paths: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config_paths=paths, cwd=world.cwd, required=())

    assert OLD_CONFIG in caught.value.message
    assert NEW_CONFIG in caught.value.message
    assert OLD_CONFIG in caught.value.hint

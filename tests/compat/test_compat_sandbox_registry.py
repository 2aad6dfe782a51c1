"""`nemo_gym.sandbox`: providers by name, and the configuration that chooses one."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from palestra.compat.nemo_gym.global_config import set_global_config_dict
from palestra.compat.nemo_gym.sandbox import (
    ProviderUnavailable,
    create_provider,
    get_provider_class,
    list_providers,
    register_provider,
    resolve_provider_config,
    resolve_provider_metadata,
    rewrite_image,
)
from palestra.compat.nemo_gym.sandbox.providers import registry
from palestra.compat.nemo_gym.sandbox.providers.docker import DockerProvider
from palestra.compat.nemo_gym.sandbox.utils import rewrite_image as utils_rewrite_image

BUILT_IN = [
    "apptainer",
    "daytona",
    "docker",
    "ecs_fargate",
    "enroot",
    "opensandbox",
    "openshell",
]
MISSING = ["daytona", "ecs_fargate", "enroot", "opensandbox", "openshell"]


class Mine:
    """A provider of a project."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings


@pytest.fixture(autouse=True)
def registered_nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_registered", {})
    yield
    set_global_config_dict({})


def test_list_providers_is_sorted_and_has_the_built_in_and_the_registered_ones() -> None:
    register_provider("mine", Mine)
    names = list_providers()
    assert names == sorted(names)
    assert {"mine", *BUILT_IN, "auto", "local", "process", "bubblewrap", "http"} <= set(names)


@pytest.mark.parametrize("name", ["", " ", "docker"])
def test_register_provider_refuses_empty_and_built_in_names(name: str) -> None:
    with pytest.raises(ValueError, match="sandbox provider"):
        register_provider(name, Mine)


def test_register_provider_replaces_a_registered_class_only_with_override() -> None:
    register_provider("mine", Mine)
    with pytest.raises(ValueError, match="override"):
        register_provider("mine", dict)
    register_provider("mine", dict, override=True)
    assert get_provider_class("mine") is dict


def test_register_provider_beats_a_built_in_one_with_override() -> None:
    register_provider("docker", Mine, override=True)
    assert get_provider_class("docker") is Mine


def test_register_provider_may_use_the_names_of_our_back_ends() -> None:
    register_provider("local", Mine)
    assert get_provider_class("local") is Mine


def test_an_entry_point_is_a_provider_that_a_registered_and_a_built_in_one_beat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    information = tmp_path / "theirs-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (information / "entry_points.txt").write_text(
        "[nemo_gym.sandbox_providers]\ntheirs = collections:Counter\ndocker = collections:deque\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])

    assert "theirs" in list_providers()
    assert get_provider_class("theirs").__name__ == "Counter"
    assert get_provider_class("docker") is DockerProvider
    register_provider("theirs", Mine)
    assert get_provider_class("theirs") is Mine


@pytest.mark.parametrize("name", BUILT_IN)
def test_get_provider_class_knows_every_built_in_name(name: str) -> None:
    assert get_provider_class(name).name == name  # type: ignore[attr-defined]


def test_get_provider_class_names_the_available_ones_for_an_unknown_name() -> None:
    with pytest.raises(ValueError, match=r"'dokcer'.*apptainer.*docker"):
        get_provider_class("dokcer")


@pytest.mark.parametrize("name", MISSING)
def test_a_provider_that_palestra_lacks_says_what_it_needs_and_what_to_do(name: str) -> None:
    with pytest.raises(ProviderUnavailable, match=rf"{name}.*needs.*register_provider"):
        create_provider({name: {"api_key": "x"}})


def test_create_provider_passes_the_arguments_as_keywords() -> None:
    register_provider("mine", Mine)
    assert create_provider({"mine": {"a": 1}}).settings == {"a": 1}  # type: ignore[attr-defined]
    assert create_provider({"mine": None}).settings == {}  # type: ignore[attr-defined]
    config = OmegaConf.create({"mine": {"a": [1]}})
    assert create_provider(config).settings == {"a": [1]}  # type: ignore[arg-type, attr-defined]


@pytest.mark.parametrize("config", [{}, {"a": {}, "b": {}}, {"": {}}, {"unknown": {}}])
def test_create_provider_refuses_all_but_one_known_name(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="provider"):
        create_provider(config)


@pytest.mark.parametrize("arguments", ["text", ["list"], 3])
def test_create_provider_refuses_arguments_that_are_no_mapping(arguments: object) -> None:
    with pytest.raises(TypeError, match="mapping"):
        create_provider({"docker": arguments})


def test_resolve_provider_config_takes_a_block_without_its_metadata() -> None:
    block = {"docker": {"create": {"network": "none"}}, "default_metadata": {"team": "x"}}
    assert resolve_provider_config(block) == {"docker": {"create": {"network": "none"}}}
    assert resolve_provider_metadata(block) == {"team": "x"}
    assert resolve_provider_metadata({"docker": {}}) == {}


def test_resolve_provider_config_looks_a_name_up() -> None:
    configs = OmegaConf.create(
        {"net": "none", "box": {"docker": {"network": "${net}"}, "default_metadata": {"a": 1}}}
    )
    assert resolve_provider_config("box", configs) == {"docker": {"network": "none"}}  # type: ignore[arg-type]
    assert resolve_provider_metadata("box", configs) == {"a": 1}  # type: ignore[arg-type]
    set_global_config_dict({"box": {"process": {}}})
    assert resolve_provider_config("box") == {"process": {}}


def test_resolve_provider_config_names_the_candidates_for_an_unknown_name() -> None:
    configs = {
        "box": {"docker": {}, "default_metadata": {}},
        "a_server": {"resources_servers": {"mcqa": {}}},
        "port": 3,
    }
    for name in ("docker", "port"):
        with pytest.raises(ValueError, match=rf"'{name}'; provider configs: box$"):
            resolve_provider_config(name, configs)
        with pytest.raises(ValueError, match="box"):
            resolve_provider_metadata(name, configs)


@pytest.mark.parametrize("block", [{}, {"default_metadata": {}}, {"docker": {}, "process": {}}])
def test_resolve_provider_config_needs_exactly_one_provider(block: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        resolve_provider_config(block)


def test_resolve_provider_config_refuses_other_types() -> None:
    with pytest.raises(TypeError):
        resolve_provider_config(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        resolve_provider_metadata({"docker": {}, "default_metadata": "x"})


def test_rewrite_image_applies_the_first_rewrite_whose_prefix_matches() -> None:
    rewrites = [
        {"from": "ghcr.io/", "to": "mirror/"},
        {"from": "mirror/", "to": "never/"},
        {"from": "ghcr.io/a", "to": "never/"},
    ]
    assert rewrite_image("ghcr.io/a:1", rewrites) == "mirror/a:1"
    assert rewrite_image("docker.io/ghcr.io/a", rewrites) == "docker.io/ghcr.io/a"
    assert rewrite_image(None, rewrites) is None
    assert utils_rewrite_image is rewrite_image

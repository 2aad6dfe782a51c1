"""The suggestion for a file that does not exist."""

from pathlib import Path

import pytest
from config_world import World

from palestra.config.paths import nearest_file
from palestra.errors import ConfigError


@pytest.mark.parametrize(
    ("typed", "near"),
    [("nope.yaml", None), ("modle.yaml", "model.yaml"), ("model.yml", "model.yaml")],
)
def test_a_file_is_near_by_more_than_its_suffix(
    tmp_path: Path, typed: str, near: str | None
) -> None:
    for name in ("p.yaml", "model.yaml"):
        (tmp_path / name).write_text("{}")

    assert nearest_file(tmp_path / typed) == (tmp_path / near if near else None)


def test_two_files_with_a_space_between_them_are_asked_to_have_a_comma(world: World) -> None:
    for name in ("a.yaml", "b.yaml"):
        world.write(name, "x: 1")

    with pytest.raises(ConfigError) as caught:
        world.load(config_paths=["a.yaml b.yaml"])

    assert caught.value.hint.endswith("[a.yaml,b.yaml]")

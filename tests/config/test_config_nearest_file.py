"""The suggestion for a file that does not exist."""

from pathlib import Path

import pytest

from palestra.config.paths import nearest_file


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

"""A run is never continued with another verifier than it began with."""

from pathlib import Path

from palestra.cli.meaning import code_digest
from palestra.config import config_from_tree


def tree_of(path: Path) -> dict[str, object]:
    return {"mine": {"resources_servers": {"environment_file": {"path": str(path)}}}}


def test_an_edited_environment_file_has_another_digest(tmp_path: Path) -> None:
    path = tmp_path / "env.py"
    path.write_text("x = 0.0\n")
    instance = config_from_tree(tree_of(path)).instance("mine")
    before = code_digest(instance)

    path.write_text("x = 1.0\n")

    assert code_digest(instance) not in {"", before}

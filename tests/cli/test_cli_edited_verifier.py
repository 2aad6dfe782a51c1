"""A run is never continued with another verifier than it began with."""

from dataclasses import replace
from pathlib import Path

from palestra.api import code_digest
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


def folder_digest(folder: Path) -> str:
    instance = config_from_tree({"mine": {"resources_servers": {"mcqa": {}}}}).instance("mine")
    return code_digest(replace(instance, folder=folder))


def test_an_edited_module_beside_the_verifier_counts_and_its_tests_do_not(tmp_path: Path) -> None:
    for name in ("app.py", "scoring.py", "tests/test_app.py", ".venv/lib/other.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 0.0\n")
    before = folder_digest(tmp_path)

    for name in ("tests/test_app.py", ".venv/lib/other.py"):
        (tmp_path / name).write_text("x = 1.0\n")
    assert folder_digest(tmp_path) == before
    (tmp_path / "scoring.py").write_text("x = 1.0\n")
    assert folder_digest(tmp_path) != before

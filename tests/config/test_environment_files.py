"""A Python file among the config files is an environment, which is not imported for that."""

from pathlib import Path

import pytest

from palestra.config import NamedFile, load_config
from palestra.errors import ConfigError


def loaded(*paths: Path | str) -> dict[str, dict]:
    config = load_config(
        config_paths=[str(path) for path in paths], required=(), use_env_yaml=False
    )
    return {name: dict(instance.settings) for name, instance in config.instances.items()}


def written(folder: Path, name: str, text: str = "raise RuntimeError\n") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_is_a_server_and_an_agent_with_its_name(tmp_path: Path) -> None:
    path = written(tmp_path, "shelf.py")

    instances = loaded(path)

    assert instances.keys() == {"shelf", "shelf_agent"}
    assert instances["shelf"] == {"path": str(path)}
    assert instances["shelf_agent"]["resources_server"]["name"] == "shelf"


def test_one_of_several_classes_is_named_behind_a_colon(tmp_path: Path) -> None:
    path = written(tmp_path, "shelf.py")

    assert loaded(f"{path}:Shelf")["shelf"]["class_name"] == "Shelf"


def test_a_file_that_asks_a_judge_refers_to_the_policy(tmp_path: Path) -> None:
    path = written(
        tmp_path, "asking.py", "async def verify(self):\n    await self.judge.same(1, 2)\n"
    )

    assert loaded(path)["asking"]["judge_model_server"]["name"] == "policy_model"


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()

    with pytest.raises(ConfigError, match="both define 'shelf'"):
        loaded(written(tmp_path, "shelf.py"), written(tmp_path / "other", "shelf.py"))


@pytest.mark.parametrize("name", ["policy_model.py", "verbose.py"])
def test_a_name_that_means_something_else_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be named"):
        loaded(written(tmp_path, name))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a/shelf.py", NamedFile("a/shelf.py")),
        ("shelf.py:Shelf", NamedFile("shelf.py", "Shelf")),
        ("mcqa", None),
        ("configs/a.yaml", None),
    ],
)
def test_a_python_file_is_known_by_its_ending(text: str, named: NamedFile | None) -> None:
    assert NamedFile.parse(text) == named


SETTINGS = "shelf: {resources_servers: {environment_file: {settings: {tries: 2}}}}\n"


@pytest.mark.parametrize("is_first", [True, False])
def test_a_config_may_have_settings_of_a_file_before_and_after_it(
    tmp_path: Path, is_first: bool
) -> None:
    paths = [written(tmp_path, "a.yaml", SETTINGS), written(tmp_path, "shelf.py")]

    instances = loaded(*(paths if is_first else reversed(paths)))

    assert instances["shelf"] == {"path": str(paths[1]), "settings": {"tries": 2}}


def test_a_config_with_another_server_of_the_files_name_is_refused(tmp_path: Path) -> None:
    config = written(tmp_path, "a.yaml", "shelf: {resources_servers: {mcqa: {}}}\n")

    with pytest.raises(ConfigError, match="both define 'shelf'"):
        loaded(config, written(tmp_path, "shelf.py"))

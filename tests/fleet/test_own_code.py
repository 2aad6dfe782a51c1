"""The code that a server runs is known file by file, also outside its folder."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from palestra.config import InstanceConfig, config_from_tree
from palestra.fleet import OwnCode


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def names(path: Path) -> list[str]:
    return list(OwnCode.of_file(path).digests)


def test_an_edited_environment_file_has_another_digest(tmp_path: Path) -> None:
    path = tmp_path / "env.py"
    path.write_text("x = 0.0\n")
    tree = {"mine": {"resources_servers": {"environment_file": {"path": str(path)}}}}
    instance = config_from_tree(tree).instance("mine")
    before = OwnCode.of(instance)

    path.write_text("x = 1.0\n")

    assert before.digests.keys() == {"env.py"}
    assert OwnCode.of(instance).changed_since(before) == (path,)


def server_in(folder: Path) -> InstanceConfig:
    instance = config_from_tree({"mine": {"resources_servers": {"mcqa": {}}}}).instance("mine")
    return replace(instance, folder=folder)


def test_the_code_of_a_server_that_ships_with_palestra_has_no_files() -> None:
    instance = config_from_tree({"mine": {"resources_servers": {"mcqa": {}}}}).instance("mine")

    assert OwnCode.of(instance).digests == {}


def test_every_module_of_a_servers_folder_counts_and_its_tests_do_not(tmp_path: Path) -> None:
    write(
        tmp_path,
        dict.fromkeys(["app.py", "scoring.py", "tests/test_app.py", ".venv/lib/x.py"], "x = 0\n"),
    )

    assert OwnCode.of(server_in(tmp_path)).digests.keys() == {"app.py", "scoring.py"}


def test_a_module_of_the_project_that_a_servers_folder_imports_counts(tmp_path: Path) -> None:
    folder = tmp_path / "resources_servers" / "mine"
    write(folder, {"app.py": "from weights_of_project import W\n"})
    write(tmp_path, {"weights_of_project.py": "W = 1.0\n", "unrelated_module.py": "W = 1.0\n"})
    before = OwnCode.of(server_in(folder))

    write(tmp_path, {"weights_of_project.py": "W = 0.25\n", "unrelated_module.py": "W = 2.0\n"})

    assert before.digests.keys() == {"app.py", "weights_of_project"}
    assert OwnCode.of(server_in(folder)).changed_since(before) == (
        tmp_path / "weights_of_project.py",
    )


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("import own_rules\n", ["own_rules"]),
        ("def verify():\n    import own_rules\n", ["own_rules"]),
        ("from own_package.rules import score\n", ["own_package", "own_package.rules"]),
        ("from own_package import rules\n", ["own_package", "own_package.rules"]),
        ("from own_package import above\n", ["own_package", "own_package.above"]),
        ("import json\nimport numpy\nimport palestra\nimport nemo_gym\nimport absent\n", []),
        ("import own_rules.absent\n", ["own_rules"]),
        ("import own_rules\nthis is no Python\n", []),
    ],
)
def test_the_modules_of_the_author_that_a_file_imports_count(
    text: str, modules: list[str], tmp_path: Path
) -> None:
    write(
        tmp_path,
        {
            "env.py": text,
            "own_rules.py": "",
            "own_package/__init__.py": "",
            "own_package/rules.py": "",
            "own_package/above.py": "",
        },
    )

    assert names(tmp_path / "env.py") == ["env.py", *modules]


def test_imports_are_followed_through_modules_in_circles_and_relatively(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "env.py": "import own_package\n",
            "own_package/__init__.py": "from .rules import score\n",
            "own_package/rules.py": "from . import words\nfrom own_package import score\n",
            "own_package/words.py": "import env\n",
        },
    )

    files = OwnCode.of_file(tmp_path / "env.py").paths

    assert sorted(path.relative_to(tmp_path).as_posix() for path in files.values()) == [
        "env.py",
        "own_package/__init__.py",
        "own_package/rules.py",
        "own_package/words.py",
    ]


def test_the_names_of_files_do_not_depend_on_where_they_are(tmp_path: Path) -> None:
    files = {"env.py": "import own_rules\n", "own_rules.py": "from own_words import words\n"}
    folders = [tmp_path / "a", tmp_path / "b" / "deeper"]
    for folder in folders:
        write(folder, {**files, "own_words.py": ""})

    codes = [OwnCode.of_file(folder / "env.py").digests for folder in folders]

    assert codes[0] == codes[1]
    assert list(codes[0]) == ["env.py", "own_rules", "own_words"]


def test_a_file_that_is_new_or_gone_has_changed(tmp_path: Path) -> None:
    write(tmp_path, {"env.py": "import own_rules\nimport own_words\n", "own_rules.py": ""})
    before = OwnCode.of_file(tmp_path / "env.py")

    (tmp_path / "own_rules.py").unlink()
    write(tmp_path, {"own_words.py": ""})

    assert set(OwnCode.of_file(tmp_path / "env.py").changed_since(before)) == {
        tmp_path / "own_rules.py",
        tmp_path / "own_words.py",
    }

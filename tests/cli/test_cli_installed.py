"""Palestra as it is installed from its wheel: nothing of the checkout is there to help."""

import re
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from cli_world import World

from installed_wheel import Installation

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def package(installation: Installation) -> Path:
    """Where the installed package lies."""
    return installation.package()


def files_of(package: Path) -> set[str]:
    return {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}


def test_the_commands_are_those_of_the_wheel(installed: World, package: Path) -> None:
    assert str(package) in installed.run("ng_version", "+json=true").out


def test_the_skills_are_in_the_wheel(installed: World) -> None:
    done = installed.run("palestra", "skills", "install", ".claude/skills")

    assert done.code == 0, done.err
    assert ".claude/skills/palestra-debugging/SKILL.md" in installed.files()


def test_the_start_of_python_learns_the_names_of_the_field(package: Path) -> None:
    names = {path.name for path in package.parent.iterdir()}

    assert {"palestra_names.pth", "palestra_names.py"} <= names


def test_preparing_shipped_data_writes_nothing_into_the_installation(
    installed: World, package: Path
) -> None:
    before = files_of(package)

    done = installed.run(
        "ng_prepare_data",
        "+config_paths=[resources_servers/multineedle/configs/multineedle.yaml,"
        "responses_api_models/openai_model/configs/openai_model.yaml]",
        "+output_dirpath=data/multineedle",
        "+mode=example_validation",
    )

    assert done.code == 0, done.err
    assert done.err.count("resources_servers/multineedle is now called") == 1
    assert len(installed.rows("data/multineedle/example.jsonl")) == 5
    assert [path for path in installed.files() if path.endswith("example_prepare.jsonl")] == [
        "data/multineedle/resources_servers/example_multi_step/data/example_prepare.jsonl"
    ]
    assert files_of(package) == before


def test_a_shipped_agent_passes_its_tests_where_it_is_installed(
    installed: World, package: Path
) -> None:
    before = files_of(package)

    done = installed.run("ng_test", "+entrypoint=responses_api_agents/simple_agent")

    assert done.code == 0, done.out + done.err
    assert {name for name in files_of(package) - before if "__pycache__" not in name} == set()


def test_one_extra_brings_all_that_the_faq_uses(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())

    lines = [line for line in metadata.get_all("Requires-Dist") or [] if "nemo-gym" in line]
    brought = {re.split(r"[<>=!~;\[ ]", line)[0] for line in lines}
    assert {"huggingface-hub", "mlflow-skinny", "pytest", "ray", "yappi"} <= brought

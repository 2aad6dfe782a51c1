"""Palestra as it is installed from its wheel: nothing of the checkout is there to help."""

import re
import subprocess
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from cli_world import World

from installed_wheel import UV, build_wheel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the wheel is installed in, beside an interpreter with its dependencies."""
    target = tmp_path_factory.mktemp("site")
    command = [*UV, "pip", "install", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(command, capture_output=True, timeout=100, check=True)
    return target


@pytest.fixture
def installed(world: World, site: Path) -> World:
    """A world whose commands run the installed wheel, and leave it as it is."""
    world.environment |= {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    assert f"{site}/palestra" in world.run("ng_version", "+json=true").out
    return world


def files_of(site: Path) -> set[str]:
    return {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}


def test_the_skills_are_in_the_wheel(installed: World) -> None:
    done = installed.run("palestra", "skills", "install", ".claude/skills")

    assert done.code == 0, done.err
    assert ".claude/skills/palestra-debugging/SKILL.md" in installed.files()


def test_the_start_of_python_learns_the_names_of_the_field(site: Path) -> None:
    assert {"palestra_names.pth", "palestra_names.py"} <= files_of(site)


def test_preparing_shipped_data_writes_nothing_into_the_installation(
    installed: World, site: Path
) -> None:
    before = files_of(site)

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
    assert files_of(site) == before


def test_a_shipped_agent_passes_its_tests_where_it_is_installed(
    installed: World, site: Path
) -> None:
    before = files_of(site)

    done = installed.run("ng_test", "+entrypoint=responses_api_agents/simple_agent")

    assert done.code == 0, done.out + done.err
    assert {name for name in files_of(site) - before if "__pycache__" not in name} == set()


def test_one_extra_brings_all_that_the_faq_uses(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())

    lines = [line for line in metadata.get_all("Requires-Dist") or [] if "nemo-gym" in line]
    brought = {re.split(r"[<>=!~;\[ ]", line)[0] for line in lines}
    assert {"huggingface-hub", "mlflow-skinny", "pytest", "ray", "yappi"} <= brought

"""Each template makes an environment that passes its own tests, and whose verifier is right."""

from pathlib import Path

import pytest
from cli_world import World

from palestra.authoring import Template, scaffold, scaffold_file
from palestra.errors import ConfigError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project."""
    return tmp_path


@pytest.mark.parametrize("template", Template)
def test_a_template_leaves_no_placeholder(project: Path, template: Template) -> None:
    folder = scaffold("my_env", project, template)
    texts = {path: path.read_text() for path in folder.rglob("*") if path.is_file()}

    assert [path for path, text in texts.items() if "@NAME@" in text or "@CLASS@" in text] == []
    assert {"app.py", "README.md", "requirements.txt", "my_env.yaml"} <= {p.name for p in texts}


def test_a_file_is_made_with_or_without_its_ending(project: Path) -> None:
    assert scaffold_file("shelf", project) == project / "shelf.py"
    with pytest.raises(ConfigError, match="exists already"):
        scaffold_file("shelf.py", project)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("template", [*Template, "file"])
@pytest.mark.parametrize("command", ["test", "verify-env"])
def test_a_new_environment_passes_as_it_is_made(world: World, template: str, command: str) -> None:
    made = world.run("palestra", "init", "my_env", "--template", template)
    name = "my_env.py" if template == "file" else "my_env"
    done = world.run("palestra", command, name, timeout_s=100)

    assert made.code == 0
    assert done.code == 0, done.out + done.err


def test_the_name_of_a_built_in_environment_is_refused(world: World) -> None:
    refused = world.run("palestra", "init", "mcqa").refused()
    made = world.run("palestra", "init", "mcqa", "--shadow")

    assert "--shadow" in refused
    assert made.code == 0


def test_the_older_command_refuses_the_name_of_a_built_in_environment_too(world: World) -> None:
    command = ("ng_init_resources_server", "+entrypoint=resources_servers/mcqa")

    refused = world.run(*command).refused()

    assert "Palestra has an environment 'mcqa'" in refused
    assert "+shadow=true" in refused
    assert not (world.folder / "resources_servers").exists()
    assert world.run(*command, "+shadow=true").code == 0


def test_a_folder_of_ones_own_with_a_built_in_name_exists_already(world: World) -> None:
    (world.folder / "resources_servers/mcqa").mkdir(parents=True)

    assert "exists already" in world.run("palestra", "init", "mcqa").refused()


def test_an_unknown_template_is_refused_with_those_there_are(world: World) -> None:
    error = world.run("palestra", "init", "my_env", "--template", "tool").refused()

    assert "--template" in error
    assert "'multi-turn'" in error

"""The packages that a server runs with, as `pip-list` tells them."""

import json
from pathlib import Path

import pytest
from cli_world import World

from palestra.cli.packages import ng_pip_list
from palestra.errors import ConfigError, RunFailed


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--json", "--format=json"])
def test_a_server_without_needs_of_its_own_has_palestras_packages(
    world: World, option: str
) -> None:
    done = world.run("palestra", "pip-list", "resources_servers/mcqa", option)

    assert done.code == 0, done.err
    assert "fastapi" in {package["name"] for package in json.loads(done.out)}
    assert "Palestra's own environment" in done.err


def test_a_server_whose_environment_is_not_made_yet_has_none_to_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "resources_servers" / "mine"
    folder.mkdir(parents=True)
    (folder / "requirements.txt").write_text("no-such-package-here==1\n")
    given = ["+entrypoint=resources_servers/mine", "+format=freeze", "+uv_venv_dir=venvs"]

    with pytest.raises(RunFailed, match=r"no virtual environment .* no-such-package-here==1"):
        ng_pip_list(given)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["resources_servers/none"], "is not a server's folder"),
        (["resources_servers/mcqa", "--format", "xml"], "format: "),
    ],
)
def test_what_cannot_be_listed_is_refused(world: World, arguments: list[str], says: str) -> None:
    assert says in world.run("palestra", "pip-list", *arguments).refused()


@pytest.mark.parametrize(
    ("name", "near"),
    [("resources_servers/mcq", "mcqa"), ("responses_api_models/openai_modl", "openai_model")],
)
def test_a_server_that_does_not_exist_is_refused_with_the_nearest_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, near: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resources_servers").mkdir()

    with pytest.raises(ConfigError, match=f"did you mean '{near}'"):
        ng_pip_list([f"+entrypoint={name}"])

"""Files of a running fleet, as the commands beside it name them, and the code that it has loaded."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from palestra.api.collection import with_config_of
from palestra.api.fleet_connection import CommandObserver, FleetChoice, RunningFleet, find
from palestra.config import config_from_tree, load_config
from palestra.errors import ConfigError, KnownCause
from palestra.fleet import AttachedFleet, ConfigOrigins, Fleet, HeadAddress, OwnCode, head_server
from palestra.fleet.runfile import RunFile
from palestra.settings import CollectSettings, InputFile
from palestra.transport import HttpTransport

SHIPPED = "resources_servers/mcqa/configs/mcqa.yaml"


def fleet_in(folder: Path, tree: Mapping[str, Any]) -> RunningFleet:
    address = HeadAddress("127.0.0.1", 1, "")
    run = RunFile("127.0.0.1", 1, "nonce", 1, 0.0, str(folder))
    config = config_from_tree(dict(tree))
    attached = AttachedFleet(address, "", (), run)
    return RunningFleet(config, attached, cast("HttpTransport", None), config, {}, ConfigOrigins())


def test_configs_of_a_fleet_in_another_folder_are_named_as_seen_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    (there / "own.yaml").touch()
    monkeypatch.chdir(here)
    settings = CollectSettings(
        inputs=(InputFile(Path("in.jsonl")),),
        output_jsonl_fpath=Path("out.jsonl"),
    )

    fleet = fleet_in(there, {"config_paths": ["own.yaml", SHIPPED]})

    assert (
        with_config_of(fleet, settings).verified_by.text
        == f"--config {there / 'own.yaml'} --config {SHIPPED}"
    )


CONFIG = "x: {resources_servers: {x: {entrypoint: app.py, domain: other, host: 127.0.0.1}}}\n"
APP = """
from own_weights import W
from palestra.server import ResourcesServer

class Own(ResourcesServer):
    async def verify(self, body):
        return W
"""


def test_a_command_knows_the_code_that_a_running_fleet_has_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app, weights = tmp_path / "resources_servers/x/app.py", tmp_path / "own_weights.py"
    app.parent.mkdir(parents=True)
    app.write_text(APP)
    weights.write_text("W = 1.0\n")
    (tmp_path / "x.yaml").write_text(CONFIG)
    config = load_config(config_paths=["x.yaml"], overrides=["++head_server.port=0"])
    loaded = OwnCode.of(config.instance("x")).digests
    lines: list[str] = []

    async def codes_after(edit: str) -> FleetChoice:
        async with Fleet(config) as fleet, head_server(fleet) as run:
            weights.write_text(edit)
            beside = load_config(overrides=[f"++head_server.port={run.port}"])
            async with find(beside, CommandObserver(tell=lines.append)) as choice:
                return choice

    assert asyncio.run(codes_after("W = 1.0\n")).codes == {"x": loaded}
    assert lines == []
    assert asyncio.run(codes_after("W = 0.25\n")).codes == {"x": loaded}
    [warning] = lines
    assert f"x runs the code that it started with, and {weights} changed since" in warning


SLOW = "policy_model_name: slow\n"


def beside_a_fleet(lines: list[str], *overrides: str) -> None:
    """Choose the fleet of a command that is started beside one whose model is `slow`."""
    fleet_config = load_config(
        config_paths=["x.yaml"], overrides=["++head_server.port=0"], use_env_yaml=False
    )

    async def choose() -> None:
        async with Fleet(fleet_config) as fleet, head_server(fleet) as run:
            beside = load_config(overrides=[f"++head_server.port={run.port}", *overrides])
            async with find(beside, CommandObserver(tell=lines.append)):
                pass

    asyncio.run(choose())


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a config of a fleet with its model, and a server."""
    monkeypatch.chdir(tmp_path)
    app = tmp_path / "resources_servers/x/app.py"
    app.parent.mkdir(parents=True)
    app.write_text(APP)
    (tmp_path / "own_weights.py").write_text("W = 1.0\n")
    (tmp_path / "x.yaml").write_text(CONFIG + SLOW)
    return tmp_path


def test_an_override_of_the_model_of_a_running_fleet_is_refused(slow: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        beside_a_fleet([], "++policy_model_name=fast")

    assert caught.value.cause is KnownCause.OTHER_FLEET
    assert "policy_model_name: 'slow' -> 'fast'" in caught.value.message


def test_an_env_yaml_that_names_another_model_than_the_fleet_is_a_warning(slow: Path) -> None:
    (slow / "env.yaml").write_text("policy_model_name: fast\n")
    lines: list[str] = []

    beside_a_fleet(lines)

    [warning] = lines
    assert "policy_model_name: 'slow' -> 'fast'" in warning


def test_the_model_of_the_fleet_may_be_named_again(slow: Path) -> None:
    lines: list[str] = []

    beside_a_fleet(lines, "++policy_model_name=slow")

    assert lines == []

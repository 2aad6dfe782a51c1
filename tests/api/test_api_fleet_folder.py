"""Files of a running fleet, as the commands beside it name them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from palestra.api.collection import with_config_of
from palestra.api.fleet_connection import RunningFleet
from palestra.config import config_from_tree
from palestra.fleet import AttachedFleet, HeadAddress
from palestra.fleet.runfile import RunFile
from palestra.settings import CollectSettings, InputFile
from palestra.transport import HttpTransport

SHIPPED = "resources_servers/mcqa/configs/mcqa.yaml"


def fleet_in(folder: Path, tree: Mapping[str, Any]) -> RunningFleet:
    address = HeadAddress("127.0.0.1", 1, "")
    run = RunFile("127.0.0.1", 1, "nonce", 1, 0.0, str(folder))
    config = config_from_tree(dict(tree))
    attached = AttachedFleet(address, "", (), run)
    return RunningFleet(config, attached, cast("HttpTransport", None), config)


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

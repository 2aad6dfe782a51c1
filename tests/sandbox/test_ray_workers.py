import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from palestra.errors import ConfigError
from palestra.sandbox import open_workers
from palestra.sandbox.workers import cluster
from ray_programs import ray_folder, run_with_ray, started_with

PROGRAM = Path(__file__).parent / "ray_cluster.py"


@pytest.fixture
def folder() -> Iterator[str]:
    with ray_folder() as made:
        yield made


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_calls_spread_over_the_nodes_of_a_cluster_and_are_killed_there(folder: str) -> None:
    found = json.loads(run_with_ray(PROGRAM, folder=folder, timeout_s=170))

    assert len(set(found["nodes"])) == 2
    assert len(found["nodes"]) == 6
    assert found["killed"]
    assert found["hungry"]
    assert found["after"]
    assert found["all free"]
    assert started_with(folder) == []


def test_an_address_without_ray_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda _: None)

    with pytest.raises(ConfigError) as refused:
        open_workers(ray_address="node:6379")

    assert "palestra[ray]" in refused.value.hint

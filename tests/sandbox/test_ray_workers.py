import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from palestra.errors import ConfigError
from palestra.sandbox import open_workers
from palestra.sandbox.workers import cluster

HERE = Path(__file__).parent
PROGRAM = HERE / "ray_cluster.py"
MARK = "PALESTRA_TEST_RAY"


def started_with(folder: str) -> list[int]:
    """Processes that inherited the mark of one test."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{MARK}={folder}".encode() in environ.read_bytes().split(b"\0"):
                found.append(int(environ.parent.name))
    return found


@pytest.fixture
def ray_folder() -> Iterator[str]:
    """A short path, as Ray makes sockets in it; nothing that was started with it is left."""
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    yield folder
    for pid in started_with(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_calls_spread_over_the_nodes_of_a_cluster_and_are_killed_there(ray_folder: str) -> None:
    paths = os.pathsep.join([*sys.path, str(HERE)])
    environment = {**os.environ, MARK: ray_folder, "RAY_TMPDIR": ray_folder, "PYTHONPATH": paths}
    environment["RAY_USAGE_STATS_ENABLED"] = "0"
    with tempfile.TemporaryFile("w+") as said:
        done = subprocess.run(
            [sys.executable, str(PROGRAM)],
            stdout=subprocess.PIPE,
            stderr=said,
            env=environment,
            timeout=170,
            check=False,
            text=True,
            start_new_session=True,
        )
        said.seek(0)
        complaints = said.read()
    if "no cluster: " in complaints:
        pytest.skip(complaints.partition("no cluster: ")[2])

    assert done.returncode == 0, complaints
    found = json.loads(done.stdout)
    assert len(set(found["nodes"])) == 2
    assert len(found["nodes"]) == 6
    assert found["killed"]
    assert found["hungry"]
    assert found["after"]
    assert found["all free"]
    assert started_with(ray_folder) == []


def test_an_address_without_ray_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda _: None)

    with pytest.raises(ConfigError) as refused:
        open_workers(ray_address="node:6379")

    assert "palestra[ray]" in refused.value.hint

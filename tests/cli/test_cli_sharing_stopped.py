"""Downloads that are killed or interrupted: no half file, and the next one goes on."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_world import SCRIPTS, until

from faulty_http import Fault
from hub_fakes import WRITER, FakeHub, fake_hub

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

ROWS = b'{"responses_create_params": {"input": "?"}}\n' * 20_000
REPO = "acme/letters"
COMMAND = ("dataset", "download", "--repo", REPO, "--split", "train", "--output-dir", "out")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[FakeHub]:
    pytest.importorskip("huggingface_hub")
    with fake_hub() as hub:
        hub.put(REPO, {"train.jsonl": ROWS})
        yield hub


def start(folder: Path, hub: FakeHub) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [SCRIPTS / "palestra", *COMMAND],
        cwd=folder,
        env={**os.environ, "HF_ENDPOINT": hub.endpoint, "HF_TOKEN": WRITER},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def arrived(folder: Path) -> int:
    """Bytes of the part that is there."""
    return sum(part.stat().st_size for part in folder.glob("out/.*.part"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_download_that_is_stopped_goes_on(
    tmp_path: Path, hub: FakeHub, number: signal.Signals
) -> None:
    held = threading.Event()
    hub.faults = [Fault("GET .*/resolve/", cut_after=300_000, hold=held)]
    first = start(tmp_path, hub)
    until(lambda: arrived(tmp_path) == 300_000, timeout_s=60)
    first.send_signal(number)
    _, said = first.communicate(timeout=30)
    held.set()

    assert first.returncode == (-9 if number is signal.SIGKILL else 130)
    assert "Traceback" not in said
    assert not (tmp_path / "out" / "train.jsonl").exists()

    second = start(tmp_path, hub)
    _, said = second.communicate(timeout=60)

    assert second.returncode == 0, said
    assert "300.0 kB are there already" in said
    assert (tmp_path / "out" / "train.jsonl").read_bytes() == ROWS
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["train.jsonl"]

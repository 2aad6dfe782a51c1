"""A ward: an empty folder, an endpoint that answers, and a head port of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from doctor_world import FakeVLLM, Ward, free_port, serving


@pytest.fixture
def ward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Ward]:
    """Where runs are examined; nothing is wrong there yet."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PALESTRA_RUN_DIR", str(tmp_path))
    (folder / "env.yaml").write_text(f"head_server:\n  port: {free_port()}\n")
    with serving(FakeVLLM()) as endpoint:
        yield Ward(folder, endpoint, capsys)

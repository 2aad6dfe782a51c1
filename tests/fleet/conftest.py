"""A user's project to run fleets in."""

from pathlib import Path

import pytest
from fleet_world import MODEL_APP, Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The working directory, with an environment and a model; caches and run files in it."""
    made = Project(tmp_path)
    made.environment()
    made.write("responses_api_models/scripted/app.py", MODEL_APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALESTRA_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(tmp_path / "cache"))
    return made

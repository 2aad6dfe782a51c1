"""A small installation to load configurations from."""

from pathlib import Path

import pytest
from config_world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An installed package with three servers, and an empty working directory."""
    made = World(cwd=tmp_path / "work", package=tmp_path / "package")
    made.cwd.mkdir()
    for server in (
        "responses_api_models/openai_model",
        "responses_api_agents/simple_agent",
        "resources_servers/mcqa",
    ):
        made.write(f"{server}/app.py", "", package=True)
    return made

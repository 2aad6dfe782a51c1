"""The project in the style of the field, and running its tests and its rows."""

import os
import subprocess
import sys
from pathlib import Path

FIELD = Path(__file__).parent / "field"
CONFIGS = (
    "responses_api_agents/loop_agent/configs/field.yaml",
    "responses_api_models/script_model/configs/script_model.yaml",
)


def run_tests(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Pytest in `folder`, as a project there would call it, with our plugin."""
    plugin = ["-p", "palestra.compat.nemo_gym", "-p", "no:cacheprovider", "-c", os.devnull]
    return subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-q", *plugin, f"--rootdir={folder}", *more],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

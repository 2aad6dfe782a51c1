"""The folders for what can be made again, and for what lasts as long as a command."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def cache_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return `PALESTRA_CACHE_DIR`, else `palestra` in the user's cache folder."""
    if own_folder := env.get("PALESTRA_CACHE_DIR"):
        return Path(own_folder).expanduser()
    base = env.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "palestra"


def run_dir() -> Path:
    """Return the folder of the run files: PALESTRA_RUN_DIR, else a folder of this user."""
    if own_folder := os.environ.get("PALESTRA_RUN_DIR"):
        return Path(own_folder)
    if base := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(base) / "palestra"
    return Path(tempfile.gettempdir()) / f"palestra-{os.getuid()}"

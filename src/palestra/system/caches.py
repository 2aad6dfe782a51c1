"""The folder for what can be made again."""

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return `PALESTRA_CACHE_DIR`, else `palestra` in the user's cache folder."""
    if own_folder := env.get("PALESTRA_CACHE_DIR"):
        return Path(own_folder).expanduser()
    base = env.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "palestra"

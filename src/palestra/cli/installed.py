"""Print what is installed, and where, without importing it."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import palestra
from palestra.cli.console import say, say_json

DEPENDENCIES: Final = ("fastapi", "httptools", "pydantic", "xllamacpp", "reasoning-gym", "ray")


def print_version(*, as_json: bool = False) -> int:
    """Print the installed versions, and where they are installed."""
    facts = {
        "palestra": palestra.__version__,
        "python": platform.python_version(),
        "python_path": sys.executable,
        "installation_path": str(palestra.__path__[0]),
        "dependencies": {name: _version_of(name) for name in DEPENDENCIES},
        "system": {
            "os": platform.system(),
            "platform": platform.platform(),
            "architecture": platform.machine(),
            "cpus": os.cpu_count(),
        },
    }
    if as_json:
        say_json(facts)
    else:
        say(f"palestra {palestra.__version__} (Python {facts['python']}, {sys.executable})")
    return 0


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

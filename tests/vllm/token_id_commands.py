"""The commands of the page about token ids, and running them as its reader does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "topics" / "token-ids.md"


def documented(beginning: str) -> str:
    """The one command of the page about token ids that begins so, as its reader types it."""
    lines = DOCUMENT.read_text().splitlines()
    (found,) = [line[2:] for line in lines if line.startswith(f"$ {beginning}")]
    return found


def environment() -> dict[str, str]:
    """A reader's: our commands are on the path."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def announced(serving: "subprocess.Popen[str]") -> str:
    """The URL that `serve-model` says once it is ready."""
    for line in serving.stdout or ():
        if line.startswith("+policy_base_url="):
            return line.strip().partition("=")[2]
    pytest.fail(f"serve-model ended with exit code {serving.wait()}")

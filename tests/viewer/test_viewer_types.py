"""The page's types are those of the server's replies."""

import subprocess
import sys
from pathlib import Path

import pytest

from palestra.viewer.app import ANSWERS, BYTES
from palestra.viewer.endpoints import ENDPOINTS

SCRIPT = Path(__file__).parents[2] / "scripts" / "viewer_types.py"


@pytest.mark.slow
@pytest.mark.source
def test_the_types_of_the_page_are_current() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check"], check=False, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_every_endpoint_is_answered() -> None:
    streams = {endpoint.name for endpoint in ENDPOINTS if endpoint.streams}

    assert {endpoint.name for endpoint in ENDPOINTS} == {*ANSWERS, *BYTES} | streams

"""What several of a cluster's tests need to run."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from cluster_runs import ENDPOINT_KEY, SERVER_PROGRAM, free_port
from slurm_site import wait_until

from palestra.cluster.ports import answered


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of a model that runs already and asks for ENDPOINT_KEY."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, SERVER_PROGRAM, "--port", str(port)],
        env={**os.environ, "PALESTRA_SERVER_KEY": ENDPOINT_KEY},
    )
    try:
        wait_until(lambda: answered("127.0.0.1", port), seconds=60, every=0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(20)

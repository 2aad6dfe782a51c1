"""Programs that start a Ray of their own on this machine, run so that nothing of it is left."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

MARK = "PALESTRA_TEST_RAY"
NO_CLUSTER = "no cluster: "
"""With this and why, a program complains that Ray itself did not start."""


def started_with(folder: str) -> list[int]:
    """Processes that inherited the mark of one test."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{MARK}={folder}".encode() in environ.read_bytes().split(b"\0"):
                found.append(int(environ.parent.name))
    return found


@contextmanager
def ray_folder() -> Iterator[str]:
    """A short path, as Ray makes sockets in it; nothing that was started with it is left."""
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    try:
        yield folder
    finally:
        for pid in started_with(folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def run_with_ray(
    program: Path, *arguments: str, folder: str, timeout_s: float, cwd: Path | None = None
) -> str:
    """What `program` writes to standard output. Skips where Ray is not there, or does not start.

    It has a session of its own, a token that nobody else has, and its folder on its path.
    """
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    token = Path(folder) / "token"
    token.write_text(secrets.token_hex(24))
    environment = {
        **os.environ,
        MARK: folder,
        "RAY_TMPDIR": folder,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "PYTHONPATH": os.pathsep.join([*sys.path, str(program.parent)]),
    }
    # Files, as what Ray leaves running for a moment would hold pipes open.
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
        done = subprocess.run(
            [sys.executable, str(program), *arguments],
            stdout=said,
            stderr=complained,
            env=environment,
            cwd=cwd,
            timeout=timeout_s,
            check=False,
            start_new_session=True,
        )
        for file in (said, complained):
            file.seek(0)
        told, complaints = said.read(), complained.read()
    if NO_CLUSTER in complaints:
        pytest.skip(complaints.partition(NO_CLUSTER)[2])
    assert done.returncode == 0, complaints
    return told

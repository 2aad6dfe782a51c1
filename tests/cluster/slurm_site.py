"""A real Slurm of two nodes on this machine, for the tests of one module."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("local-slurm")
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


def why_not() -> str:
    """Why there can be no Slurm here; empty when there can."""
    path = f"{os.environ['PATH']}:{SBIN}"
    missing = [
        name
        for name in ("slurmctld", "slurmd", "sbatch", "munged")
        if not shutil.which(name, path=path)
    ]
    return (
        f"{', '.join(missing)} not installed: tests/cluster/local-slurm install" if missing else ""
    )


LINUXPROC, CGROUP = "linuxproc", "cgroup"
TRACKS = (LINUXPROC, CGROUP)
"""How Slurm knows a job's processes. By control groups, as in production, it tells of a signal only
those that it started itself; else every process."""


@contextlib.contextmanager
def slurm_site(nodes: int = 2, *, track: str = LINUXPROC, kill_wait_s: int = 3) -> Iterator[None]:
    """Slurm's commands in the body, and in what it starts, talk to a cluster of its own.

    `kill_wait_s`: from the signal that ends a job to its end by force.
    """
    if reason := why_not():
        pytest.skip(reason)
    if track == CGROUP and subprocess.run([SCRIPT, "cgroups"], check=False, timeout=20).returncode:
        pytest.skip("Slurm cannot track by cgroups here: not root, or no freezer hierarchy (v1)")
    # The sockets of its daemons need a short path.
    with (
        tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("LOCAL_SLURM_DIR", f"{folder}/site")
        patch.setenv("LOCAL_SLURM_PREFIX", f"p{os.getpid()}n")
        patch.setenv("LOCAL_SLURM_TRACK", track)
        patch.setenv("LOCAL_SLURM_KILLWAIT", str(kill_wait_s))
        patch.setenv("SLURM_CONF", f"{folder}/site/slurm.conf")
        local_slurm("up", str(nodes))
        try:
            yield
        finally:
            local_slurm("down")


def local_slurm(*words: str) -> str:
    """What our script says. Fails the test, with its words, when it does."""
    done = subprocess.run(
        [SCRIPT, *words], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_until(true: Callable[[], bool], *, seconds: float, every: float = 0.5) -> None:
    """Ask a process that cannot call back, until it says so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        threading.Event().wait(every)

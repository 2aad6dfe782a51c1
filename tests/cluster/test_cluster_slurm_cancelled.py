"""Jobs that Slurm ends: what they still do, and what they leave to be read."""

import contextlib
import dataclasses
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_runs import World, driver, python, service, world
from slurm_site import CGROUP, TRACKS, slurm_site, wait_until

from palestra.cluster.executors import executor_for
from palestra.cluster.following import Standing, UnitStatus, status_of
from palestra.cluster.plan import Policy
from palestra.cluster.ports import PortLocks
from palestra.cluster.units import read_run

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(200)]

SERVER = Path(__file__).with_name("answering_server.py")
IN_FLIGHT = 4
STUBBORN = python(
    """
import os, pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
out = pathlib.Path(os.environ["PALESTRA_JOB_DIR"]).parents[3]
rows = (out / "cluster" / "inputs" / "rollouts.jsonl").read_bytes()
(out / "rollouts_materialized_inputs.jsonl").write_bytes(rows)
(out / "rollouts.jsonl").write_bytes(rows.splitlines(keepends=True)[0])
time.sleep(600)
"""
)
"""A driver that scores one row, and does not end when it is asked to."""


SERVES = python(
    """
import os, pathlib, signal, sys, time
job = pathlib.Path(os.environ["PALESTRA_JOB_DIR"])
signal.signal(signal.SIGTERM, lambda *_: ((job / "service ended").touch(), sys.exit(0)))
time.sleep(600)
"""
)
LOOKS_AROUND = python(
    """
import os, pathlib, signal, sys, time
job = pathlib.Path(os.environ["PALESTRA_JOB_DIR"])
def end(*_):
    time.sleep(1.0)
    (job / "last look").write_text(str((job / "service ended").exists()))
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
(job / "running").touch()
time.sleep(600)
"""
)
"""A driver that looks, a second after it was told to end, whether the service is still there."""


@contextlib.contextmanager
def endpoint(asked: Path) -> Iterator[str]:
    """The address of a model that is none of the job's; `asked` gets a line for each request."""
    ports = PortLocks()
    port = ports.choose(None)
    where = ("--port", str(port), "--key", "of-the-tests", "--asked", str(asked))
    process = subprocess.Popen(
        [sys.executable, SERVER, *where, "--pause", "1.0"], stdout=subprocess.DEVNULL
    )
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()
        ports.close()


def submitted(made: World) -> str:
    """The id of the run's first job, as Slurm runs it."""
    script = made.folder / "shards.sh"
    script.write_text(f"#!/bin/bash\nexec {shlex.join(made.command()[:-2])}\n")
    words = ["sbatch", "--parsable", "--open-mode=append", f"--output={made.folder}/batch.log"]
    done = subprocess.run(
        [*words, str(script)],
        env={**os.environ, **made.environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def end_of(job_id: str) -> None:
    queue = ["squeue", "-h", "-o", "%i", "-j", job_id]
    wait_until(lambda: not subprocess.check_output(queue, timeout=60), seconds=90, every=0.2)


def status(made: World) -> UnitStatus:
    return status_of(made.files, read_run(made.files), executor_for("slurm")).units[0]


def processes_of(made: World) -> list[int]:
    """The supervisor and what it has started itself."""
    mark = str(made.submission.supervisor).encode()
    cmdlines = Path("/proc").glob("[0-9]*/cmdline")
    return [int(path.parent.name) for path in cmdlines if mark in _bytes(path)]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("track", TRACKS)
def test_a_cancelled_job_starts_no_further_rollouts(tmp_path: Path, track: str) -> None:
    asked = tmp_path / "asked"
    with slurm_site(1, track=track, kill_wait_s=30), endpoint(asked) as address:
        made = world(tmp_path, driver(), tasks=200, executor="slurm")
        made.environment["THE_KEY"] = "of-the-tests"
        policy = Policy("scripted", base_url=address, api_key_env="THE_KEY")
        collect = dataclasses.replace(made.run.collect, num_samples_in_parallel=IN_FLIGHT)
        job_id = submitted(made.write(policy=policy, collect=collect))
        wait_until(lambda: len(lines(asked)) >= 2 * IN_FLIGHT, seconds=60, every=0.1)

        subprocess.run(["scancel", job_id], check=True, timeout=60)
        before = len(lines(asked))
        end_of(job_id)

        assert len(lines(asked)) - before <= IN_FLIGHT
        result = made.result()
        assert (result["status"], result["code"]) == ("cancelled", 128 + signal.SIGTERM)
        assert result["counts"]["left"] >= 200 - len(lines(asked))
        driver_log = next(Path(made.run.log_dir).glob("*_driver_*")).read_text()
        # Its last words come after its environments are closed; a killed one has none.
        assert "stopped by SIGTERM; the rollouts that ended are in " in driver_log


def test_a_driver_that_is_ending_still_has_its_servers(tmp_path: Path) -> None:
    """By `cgroup` alone: else Slurm tells every process by itself."""
    with slurm_site(1, track=CGROUP, kill_wait_s=30):
        made = world(tmp_path, service(SERVES, probe=None), driver(LOOKS_AROUND), executor="slurm")
        job = made.submission.job("shards").folder
        job_id = submitted(made)
        wait_until((job / "running").exists, seconds=60)

        subprocess.run(["scancel", job_id], check=True, timeout=60)
        end_of(job_id)

        assert (job / "last look").read_text() == "False"


@pytest.mark.parametrize("track", TRACKS)
def test_a_site_that_kills_soon_leaves_word_of_what_happened(tmp_path: Path, track: str) -> None:
    with slurm_site(1, track=track, kill_wait_s=3):
        made = world(tmp_path, driver(STUBBORN), executor="slurm")
        job_id = submitted(made)
        wait_until((made.files.output_dir / "rollouts.jsonl").exists, seconds=60)

        subprocess.run(["scancel", job_id], check=True, timeout=60)
        end_of(job_id)

        shard = status(made)
    assert shard.standing is Standing.CANCELLED
    assert shard.reason.startswith("cancelled by Slurm (signal SIGTERM) at ")
    assert (shard.rollouts["scored"], shard.rollouts["left"]) == (1, 3)


def test_a_job_killed_by_force_is_told_from_one_that_failed(tmp_path: Path) -> None:
    with slurm_site(1):
        made = world(tmp_path, driver(STUBBORN), executor="slurm")
        job_id = submitted(made)
        wait_until((made.files.output_dir / "rollouts.jsonl").exists, seconds=60)

        for pid in processes_of(made):
            os.kill(pid, signal.SIGKILL)
        end_of(job_id)

        shard = status(made)
    assert shard.standing is Standing.FAILED
    assert shard.reason == "killed by signal SIGKILL (out of memory?), no result was written"

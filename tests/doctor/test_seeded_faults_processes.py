"""Seeded faults that need processes of their own: limits of a process, and jobs of a real Slurm."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from seeded_world import SeededUpstream, World, fine, new_world, serving, task

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PALESTRA = Path(sys.executable).parent / "palestra"
LOCAL_SLURM = Path(__file__).resolve().parents[3] / "shared" / "slurm" / "local-slurm"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    upstream = SeededUpstream(fine)
    with serving(upstream) as url:
        yield new_world(tmp_path / "world", upstream, url)


def run(*command: Any, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, "PALESTRA_RUN_DIR": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def first_finding(told: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told)["findings"][0]
    return found


def test_too_few_descriptors_are_named_and_fewer_rollouts_at_once_help(world: World) -> None:
    world.write("tasks.jsonl", [task(number=n) for n in range(400)])
    flags = ["--agent", "seeded_agent", "--input", "tasks.jsonl", "--output", "out/run.jsonl"]
    limited = ["prlimit", "--nofile=400:400", "--", PALESTRA, "collect", *flags]

    broken = run(*limited, "--concurrency", 400, *world.arguments(), folder=world.folder)
    world.log.write_text(broken.stderr)
    told = run(PALESTRA, "diagnose", "run.log", "--json", folder=world.folder)
    mended = run(*limited, "--concurrency", 50, *world.arguments(), folder=world.folder)

    found = first_finding(told.stdout)
    assert (told.returncode, found["cause"]) == (1, "infra.too-few-descriptors")
    assert "400 rollouts in flight need" in found["evidence"][0]["text"]
    assert "--concurrency" in found["next_action"]
    assert mended.returncode == 0, mended.stderr


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a real Slurm of one node."""
    if not LOCAL_SLURM.exists() or not shutil.which("slurmctld"):
        pytest.skip("there is no Slurm to start here")
    folder = tmp_path_factory.mktemp("slurm")
    settings = {"LOCAL_SLURM_DIR": str(folder / "cluster"), "LOCAL_SLURM_PREFIX": "seeded"}
    up = run(LOCAL_SLURM, "up", 1, folder=folder, **settings)
    if up.returncode:
        pytest.skip(f"Slurm does not start here: {up.stderr[-300:]}")
    try:
        said = run(LOCAL_SLURM, "env", folder=folder, **settings).stdout
        yield dict(
            part.split("=", 1)
            for line in said.splitlines()
            for part in [line.removeprefix("export ").strip("; '\"")]
            if "=" in part
        )
    finally:
        run(LOCAL_SLURM, "down", folder=folder, **settings)


def submitted(script: str, folder: Path, slurm: dict[str, str], *flags: str) -> str:
    """The number of a job that has ended, or that waits for ever."""
    path = folder / "job.sh"
    path.write_text(f"#!/bin/bash\n{script}\n")
    sent = run("sbatch", "--parsable", *flags, path, folder=folder, **slurm)
    job = sent.stdout.strip().split(";")[0]
    assert job.isdecimal(), sent.stderr
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        shown = run("scontrol", "show", "job", job, folder=folder, **slurm).stdout
        if any(f"JobState={state}" in shown for state in ("FAILED", "COMPLETED", "CANCELLED")):
            return job
        if "DependencyNeverSatisfied" in shown:
            return job
        time.sleep(0.3)  # Slurm tells nobody when a job ends
    raise AssertionError(shown)


def test_a_failed_job_is_named_by_its_number(tmp_path: Path, slurm: dict[str, str]) -> None:
    job = submitted("echo nothing special; exit 3", tmp_path, slurm)

    told = run(PALESTRA, "diagnose", job, "--json", folder=tmp_path, **slurm)

    found = first_finding(told.stdout)
    assert found["cause"] == "infra.slurm-job-failed"
    assert "ExitCode=3:0" in found["evidence"][0]["text"]
    assert f"slurm-{job}.out" in told.stdout


def test_what_a_failed_job_printed_is_nearer_to_the_cause(
    tmp_path: Path, slurm: dict[str, str]
) -> None:
    job = submitted("echo 'OSError: No space left on device' >&2; exit 1", tmp_path, slurm)

    told = run(PALESTRA, "diagnose", job, "--json", folder=tmp_path, **slurm)

    assert first_finding(told.stdout)["cause"] == "infra.disk-full"


def test_a_job_that_waits_for_a_failed_one_is_named(tmp_path: Path, slurm: dict[str, str]) -> None:
    failed = submitted("exit 1", tmp_path, slurm)
    job = submitted("true", tmp_path, slurm, f"--dependency=afterok:{failed}")

    told = run(PALESTRA, "diagnose", job, "--json", folder=tmp_path, **slurm)
    run("scancel", job, folder=tmp_path, **slurm)

    found = first_finding(told.stdout)
    assert found["cause"] == "infra.slurm-dependency"
    assert f"scancel {job}" in found["next_action"]


def test_a_job_that_nobody_knows_is_refused(tmp_path: Path, slurm: dict[str, str]) -> None:
    told = run(PALESTRA, "diagnose", "999999", folder=tmp_path, **slurm)

    assert told.returncode == 2
    assert "knows no job 999999" in told.stderr

"""Jobs killed at random moments and submitted again: the merged run is as if nothing had happened.

PALESTRA_TEST_KILLS says how often; three times in CI.
"""

import dataclasses
import json
import os
import random
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster_runs import World, driver, model_server, world
from slurm_site import TRACKS, local_slurm, slurm_site

from palestra.cluster.shard import is_done

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("PALESTRA_TEST_KILLS", "3"))
COMPARED = ("rollouts.jsonl", "rollouts_materialized_inputs.jsonl")


@pytest.fixture(scope="module", autouse=True, params=TRACKS)
def slurm(request: pytest.FixtureRequest) -> Iterator[None]:
    with slurm_site(2, track=request.param):
        yield


def asked(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    return done.stdout.strip()


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


class Site:
    """The jobs of one run: each shard's current one."""

    def __init__(self, made: World) -> None:
        self.made = made
        self.jobs: dict[int, str] = {}

    def open_shards(self) -> list[int]:
        return [
            number
            for number, shard in enumerate(self.made.run.shards)
            if not is_done(self.made.files.shard(shard.name))
        ]

    def state(self, number: int) -> str:
        told = subprocess.run(
            ["squeue", "-h", "-o", "%T", "-j", self.jobs.get(number, "0")],
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        return told.stdout.strip()

    def keep_going(self) -> None:
        """Submit again what has ended without being done; let what was requeued start at once."""
        for number in self.open_shards():
            state = self.state(number)
            if not state:
                self.jobs[number] = self._submitted(number)
            elif state == "PENDING":
                subprocess.run(
                    ["scontrol", "update", f"JobId={self.jobs[number]}", "StartTime=now"],
                    capture_output=True,
                    check=False,
                    timeout=100,
                )

    def _submitted(self, number: int) -> str:
        script = self.made.folder / f"shard-{number}.sh"
        script.write_text(f"#!/bin/bash\nexec {shlex.join(self.made.command(task=number))}\n")
        flags = ["--requeue", "--signal=B:USR1@30", "--time=10", "--open-mode=append"]
        log = f"--output={self.made.folder}/batch-{number}.log"
        return asked("sbatch", "--parsable", *flags, log, str(script))

    def node(self, number: int) -> str:
        return asked("squeue", "-h", "-o", "%N", "-j", self.jobs[number])


def scancel(site: Site, number: int) -> None:
    asked("scancel", site.jobs[number])


def time_limit(site: Site, number: int) -> None:
    """What Slurm sends before the limit."""
    asked("scancel", "--batch", "--signal=USR1", site.jobs[number])


def requeue(site: Site, number: int) -> None:
    asked("scontrol", "requeue", site.jobs[number])


def lost_node(site: Site, number: int) -> None:
    """The end of its slurmd by kill -9, and of everything on the node."""
    node = site.node(number)
    local_slurm("node-kill", node)
    local_slurm("node-start", node)


WAYS: tuple[Callable[[Site, int], None], ...] = (scancel, time_limit, requeue, lost_node)


@pytest.mark.timeout(200 + 90 * KILLS)
def test_killed_anywhere_and_submitted_again_it_ends_byte_for_byte_the_same(
    tmp_path: Path,
) -> None:
    tasks = 80 * KILLS
    undisturbed = world(tmp_path / "undisturbed", tasks=tasks, chunks=2)
    for number in range(2):
        assert undisturbed.supervise(task=number)[0] == 0
    slow = model_server("--pause", "0.3")
    made = world(tmp_path / "killed", slow, driver(), tasks=tasks, chunks=2, executor="slurm")
    made.write(collect=dataclasses.replace(made.run.collect, num_samples_in_parallel=2))
    site, chance = Site(made), random.Random(7)
    killed: list[str] = []
    while len(killed) < KILLS:
        site.keep_going()
        running = [number for number in site.open_shards() if site.state(number) == "RUNNING"]
        assert site.open_shards(), f"done after {killed}"
        if not running:
            pause(0.5)
            continue
        pause(chance.uniform(0.5, 9.0))
        victim, way = chance.choice(running), WAYS[len(killed) % len(WAYS)]
        if site.state(victim) != "RUNNING":
            continue
        try:
            way(site, victim)
        except subprocess.CalledProcessError:
            assert site.state(victim) != "RUNNING"  # it has ended since it was asked
        else:
            killed.append(way.__name__)
    deadline = time.monotonic() + 60 + 30 * KILLS
    while site.open_shards():
        assert time.monotonic() < deadline, [site.state(n) for n in (0, 1)]
        site.keep_going()
        pause(1.0)
    for one in (undisturbed, made):
        merged(one)
    for name in COMPARED:
        before, after = (one.files.output_dir / name for one in (undisturbed, made))
        assert before.read_bytes() == after.read_bytes(), f"{name} after {killed}"
    left = [path for path in Path("/proc").glob("[0-9]*") if _is_of(path, tmp_path)]
    assert not left, [(path / "cmdline").read_bytes() for path in left]
    keys = [json.loads(line)["_ng_task_index"] for line in _lines(made)]
    assert keys == sorted(set(keys))
    assert len(keys) == tasks


def _is_of(process: Path, folder: Path) -> bool:
    try:
        return f"PALESTRA_JOB_DIR={folder}".encode() in (process / "environ").read_bytes()
    except OSError:
        return False


def merged(made: World) -> None:
    subprocess.run(
        [*_palestra("merge-shards"), str(made.submission.plan)],
        capture_output=True,
        check=True,
        timeout=100,
    )


def _palestra(command: str) -> list[str]:
    return [sys.executable, "-m", "palestra", "cluster", command]


def _lines(made: World) -> list[str]:
    return (made.files.output_dir / "rollouts.jsonl").read_text().splitlines()

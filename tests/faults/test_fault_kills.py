"""`kill -9` at random moments of a run: what resumes it ends as if nothing had happened."""

import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_upstream import FakeUpstream, serving, steady
from faults_world import World, ended_at_last, long_run, tasks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MOMENTS = long_run("FAULTS_KILLS", 60)
AT_ONCE = 2
"""Runs that are killed beside each other."""
MOST_KILLS = 8
"""Kills of one run before it may end."""
ROLLOUTS, IN_FLIGHT, DELAY_S = 60, 6, 0.1


@dataclass(frozen=True)
class Undisturbed:
    """The same run, never killed."""

    world: World
    took_s: float
    files: dict[str, bytes]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    """A run of a second or so against an endpoint that answers after a while."""
    world = World.make(tmp_path_factory.mktemp("undisturbed") / "project", steadily=True)
    world.write_rows("tasks.jsonl", tasks(ROLLOUTS))
    with serving(FakeUpstream(steady(DELAY_S))) as world.base_url:
        done = world.run(*command(world))
        assert done.code == 0, done.said
        yield Undisturbed(world, done.took_s, in_order(world))


def command(world: World) -> list[str]:
    return world.steady("--resume", "--concurrency", str(IN_FLIGHT), "--progress", "none")


def in_order(world: World) -> dict[str, bytes]:
    """The files of the run, the rows of its output sorted, its manifest without times."""
    files = world.outputs()
    rows = files["run.jsonl"].splitlines(keepends=True)
    manifest = json.loads(files["run_manifest.json"])
    for name in ("started_at", "ended_at"):
        assert manifest.pop(name) > 0
    written = json.dumps(manifest, indent=2).encode()
    return {**files, "run.jsonl": b"".join(sorted(rows)), "run_manifest.json": written}


def test_a_run_killed_at_any_moments_ends_like_one_that_was_not(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    kills = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        trial = 0
        while kills < MOMENTS:
            batch = range(trial, trial + AT_ONCE)
            kills += sum(pool.map(lambda n: killed_and_resumed(undisturbed, tmp_path, n), batch))
            trial += AT_ONCE


def killed_and_resumed(undisturbed: Undisturbed, folder: Path, trial: int) -> int:
    """Kill one run again and again, let it end, compare; how often it was killed."""
    dice = random.Random(f"kill {trial}")
    world = World.make(folder / f"trial{trial}", base_url=undisturbed.world.base_url, steadily=True)
    world.write_rows("tasks.jsonl", tasks(ROLLOUTS))
    kills = 0
    while kills < MOST_KILLS and kill_once(world, dice.uniform(0, undisturbed.took_s * 1.05)):
        kills += 1
    done = world.run(*command(world))
    assert done.code == 0, done.said
    assert f"requested {ROLLOUTS} = scored {ROLLOUTS} + failed 0" in done.out
    found, wanted = in_order(world), undisturbed.files
    assert sorted(found) == sorted(wanted)
    for name, data in wanted.items():
        assert found[name].splitlines() == data.splitlines(), name
    return kills


def kill_once(world: World, after_s: float) -> bool:
    """Start or continue the run and kill it after a while; whether it had not ended before."""
    with ended_at_last(world.start(*command(world))) as running:
        time.sleep(after_s)  # the moment is the point
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()
            return True
        assert running.process.returncode == 0, running.text()
        return False

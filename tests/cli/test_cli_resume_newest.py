"""`eval … --resume` without `--output`, and one-file environments with requirements."""

import json
import threading
from pathlib import Path

import pytest
from cli_world import FakeEndpoint, World, until

ENV = """
import os

from palestra import environment

FIRST = int(os.environ.get("FIRST", "0"))
DATA = [{"n": FIRST + n} for n in range(4)]


@environment(data=DATA, prompt="{n}", name="my_env")
def verify(answer):
    return 1.0
"""


def evaluated(fake: FakeEndpoint, *more: str) -> list[str]:
    return ["eval", "my_env.py", "--model", "openai:tiny", *fake.policy, *more]


def killed_run(world: World, fake: FakeEndpoint, *, after: int = 2) -> str:
    """The folder of a run that was killed when some of its rollouts had ended."""
    stuck = threading.Event()
    begun = fake.asked
    fake.before_answer = lambda asked: asked <= begun + after or stuck.wait(60)
    running = world.start("palestra", *evaluated(fake, "--concurrency", "1"))
    until(lambda: fake.asked > begun + after)
    running.process.kill()
    running.process.wait()
    stuck.set()
    [folder] = [path for path in (world.folder / "runs").iterdir() if path.is_dir()]
    return folder.name


@pytest.mark.slow
def test_resume_goes_on_with_the_newest_unfinished_run_and_says_which(
    world: World, fake: FakeEndpoint
) -> None:
    world.write("my_env.py", ENV)
    name = killed_run(world, fake)

    done = world.run("palestra", *evaluated(fake, "--resume"))

    assert done.code == 0, done.err
    assert f"continuing runs/{name}/rollouts.jsonl (2 of 4 left)" in done.err
    assert [path.name for path in (world.folder / "runs").iterdir()] == [name]
    assert len(world.rows(f"runs/{name}/rollouts.jsonl")) == 4


@pytest.mark.slow
def test_resume_with_other_settings_is_refused_with_the_candidates(
    world: World, fake: FakeEndpoint
) -> None:
    world.write("my_env.py", ENV)
    name = killed_run(world, fake)

    refused = world.run("palestra", *evaluated(fake, "--resume", "--temperature", "0.5")).refused()

    assert f"runs/{name}/rollouts.jsonl (2 of 4 left; " in refused
    assert "temperature: absent -> 0.5" in refused
    assert [path.name for path in (world.folder / "runs").iterdir()] == [name]


@pytest.mark.slow
def test_resume_with_other_rows_is_refused_and_leaves_those_of_the_run(
    world: World, fake: FakeEndpoint
) -> None:
    world.write("my_env.py", ENV)
    name = killed_run(world, fake)
    tasks = world.folder / "runs" / name / "rollouts_tasks.jsonl"
    before = tasks.read_bytes()
    world.environment["FIRST"] = "100"

    refused = world.run("palestra", *evaluated(fake, "--resume")).refused()

    assert "(2 of 4 left; the input rows differ)" in refused
    assert tasks.read_bytes() == before


@pytest.mark.slow
def test_a_named_output_keeps_its_rows_when_it_cannot_go_on_with_others(
    world: World, fake: FakeEndpoint
) -> None:
    world.write("my_env.py", ENV)
    output = f"runs/{killed_run(world, fake)}/rollouts.jsonl"
    tasks = world.folder / "runs" / Path(output).parent.name / "rollouts_tasks.jsonl"
    before = tasks.read_bytes()
    world.environment["FIRST"] = "100"

    world.run("palestra", *evaluated(fake, "--resume", "--output", output)).refused()

    assert tasks.read_bytes() == before


@pytest.mark.slow
def test_resume_without_an_unfinished_run_starts_none(world: World, fake: FakeEndpoint) -> None:
    world.write("my_env.py", ENV)

    refused = world.run("palestra", *evaluated(fake, "--resume")).refused()

    assert "there is no unfinished run of my_env in runs/" in refused
    assert fake.asked == 0
    assert not (world.folder / "runs").exists()


@pytest.mark.slow
def test_a_run_that_ended_before_it_was_counted_is_unfinished(
    world: World, fake: FakeEndpoint
) -> None:
    world.write("my_env.py", ENV)
    assert world.run("palestra", *evaluated(fake)).code == 0
    [manifest] = (world.folder / "runs").glob("*/rollouts_manifest.json")
    # As a guard leaves it that ends a run for its last rollout.
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "ended": {}}))

    done = world.run("palestra", *evaluated(fake, "--resume"))

    assert done.code == 0, done.err
    assert "(all rollouts ended, not yet counted)" in done.err
    assert "requested 4 = scored 4" in done.out


@pytest.mark.slow
def test_runs_of_one_moment_have_folders_of_their_own(world: World, fake: FakeEndpoint) -> None:
    world.write("my_env.py", ENV)
    hold = threading.Event()
    fake.before_answer = lambda _asked: hold.wait(60)
    runs = [world.start("palestra", *evaluated(fake)) for _ in range(3)]
    until(lambda: fake.asked >= len(runs))
    hold.set()

    assert [run.process.wait(60) for run in runs] == [0, 0, 0]
    assert len(list((world.folder / "runs").iterdir())) == len(runs)

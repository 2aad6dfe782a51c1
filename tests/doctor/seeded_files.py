"""Faults of a run's files."""

import fcntl

from seeded_faults import Steps, many_tasks, seeded
from seeded_world import Done, World, task


def half_done(world: World, rows: int = 4) -> None:
    """A run of which a kill has left the first half of its results."""
    world.write("tasks.jsonl", [task(number=n) for n in range(rows)])
    assert world.collect().code == 0
    lines = world.output.read_bytes().splitlines(keepends=True)
    world.output.write_bytes(b"".join(lines[: rows // 2]))


@seeded("cache.stale-inputs", "the input rows differ")
def an_input_that_was_changed_before_the_resume(world: World) -> Steps:
    half_done(world)
    world.edit("tasks.jsonl", '"number": 1', '"number": 100')
    yield world.collect(resume_from_cache=True)
    yield world.collect(resume_from_cache=True, on_stale="restart")


@seeded("cache.stale-inputs", "100", "out/run")
def an_input_that_was_changed_since(world: World) -> Steps:
    half_done(world)
    world.edit("tasks.jsonl", '"number": 1', '"number": 100')
    yield Done(1, "")
    yield world.collect(resume_from_cache=True, on_stale="restart")


@seeded("cache.settings-changed", "'tiny' -> 'judge'")
def a_model_that_was_changed_before_the_resume(world: World) -> Steps:
    half_done(world)
    yield world.collect("++policy_model_name=judge", resume_from_cache=True)
    yield world.collect(resume_from_cache=True)


@seeded("cache.inputs-edited", "another question", "out/run")
def materialized_inputs_of_another_run(world: World) -> Steps:
    assert world.collect().code == 0
    world.edit("out/run_materialized_inputs.jsonl", "what is it?", "another question?")
    yield Done(1, "")
    yield world.collect(overwrite=True)


@seeded("cache.torn-journal", '{"', "out/run")
def a_journal_with_a_torn_last_line(world: World) -> Steps:
    many_tasks(world, 3)
    assert world.collect().code == 0
    world.output.write_bytes(world.output.read_bytes()[:-200])
    yield Done(1, "")
    yield world.collect(resume_from_cache=True)


@seeded("cache.broken-journal", "no row at all")
def a_journal_that_was_edited(world: World) -> Steps:
    half_done(world)
    held = world.output.read_text()
    world.output.write_text("no row at all\n" + held)
    yield world.collect(resume_from_cache=True)
    world.output.write_text(held)
    yield world.collect(resume_from_cache=True)


@seeded("cache.duplicates", "again", "out/run")
def results_that_are_there_twice(world: World) -> Steps:
    assert world.collect().code == 0
    world.output.write_bytes(world.output.read_bytes() * 2)
    yield Done(1, "")
    yield world.collect(overwrite=True)


@seeded("cache.broken-manifest", "run_manifest.json")
def a_manifest_that_is_gone(world: World) -> Steps:
    half_done(world)
    (world.output.parent / "run_manifest.json").unlink()
    yield world.collect(resume_from_cache=True)
    yield world.collect(overwrite=True)


@seeded("cache.output-exists", "exists already")
def an_output_that_exists(world: World) -> Steps:
    assert world.collect().code == 0
    yield world.collect()
    yield world.collect(overwrite=True)


@seeded("cache.in-use", "another collection")
def an_output_that_another_writes(world: World) -> Steps:
    half_done(world)
    with world.output.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        yield world.collect(resume_from_cache=True)
    yield world.collect(resume_from_cache=True)


@seeded("cache.unfinished", '"requested": 4', "out/run")
def a_run_that_was_killed(world: World) -> Steps:
    half_done(world)
    yield Done(137, "")
    yield world.collect(resume_from_cache=True)

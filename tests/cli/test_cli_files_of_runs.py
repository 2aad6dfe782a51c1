"""A file of a run stands for the run, in every command that takes one; a file of no run is refused with
what it is.
"""

import pytest
from cli_world import World

from listed_runs import write_run
from profiled_runs import scored

COMMANDS = (
    ("show",),
    ("select", "--band", "0..1"),
    ("profile", "--allow-partial", "--rollouts"),
    ("scores",),
    ("view", "--text"),
    ("diagnose",),
)


def made(world: World) -> None:
    """A run with a report and the tasks that it was made of."""
    write_run(world.folder / "run", [scored(0, 0, 1.0), scored(1, 0, 0.0)], requested=2)
    for name in ("report.html", "tasks.jsonl", "agent_metrics.json"):
        world.write(f"run/rollouts_{name}", "")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "name", ["manifest.json", "report.html", "tasks.jsonl", "materialized_inputs.jsonl"]
)
def test_a_file_of_a_run_stands_for_the_run(
    world: World, command: tuple[str, ...], name: str
) -> None:
    made(world)

    done = world.run("palestra", *command, f"run/rollouts_{name}")

    assert done.code == 0, done.err
    assert "error" not in done.err


@pytest.mark.parametrize("command", [*COMMANDS[:4], ("compare", "run")])
def test_a_selection_is_no_run(world: World, command: tuple[str, ...]) -> None:
    made(world)
    selected = world.run("palestra", "select", "run", "--band", "0..1", "--out", "again.jsonl")
    assert selected.code == 0, selected.err

    message = world.run("palestra", *command, "again.jsonl").refused()

    assert "again.jsonl has tasks, and no rollouts" in message
    assert "materialized" not in message

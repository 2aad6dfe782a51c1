"""A file that a command writes and that is one of its own, or of a run's: refused, and nothing is
written.
"""

import pytest
from cli_world import World

from listed_runs import write_run
from profiled_runs import failed, scored

FILE = """from palestra import environment


@environment(data=[{"q": "1 + 1 = ?", "a": "2"}], prompt="{q}")
def verify(answer, a):
    return answer == a
"""
MODEL = ("--model", "vllm:m@http://127.0.0.1:9/v1")
OUTPUT = ("--output", "r.jsonl")


def refused(world: World, *arguments: str) -> str:
    """What `palestra` says, having changed no file."""
    before = {name: _content(world, name) for name in world.files()}
    message = world.run("palestra", *arguments).refused()
    assert {name: _content(world, name) for name in world.files()} == before
    return message


def _content(world: World, name: str) -> bytes:
    path = world.folder / name
    return path.read_bytes() if path.is_file() else b""


@pytest.mark.parametrize("command", ["eval", "collect"])
@pytest.mark.parametrize("target", ["r.jsonl", "./r_failures.jsonl", "r_report.html"])
def test_events_are_not_written_into_a_file_of_the_run(
    world: World, command: str, target: str
) -> None:
    world.write("sums.py", FILE)

    message = refused(world, command, "sums.py", *MODEL, *OUTPUT, "--json-events", target)

    assert (
        f"--json-events: {target!r} is a file of the run itself, whose --output is r.jsonl"
        in message
    )


def test_events_are_not_added_to_a_file_of_anything_else(world: World) -> None:
    world.write("sums.py", FILE)

    message = refused(world, "eval", "sums.py", *MODEL, *OUTPUT, "--json-events", "sums.py")

    assert "--json-events: 'sums.py' exists, and it is no file of events" in message


def test_a_run_does_not_replace_the_rows_that_eval_was_given(world: World) -> None:
    world.write("sums.py", FILE)
    world.write("rows.jsonl", '{"q": "1 + 2 = ?", "a": "3"}\n')

    message = refused(
        world, "eval", "sums.py", *MODEL, "-i", "rows.jsonl", "-o", "rows.jsonl", "--overwrite"
    )

    assert f"the run would write {world.folder}/rows.jsonl, which is its input" in message


@pytest.mark.parametrize(
    "arguments",
    [
        ("select", "run", "--band", "0..1", "--overwrite", "--out", "run/rollouts_failures.jsonl"),
        ("view", "run", "--export", "run/rollouts.jsonl"),
        ("view", "run", "--export", "run/rollouts_report.html"),
    ],
)
def test_what_is_made_of_a_run_is_not_written_into_its_files(
    world: World, arguments: tuple[str, ...]
) -> None:
    write_run(world.folder / "run", [scored(0, 0, 1.0)], requested=1)

    assert f"{arguments[-1]} is a file of the run" in refused(world, *arguments)


@pytest.mark.parametrize(
    ("rollouts", "output", "why"),
    [
        ("rollouts.jsonl", "rollouts_reward_profiling.jsonl", "which is a file of the run"),
        ("rollouts_failures.jsonl", "rollouts.jsonl", "which is its input"),
    ],
)
def test_reverified_rows_are_not_written_into_a_file_of_the_run(
    world: World, rollouts: str, output: str, why: str
) -> None:
    failures = [failed(1, 0, "verifier_error")]
    write_run(world.folder / "run", [scored(0, 0, 1.0)], requested=2, failures=failures)

    message = refused(
        world, "reverify", "-r", f"run/{rollouts}", "-o", f"run/{output}", "--overwrite"
    )

    assert why in message


def test_an_export_does_not_replace_a_file_that_is_no_page(world: World) -> None:
    write_run(world.folder / "run", [scored(0, 0, 1.0)], requested=1)
    world.write("notes.txt", "mine")

    assert "notes.txt exists" in refused(world, "view", "run", "--export", "notes.txt")


@pytest.mark.parametrize(
    "command", [("dataset", "import", "rows.jsonl"), ("render-prompts", "-i", "rows.jsonl")]
)
def test_rows_are_not_written_into_the_template_of_their_prompt(
    world: World, command: tuple[str, ...]
) -> None:
    world.write("rows.jsonl", '{"q": "1 + 2 = ?"}\n')
    world.write("prompt.jsonl", 'user: "{q}"\n')

    message = refused(world, *command, "--prompt", "prompt.jsonl", "--output", "prompt.jsonl")

    assert "prompt.jsonl would replace its own source" in message

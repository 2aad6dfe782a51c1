"""A row in which a key is twice: refused with its line and its key, whoever reads it."""

import pytest
from cli_world import World

from listed_runs import write_run
from profiled_runs import scored

FILE = """from palestra import environment


@environment(data="{data}", prompt="{{q}}")
def verify(answer, a):
    return answer == a
"""
MODEL = ("--model", "vllm:m@http://127.0.0.1:9/v1")
ROW = '{"responses_create_params": {"input": "x"}, "q": "1", "a": "1"}\n'
TWICE = ROW.replace('"a": "1"', '"a": "1", "a": "2"')


@pytest.mark.parametrize(
    "command",
    [
        ("eval", "good.py", *MODEL, "--input", "twice.jsonl"),
        ("eval", "bad.py", *MODEL),
        ("collect", "good.py", *MODEL, "--input", "twice.jsonl", "--output", "r.jsonl"),
        ("verify-env", "bad.py"),
        ("dataset", "import", "twice.jsonl", "--prompt", "prompt.yaml"),
        (
            "render-prompts",
            "--input",
            "twice.jsonl",
            "--prompt",
            "prompt.yaml",
            "--output",
            "r.jsonl",
        ),
        ("reverify", "-r", "run", "--inputs", "twice.jsonl", "-e", "good.py", "-o", "r.jsonl"),
    ],
)
def test_a_key_that_is_twice_in_a_row_is_refused_with_its_line(
    world: World, command: tuple[str, ...]
) -> None:
    world.write("good.py", FILE.format(data="rows.jsonl"))
    world.write("bad.py", FILE.format(data="twice.jsonl"))
    world.write("rows.jsonl", ROW)
    world.write("twice.jsonl", ROW + TWICE)
    world.write("prompt.yaml", 'user: "{q}"\n')
    write_run(world.folder / "run", [scored(0, 0, 1.0)], requested=1)
    before = world.files()

    message = world.run("palestra", *command).refused()

    assert "line 2: the key /a is there twice" in message
    assert world.files() == before


def test_a_key_that_is_twice_in_an_array_is_refused_with_its_place(world: World) -> None:
    world.write("good.py", FILE.format(data="rows.jsonl"))
    world.write("rows.jsonl", ROW)
    world.write("twice.json", f"[{ROW}, {TWICE}]")

    message = world.run("palestra", "eval", "good.py", *MODEL, "--input", "twice.json").refused()

    assert "twice.json: the key /1/a is there twice" in message

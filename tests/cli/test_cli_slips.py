"""Slips at the command line: each is answered with what to type."""

import pytest
from cli_world import World

from listed_runs import write_run
from profiled_runs import scored

FILE = """from palestra import environment


@environment(data=[{"q": "1 + 1 = ?", "a": "2"}], prompt="{q}")
def verify(answer, a):
    return answer == a
"""
MODEL = ("--model", "vllm:m@http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (
            ("eval", "sums.py", *MODEL, "--input", "http://example.com/x.jsonl"),
            "http://example.com/x.jsonl is a URL, and rows are read from files",
        ),
        (
            ("eval", "sums.py", *MODEL, "--output", "out/"),
            "--output: is a folder, and should be a file that ends with .jsonl",
        ),
        (
            ("verify-env", "sums.py", "more.py"),
            "`palestra verify-env` examines one environment: sums.py, and not more.py, too",
        ),
        (
            ("eval", "sums.py::verify", *MODEL),
            "there is no environment 'sums.py::verify'; did you mean 'sums.py:verify'?",
        ),
        (
            ("eval", "sums.py", "-m", "vllm:m"),
            "there is no option -m: write --model MODEL",
        ),
        (("report", "run"), "no such command 'report': write palestra profile RUN"),
        (("serve",), "no such command 'serve': write palestra run"),
        (("import",), "no such command 'import': write palestra dataset import"),
        (("dataset", "prepare"), "no such command 'prepare': write palestra prepare"),
        (("runs", "run/rollouts.jsonl"), "`palestra show run/rollouts.jsonl` shows the run"),
        (
            ("eval", "sums.py", *MODEL, "--input", "head.csv"),
            "the first line names the columns only",
        ),
    ],
)
def test_a_slip_is_answered_with_what_to_type(
    world: World, command: tuple[str, ...], answer: str
) -> None:
    world.write("sums.py", FILE)
    world.write("more.py", FILE)
    world.write("head.csv", "q,a\n")
    (world.folder / "out").mkdir()
    write_run(world.folder / "run", [scored(0, 0, 1.0)], requested=1)

    message = world.run("palestra", *command).refused()

    assert answer in message
    assert "environments: arc_agi" not in message


@pytest.mark.parametrize(
    ("name", "text", "row"),
    [
        ("e.csv", "q\n", "the first line names the columns only"),
        ("e.json", "[]", '[{"FIELD": …}, …]'),
        ("e.jsonl", "", '{"FIELD": …} a line'),
    ],
)
def test_a_file_without_rows_is_answered_with_how_a_row_is_written(
    world: World, name: str, text: str, row: str
) -> None:
    world.write("sums.py", FILE)
    world.write(name, text)

    assert row in world.run("palestra", "eval", "sums.py", *MODEL, "--input", name).refused()


def test_the_help_of_eval_says_which_model_is_the_default(world: World) -> None:
    text = " ".join(world.run("palestra", "eval", "-h").out.split())

    assert "Default policy_model of the configs; without configs, local." in text

"""A re-verification of a dialogue says in which rows today's environment speaks otherwise."""

import json
from pathlib import Path

import pytest

import palestra
from palestra import Run
from palestra.cli.reverifying import reverify
from palestra.settings import ReverifyArgs
from palestra.testing import scripted_endpoint

pytestmark = pytest.mark.slow

GUESS = """
from palestra import Environment

class Guess(Environment):
    isolated = False  # a worker takes a second to start, and is no part of what is tested
    data = [{"number": 7}, {"number": 12}]
    prompt = "Guess my number."
    max_turns = 3

    def reply(self, answer, number):
        return None if answer == str(number) else "Higher."

    def verify(self, answer, number):
        return answer == str(number)
"""


@pytest.fixture
def guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose first task takes one turn and whose second takes two."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(tmp_path / "cache"))
    return evaluated("7", "7", "12")


def evaluated(*answers: str) -> Run:
    Path("guess.py").write_text(GUESS)
    with scripted_endpoint(*answers) as model:
        return palestra.evaluate(
            "guess.py",
            model=f"vllm:{model.url}",
            output="out/run.jsonl",
            concurrency=1,
            progress=False,
        )


@pytest.mark.parametrize(
    ("old", "new", "rows", "first"),
    [
        ('"Higher."', '"Higher."', 0, None),
        ('"Higher."', '"Go up."', 1, "line 2 (task 1, rollout 0)"),
        ("max_turns = 3", "max_turns = 1", 1, "line 2 (task 1, rollout 0)"),
        ("None if answer == str(number)", "None if True", 1, "line 2 (task 1, rollout 0)"),
        ("None if answer == str(number)", "None if False", 2, "line 1 (task 0, rollout 0)"),
    ],
)
def test_rows_of_another_conversation_are_counted(
    guessed: Run, old: str, new: str, rows: int, first: str | None
) -> None:
    Path("guess.py").write_text(GUESS.replace(old, new))

    again = guessed.reverify()

    assert again.result["conversation_differs"] == rows
    assert again.result["first_conversation_differs"] == first
    marks = [json.loads(line) for line in again.output.read_text().splitlines()]
    assert sum("_ng_conversation_differs" in row for row in marks) == rows


def test_what_the_user_would_say_after_a_limit_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = evaluated("7", "1", "2", "3")
    Path("guess.py").write_text(GUESS.replace("max_turns = 3", "max_turns = 4"))

    again = run.reverify()

    # It may have been the limit of the agent, of which a re-verification knows nothing.
    assert again.result["conversation_differs"] == 0


def test_the_mark_is_of_the_last_verification_alone(guessed: Run) -> None:
    Path("guess.py").write_text(GUESS.replace("Higher", "Lower"))
    marked = guessed.reverify().output
    Path("guess.py").write_text(GUESS)

    again = Path("out/again.jsonl")
    reverify(ReverifyArgs(rollouts=marked, environment="guess.py", output=again), [])

    assert "conversation_differs" not in again.read_text()


def test_the_command_says_whose_rewards_these_are(
    guessed: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("guess.py").write_text(GUESS.replace("Higher", "Lower"))

    again = Path("out/again.jsonl")
    reverify(ReverifyArgs(rollouts=guessed.path, environment="guess.py", output=again), [])

    assert "in 1 row the user or a tool says something else now" in capsys.readouterr().err

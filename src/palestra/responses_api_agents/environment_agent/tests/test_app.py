"""`environment_agent`: tool calls and turns of an environment in one file."""

from pathlib import Path

import pytest

from palestra.testing import ScriptedFleet, called

DIALOGUE = '''from palestra import Environment, tool


class Dialogue(Environment):
    data = [{"tries": 2}]
    prompt = "Guess."
    max_turns = 4

    def start(self, tries):
        self.left, self.heard = tries, []

    @tool
    def hint(self) -> str:
        """Get a hint."""
        return "above five"

    def reply(self, answer):
        self.heard.append(answer)
        self.left -= 1
        return f"{self.left} left" if self.left else None

    def verify(self):
        return len(self.heard)
'''
ROW = {"responses_create_params": {"input": "Guess."}, "tries": 2}


def played(folder: Path, *answers: object, **row: object) -> dict:
    path = folder / "dialogue.py"
    path.write_text(DIALOGUE)
    with ScriptedFleet(path, answers=answers) as fleet:
        return fleet.run({**ROW, **row})


def test_calls_are_run_and_answers_are_replied_to(tmp_path: Path) -> None:
    result = played(tmp_path, called("hint"), "six", "seven", "never asked")

    items = [(i["type"], i.get("role")) for i in result["response"]["output"]]
    assert items == [
        ("function_call", None),
        ("function_call_output", None),
        ("message", "assistant"),
        ("message", "user"),
        ("message", "assistant"),
    ]
    assert result["reward"] == 2.0


def test_the_environments_limit_ends_the_conversation(tmp_path: Path) -> None:
    result = played(tmp_path, "1", "2", "3", "4", "never asked", tries=9)

    assert result["reward"] == 4.0
    assert result["response"]["output"][-1]["role"] == "assistant"


@pytest.mark.parametrize(
    ("answers", "tries", "reached"),
    [
        (["1", "2", "3", "4"], 9, True),
        (["1", "2", "3", called("hint")], 9, True),
        ([called("hint"), called("hint"), called("hint"), [called("hint"), "Wait."]], 9, True),
        ([called("hint"), "1", "2"], 2, False),
        (["1", "2", "3", "4"], 4, False),  # the user had no more to say
        (["1", "2"], 2, False),
    ],
)
def test_the_row_says_whether_the_limit_ended_the_conversation(
    tmp_path: Path, answers: list[object], tries: int, reached: bool
) -> None:
    result = played(tmp_path, *answers, tries=tries)

    assert result["turn_limit_reached"] is reached


def test_the_paths_of_turns_are_no_tools(tmp_path: Path) -> None:
    result = played(tmp_path, called("reset"), "six", "seven")

    assert "no tool named reset" in result["response"]["output"][1]["output"]
    assert result["reward"] == 2.0

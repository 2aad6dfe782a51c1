"""environment_file: what the function of a file returns is the reward."""

from pathlib import Path

import pytest

from palestra.testing import assert_verifies, server_of, task_row

FOLDER = Path(__file__).parents[1]
MINE = """from palestra import environment

@environment(data=[{"question": "2 + 2 = ?", "expected_answer": "4"}], prompt="{question}")
def verify(answer: str, expected_answer: str) -> float:
    return float(answer.strip() == expected_answer)
"""


@pytest.mark.parametrize(("answer", "reward"), [(" 4\n", 1.0), ("5", 0.0)])
def test_the_functions_value_is_the_reward(tmp_path: Path, answer: str, reward: float) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MINE)

    server = server_of(FOLDER, path=path)

    assert_verifies(server, task_row("2 + 2 = ?", expected_answer="4"), answer, reward)

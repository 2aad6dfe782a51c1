"""Warnings of a number of the rows that `verify` compares with the answer's text."""

from pathlib import Path
from typing import Any

import pytest

from palestra.fleet import load_module
from palestra.server import EnvironmentDefinition

SOURCE = """from palestra import Environment


class Sums(Environment):
    data = [{{"q": "?", "target": 4}}, {{"q": "!", "target": 2.5}}]
    prompt = "{{q}}"

    def verify(self, {parameters}):
        {body}
"""
NEVER, RAISES = "they are never equal", "in raises TypeError"


def warnings_of(
    folder: Path, body: str, parameters: str = "answer, target, task", rows: Any = None
) -> list[str]:
    file = folder / "sums.py"
    file.write_text(SOURCE.format(body=body, parameters=parameters))
    warnings: list[str] = []
    list(EnvironmentDefinition.of(load_module(file).Sums).rows(rows, warn=warnings.append))
    return warnings


@pytest.mark.parametrize(
    ("body", "effect", "form"),
    [
        ("return answer == target", NEVER, "target"),
        ("return target != answer", NEVER, "target"),
        ("return answer.strip().lower() == target", NEVER, "target"),
        ("return {'right': answer.split()[-1] == target}", NEVER, "target"),
        ("return answer[-1:] == target", NEVER, "target"),
        ("text = answer.strip()\n        return text == target", NEVER, "target"),
        ("return target in answer", RAISES, "target"),
        ("return answer not in target", RAISES, "target"),
        ("return answer == task['target']", NEVER, "task['target']"),
        ("return answer == self.task['target']", NEVER, "self.task['target']"),
    ],
)
def test_a_number_that_is_compared_with_the_answer_is_a_warning_with_its_line(
    tmp_path: Path, body: str, effect: str, form: str
) -> None:
    [warning] = warnings_of(tmp_path, body)

    assert "sums.py:8: target is a number in the rows, and the answer is a text" in warning
    assert warning.endswith(f"{effect}; write str({form})")


@pytest.mark.parametrize(
    "body",
    [
        "return answer == str(target)",
        "return float(answer) == target",
        "target = str(target)\n        return answer == target",
        "answer = float(answer)\n        return answer == target",
        "return len(answer) == target",
        "return answer.count('a') == target",
        "return answer.split() == target",
        "return answer == target if isinstance(target, str) else float(answer) > 1",
        "return int(answer) == target if answer.isdigit() else answer == target",
        "text = answer\n        text = float(text)\n        return text == target",
        "return (lambda answer: answer == target)(4)",
        "return target == 4",
    ],
)
def test_code_that_may_know_the_number_is_no_warning(tmp_path: Path, body: str) -> None:
    assert warnings_of(tmp_path, body) == []


@pytest.mark.parametrize("value", ["4", True, None])
def test_a_field_that_is_no_number_in_some_row_is_no_warning(tmp_path: Path, value: Any) -> None:
    rows = [{"q": "?", "target": 4}, {"q": "!", "target": value}]

    assert warnings_of(tmp_path, "return answer == target", rows=rows) == []


def test_rows_that_another_file_brings_are_looked_at(tmp_path: Path) -> None:
    rows = [{"q": "?", "target": 4}]

    assert len(warnings_of(tmp_path, "return answer == target", rows=rows)) == 1


def test_a_reply_that_compares_a_number_with_the_answer_is_a_warning(tmp_path: Path) -> None:
    body = "return True\n\n    def reply(self, answer, target):\n        return 'No.' if answer != target else None"

    [warning] = warnings_of(tmp_path, body)

    assert "sums.py:11: target is a number" in warning

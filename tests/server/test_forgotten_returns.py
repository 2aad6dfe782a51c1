"""Methods whose code never returns a value where one is wanted."""

from pathlib import Path

import pytest

from palestra.fleet import load_module
from palestra.server import EnvironmentDefinition

SOURCE = """import functools
from palestra import Environment, ToolError, tool

class Bank(Environment):
    data = [{{"q": "?", "answer": "4"}}]
    prompt = "{{q}}"
    max_turns = 3
    seen: list = []

{code}

    {verify}
"""
TOOL = """    @tool
    def take(self, name: str) -> {kind}:
        \"\"\"Take a thing.\"\"\"
        {body}
"""
GOOD = "def verify(self, answer): return 1.0"


def warnings_of(folder: Path, code: str, verify: str = GOOD) -> list[str]:
    file = folder / "bank.py"
    file.write_text(SOURCE.format(code=code, verify=verify))
    return list(EnvironmentDefinition.of(load_module(file).Bank).warnings())


@pytest.mark.parametrize(
    "body",
    [
        "self.balance = 3",
        "self.seen.append(name)",
        "self.seen",
        "if not name: raise ToolError('no')",
        "for part in name: self.seen.append(part)",
        "if name: return\n        raise ToolError('no')",
    ],
)
def test_a_tool_that_promises_a_value_and_returns_none_is_warned_of(
    tmp_path: Path, body: str
) -> None:
    [warning] = warnings_of(tmp_path, TOOL.format(kind="int", body=body))

    assert warning.endswith(
        "bank.py:10: the tool take returns nothing, and its annotation promises int: write return"
    )


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("None", "self.balance = 3"),
        ("int | None", "self.balance = 3"),
        ("int", "self.balance = 3; return self.balance"),
        ("int", "if name: return 3\n        self.seen.append(name)"),
        ("int", "raise ToolError('not here')"),
        ("int", "self.refuse(name)"),
        ("int", "..."),
        ("int", "pass"),
        ("int", "while True: pass"),
    ],
)
def test_a_tool_that_may_keep_its_promise_is_not_warned_of(
    tmp_path: Path, kind: str, body: str
) -> None:
    assert warnings_of(tmp_path, TOOL.format(kind=kind, body=body)) == []


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("reply", "each conversation ends after the model's first turn"),
        ("gold", "no right answer is known"),
    ],
)
def test_a_method_that_never_returns_a_value_is_warned_of(
    tmp_path: Path, name: str, effect: str
) -> None:
    code = f"    def {name}(self, task):\n        text = task['q']\n"

    [warning] = warnings_of(tmp_path, code)

    assert warning.endswith(f"bank.py:10: {name} returns nothing, so that {effect}: write return")


def test_a_verify_that_never_returns_a_value_is_warned_of(tmp_path: Path) -> None:
    [warning] = warnings_of(tmp_path, "", "def verify(self, answer): score = len(answer)")

    assert warning.endswith("verify returns nothing, so that no answer gets a reward: write return")

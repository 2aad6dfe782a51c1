"""A field of the rows that contradicts the type hint of its parameter is refused before the run."""

from pathlib import Path
from typing import Any

import pytest

from palestra.errors import InputDataError, RowError
from palestra.fleet import load_module
from palestra.server import EnvironmentDefinition

CODE = """
import json
from typing import Annotated, Any, Literal

from palestra import Environment

class Sums(Environment):
    prompt = "?"
    data = [{"target": 1}]

    def verify(self, answer: str, target: HINT) -> float:
        return float(answer == str(target))
"""
LINE = 1 + next(n for n, line in enumerate(CODE.splitlines()) if "def verify" in line)


def defined(folder: Path, hint: str) -> EnvironmentDefinition:
    file = folder / "sums.py"
    file.write_text(CODE.replace("HINT", hint))
    return EnvironmentDefinition.of(load_module(file).Sums)


@pytest.mark.parametrize(
    ("hint", "value", "remedy"),
    [
        ("int", "2", "write target: str, and int(target) where it is used; or correct the rows"),
        ("float", "2.5", "write target: str, and float(target) where it is used"),
        ("int | None", "2", "and int(target) where it is used"),
        ("Annotated[int, 'above 0']", "2", "write target: str"),
        ("'int'", "2", "and int(target) where it is used"),
        ("list[str]", '["a"]', "and json.loads(target) where it is used"),
        ("dict[str, int]", "{}", "and json.loads(target) where it is used"),
        ("bool", "false", "write target: str; or correct the rows"),
        ("Literal[1, 2]", "2", "write target: str"),
        ("int | float", "2", "write target: str"),
        ("int", 2.5, "write target: float; or correct the rows"),
        ("str", 2, "write target: int; or correct the rows"),
        ("str", True, "write target: bool"),
        ("str", ["a"], "write target: list"),
        ("list[str]", {"a": 1}, "write target: dict"),
    ],
)
def test_a_value_that_the_hint_excludes_is_refused_with_its_row_and_line(
    tmp_path: Path, hint: str, value: Any, remedy: str
) -> None:
    rows = [{"target": None}, {"target": value}]

    with pytest.raises(InputDataError) as caught:
        list(defined(tmp_path, hint).rows(rows))

    assert caught.value.message.startswith(f"{tmp_path / 'sums.py'}:{LINE}: Sums.verify(")
    assert f"but target is {'the text ' * isinstance(value, str)}{value!r}" in caught.value.message
    assert "1 of the 2 rows (row 1 of data is the first)" in caught.value.message
    assert remedy in caught.value.hint


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        ("int", 2),
        ("int", 2.0),
        ("int", True),
        ("bool", 1),
        ("float", 2),
        ("str", "2"),
        ("str", None),
        ("int | str", "2"),
        ("list", [1]),
        ("list[int]", ["not an int"]),
        ("Any", "2"),
        ("object", "2"),
        ("Unknown", "2"),
        ("set[str]", ["a"]),
        ("Literal['a']", "b"),
    ],
)
def test_what_a_hint_may_be_true_of_is_accepted(tmp_path: Path, hint: str, value: Any) -> None:
    code = f"from __future__ import annotations\n{CODE.replace('HINT', hint)}"
    (tmp_path / "sums.py").write_text(code)
    definition = EnvironmentDefinition.of(load_module(tmp_path / "sums.py").Sums)

    [row] = definition.rows([{"target": value}])

    assert row["target"] == value


def test_a_row_that_comes_to_a_server_is_checked_too(tmp_path: Path) -> None:
    parameters = defined(tmp_path, "int").parameters("verify")

    with pytest.raises(RowError) as caught:
        parameters.filled({"answer": "2", "target": "2"})

    assert "takes target: int, but target is the text '2'" in caught.value.message


def test_what_the_answer_is_hinted_as_is_no_matter_of_the_rows(tmp_path: Path) -> None:
    code = CODE.replace("answer: str", "answer: int").replace("HINT", "int")
    (tmp_path / "sums.py").write_text(code)

    rows = EnvironmentDefinition.of(load_module(tmp_path / "sums.py").Sums).rows(
        [{"target": 1, "answer": "4"}]
    )

    assert len(list(rows)) == 1


def test_a_decorator_may_convert_the_values(tmp_path: Path) -> None:
    code = CODE.replace("    def verify", "    @validate_call\n    def verify").replace(
        "HINT", "int"
    )
    (tmp_path / "sums.py").write_text(f"from pydantic import validate_call\n{code}")

    rows = EnvironmentDefinition.of(load_module(tmp_path / "sums.py").Sums).rows([{"target": "1"}])

    assert len(list(rows)) == 1


def test_the_hint_of_spread_parameters_is_of_each_value_in_them(tmp_path: Path) -> None:
    code = CODE.replace("target: HINT", "*options: str, target: int = 1, **fields: str")
    (tmp_path / "sums.py").write_text(code)

    rows = EnvironmentDefinition.of(load_module(tmp_path / "sums.py").Sums).rows(
        [{"target": 1, "options": ["a"], "fields": {"a": 1}}]
    )

    assert len(list(rows)) == 1


def test_nan_is_refused_as_no_json_and_not_for_the_hint(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="JSON has no nan"):
        list(defined(tmp_path, "int").rows([{"target": float("nan")}]))

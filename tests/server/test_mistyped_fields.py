"""Parameters whose annotation is not the type of the field that fills them."""

from typing import Any

import pytest
from environment_classes import warnings_of, with_methods

ROWS = [{"question": "2 + 2 = ?", "target": "4"}, {"question": "3 + 3 = ?", "target": 6}]


def as_number(self: Any, answer: str, target: int) -> float:
    return float(int(answer) == target)


def as_list(self: Any, answer: str, target: list[str]) -> float:
    return float(answer in target)


def converted(self: Any, answer: str, target: int) -> float:
    return float(int(answer) == int(target))


def as_text(self: Any, answer: str, target: str) -> float:
    return float(answer == target)


def untyped(self: Any, answer: str, target: Any) -> float:
    return float(answer == target)


@pytest.mark.parametrize(
    ("verify", "text"),
    [
        (
            as_number,
            "target is annotated int, but it is the text '4' in row 0 of data; write int(target)",
        ),
        (as_list, "but it is the text '4' in row 0 of data; write json.loads(target)"),
    ],
)
def test_a_text_for_a_parameter_of_another_type_is_warned_of(verify: Any, text: str) -> None:
    cls = with_methods(data=ROWS, prompt="{question}", verify=verify)

    [warning] = warnings_of(cls)

    assert warning.endswith(text)
    assert f"{__file__.rpartition('/')[2]}:{verify.__code__.co_firstlineno}: " in warning


@pytest.mark.parametrize("verify", [converted, as_text, untyped])
def test_a_parameter_that_may_be_a_text_is_not_warned_of(verify: Any) -> None:
    rows = [{**row, "target": "4"} for row in ROWS]

    assert warnings_of(with_methods(data=rows, prompt="{question}", verify=verify)) == []


def test_a_field_of_the_annotated_type_is_not_warned_of() -> None:
    rows = [{**row, "target": 4} for row in ROWS]

    assert warnings_of(with_methods(data=rows, prompt="{question}", verify=as_number)) == []

"""The rows of an environment: values that JSON would change, null fields, tables."""

import datetime as dt
import enum
import math
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from palestra import Environment, call
from palestra.errors import InputDataError
from palestra.fleet import load_module
from palestra.server import EnvironmentDefinition


class Letter(enum.Enum):
    A = "a"


class LetterText(str, enum.Enum):  # noqa: UP042  # its text is `LetterText.A`
    A = "a"


class Text(str):
    """A text of an author's own class."""

    __slots__ = ()


def with_rows(data: Any, **members: Any) -> EnvironmentDefinition:
    made = {"data": data, "prompt": "{q}", "verify": lambda self, answer: 1.0, **members}
    return EnvironmentDefinition.of(type("Sums", (Environment,), made), name="sums")


def warnings_of(data: Any, **members: Any) -> list[str]:
    warnings: list[str] = []
    list(with_rows(data, **members).rows(warn=warnings.append))
    return warnings


@pytest.mark.parametrize(
    ("value", "problem", "cure"),
    [
        (math.nan, "['s'] is nan", "write None"),
        (-math.inf, "['s'] is -inf", "write None"),
        (dt.date(2024, 1, 2), "['s'] is a date", "write its text: '2024-01-02'"),
        (Letter.A, "['s'] is a Letter", "write its value: 'a'"),
        ((1, 2), "['s'] is a tuple", "write a list: [1, 2]"),
        ({2, 1}, "['s'] is a set", "write a list: [1, 2]"),
        (b"x", "['s'] is a bytes", "write a text: 'x'"),
        (Decimal("0.5"), "['s'] is a Decimal", "write its text, '0.5', or a float"),
        (np.int64(3), "['s'] is a numpy.int64", "write ….tolist(): 3"),
        ({1: "x"}, "['s'] has the key 1, which is not a text", "write '1'"),
        ({"a": [{"b": (1,)}]}, "['s']['a'][0]['b'] is a tuple", "write a list: [1]"),
    ],
)
def test_a_value_that_json_would_change_is_refused_with_its_row_and_key(
    value: Any, problem: str, cure: str
) -> None:
    with pytest.raises(InputDataError) as raised:
        list(with_rows([{"q": "?"}, {"q": "?", "s": value}]).rows())

    assert raised.value.message == f"sums: row 1 of data cannot be JSON: {problem}"
    assert cure in raised.value.hint


@pytest.mark.parametrize(
    ("value", "plain"),
    [(Text("x"), "x"), (LetterText.A, "a"), (True, True), (Counter("aa"), {"a": 2}), (None, None)],
)
def test_a_value_that_equals_what_json_makes_of_it_is_taken(value: Any, plain: Any) -> None:
    [row] = with_rows([{"q": "?", "s": value}]).rows()

    assert type(row["s"]) is type(plain)
    assert row["s"] == plain


def test_the_prompt_shows_what_verify_gets() -> None:
    [row] = with_rows([{"q": LetterText.A}]).rows()

    assert row["responses_create_params"]["input"][0]["content"] == "a"


def test_a_parameter_of_the_request_without_a_number_is_refused() -> None:
    params = {"input": "?", "temperature": math.nan}

    with pytest.raises(InputDataError, match=r"responses_create_params of row 0 .* is nan"):
        list(with_rows([{"responses_create_params": params}], prompt="").rows())


def test_calls_in_a_row_s_own_input_are_taken() -> None:
    params = {"input": (call("take", name="apple"),)}

    [row] = with_rows([{"responses_create_params": params}], prompt="").rows()

    assert row["responses_create_params"]["input"][0]["name"] == "take"


def test_a_null_field_of_the_prompt_is_a_warning_with_its_count() -> None:
    rows = [{"q": "a"}, {"q": None, "n": 1}, {"q": None, "n": 2}]

    [warning] = warnings_of(rows)

    assert "the prompt of sums says None in 2 of the 3 rows (row 1 of data is the first)" in warning
    assert "where q is null" in warning


def test_a_null_field_of_the_system_message_is_a_warning() -> None:
    [warning] = warnings_of([{"q": "a", "rules": {"of": None}}], system="Follow {rules[of]}.")

    assert "the system message of sums says None in 1 of the 1 rows" in warning
    assert "rules[of] is null" in warning


def test_a_field_in_double_braces_is_refused_when_the_prompt_has_no_field() -> None:
    with pytest.raises(InputDataError) as caught:
        list(with_rows([{"q": "a"}], prompt="Answer {{ q }}.").rows())

    assert "the prompt of sums has no field: {{q}} is the literal text {q}" in caught.value.message


def test_a_text_in_double_braces_beside_a_field_is_literal() -> None:
    [row] = with_rows([{"q": "a", "s": "b"}], prompt="{q} as {{s}}").rows()

    assert row["responses_create_params"]["input"][0]["content"] == "a as {s}"


def test_a_prompt_without_fields_for_several_rows_is_a_warning() -> None:
    [warning] = warnings_of([{"q": "a"}, {"q": "b"}], prompt="Play.")

    assert warning.startswith("the prompt of sums names no field of the rows")


def test_a_system_message_may_be_what_differs() -> None:
    assert not warnings_of([{"q": "a"}, {"q": "b"}], prompt="Play.", system="{q}")


def test_a_null_field_that_no_template_shows_is_no_warning() -> None:
    assert not warnings_of([{"q": "a", "s": None}])


def test_an_empty_prompt_is_a_warning_with_its_count() -> None:
    [warning] = warnings_of([{"q": "a"}, {"q": " "}])

    assert "the prompt of sums is empty in 1 of the 2 rows" in warning
    assert "with an empty q" in warning


def test_an_empty_field_within_a_text_is_no_warning() -> None:
    assert not warnings_of([{"q": ""}], prompt="Say {q}!")


def test_a_gold_template_over_a_field_that_no_row_has_is_refused() -> None:
    with pytest.raises(InputDataError, match="gold of sums cannot be filled: no row has the field"):
        list(with_rows([{"q": "?", "a": 1}], gold="{answr}").rows())


@pytest.mark.parametrize("returned", [4, {"a": 1}, [4]])
def test_a_gold_that_returns_another_thing_is_named(returned: Any) -> None:
    definition = with_rows([{"q": "?"}], gold=lambda self: returned)

    with pytest.raises(InputDataError, match="gold of sums returned"):
        definition.gold({"q": "?"})


def test_one_call_is_a_gold() -> None:
    answer = with_rows([{"q": "?"}], gold=lambda self: call("take")).gold({"q": "?"})

    assert answer is not None
    assert len(answer.output) == 1


class Table:
    """A table as those of pandas: its items are the columns."""

    columns = ("q",)

    def __iter__(self) -> Any:
        return iter(self.columns)

    def to_dict(self, orient: str) -> Any:
        assert orient == "records"
        return [{"q": "a"}, {"q": "b"}]


class PolarsTable(Table):
    """A table as those of Polars, whose `to_dict` returns the columns."""

    def to_dict(self, orient: str = "") -> Any:
        raise TypeError(orient)

    def to_dicts(self) -> Any:
        return [{"q": "a"}, {"q": "b"}]


@pytest.mark.parametrize("table", [Table(), PolarsTable(), staticmethod(Table)])
def test_the_rows_of_a_table_are_the_rows(table: Any) -> None:
    assert [row["q"] for row in with_rows(table).rows()] == ["a", "b"]


def test_missing_values_and_arrays_of_pandas_are_none_and_lists() -> None:
    table = pd.DataFrame(
        {
            "q": ["a", None],
            "weight": [1.5, math.nan],
            "count": pd.array([None, 2], dtype="Int64"),
            "golds": [np.array(["x", "y"]), np.array([])],
            "turns": [np.array([np.array([1, 2]), {"n": np.array([3])}], dtype=object), None],
        }
    )

    rows = [{name: row[name] for name in table.columns} for row in with_rows(table).rows()]

    turns = [[1, 2], {"n": [3]}]
    assert rows == [
        {"q": "a", "weight": 1.5, "count": None, "golds": ["x", "y"], "turns": turns},
        {"q": None, "weight": None, "count": 2, "golds": [], "turns": None},
    ]


STYLED = """from palestra import Environment


class Sums(Environment):
    data = [{{"q": "?"}}]
    {template}
    style{annotation} = "short"

    def verify(self, answer):
        return 1.0
"""


@pytest.mark.parametrize(
    ("template", "method"),
    [
        ('prompt = "{q} {style}"', "messages(self, task)"),
        ('prompt = "{q} {self.style}"', "messages(self, task)"),
        ('prompt = "{q}"; system = "Be {style}."', "messages(self, task)"),
        ('prompt = "{q}"; gold = "{style}"', "gold(self, task)"),
    ],
)
@pytest.mark.parametrize("annotation", [": str", ""])
def test_a_template_with_a_setting_is_refused_with_the_method_that_can_use_it(
    tmp_path: Path, template: str, method: str, annotation: str
) -> None:
    file = tmp_path / "sums.py"
    file.write_text(STYLED.format(template=template, annotation=annotation))

    with pytest.raises(InputDataError, match=r"sums\.py:6: .*style is an attribute of") as raised:
        list(EnvironmentDefinition.of(load_module(file).Sums).rows())

    assert "self.style" in raised.value.hint
    assert f"def {method}" in raised.value.hint


def test_a_field_with_the_name_of_a_setting_is_filled(tmp_path: Path) -> None:
    file = tmp_path / "sums.py"
    file.write_text(STYLED.format(template='prompt = "{style}"', annotation=": str"))

    [row] = EnvironmentDefinition.of(load_module(file).Sums).rows([{"style": "long"}])

    assert row["responses_create_params"]["input"][0]["content"] == "long"


WITH_FUNCTION = """from functools import cache

from palestra import Environment, environment


{function}


{environment}
"""
CLASS = """class Sums(Environment):
    {data}
    prompt = "{{q}}"

    def verify(self, answer):
        return 1.0
"""
DATA_IS_ROWS = CLASS.format(data="data = rows")
DECORATED = """@environment(data=rows, prompt="{q}")
def Sums(answer):
    return 1.0
"""


def rows_of_source(folder: Path, function: str, environment: str) -> list[Any]:
    file = folder / "sums.py"
    file.write_text(WITH_FUNCTION.format(function=function, environment=environment))
    return list(EnvironmentDefinition.of(load_module(file).Sums).rows())


@pytest.mark.parametrize(
    ("function", "environment", "line"),
    [
        ("def rows(split):\n    return [{'q': 'a'}]", DATA_IS_ROWS, 6),
        ("def rows(split='train'):\n    return [{'q': 'a'}]", DATA_IS_ROWS, 6),
        ("def rows(self, split):\n    return [{'q': 'a'}]", DATA_IS_ROWS, 6),
        ("def rows(self, *, split):\n    yield {'q': 'a'}", DATA_IS_ROWS, 6),
        ("@cache\ndef rows(split):\n    return [{'q': 'a'}]", DATA_IS_ROWS, 6),
        ("def rows(split):\n    return [{'q': 'a'}]", DECORATED, 6),
        ("def rows(split):\n    return 1", CLASS.format(data="data = staticmethod(rows)"), 6),
    ],
)
def test_a_parameter_of_data_that_nothing_fills_is_refused_with_its_line(
    tmp_path: Path, function: str, environment: str, line: int
) -> None:
    with pytest.raises(
        InputDataError, match=rf"sums\.py:{line}: rows is the data of .* its parameter split"
    ):
        rows_of_source(tmp_path, function, environment)


@pytest.mark.parametrize(
    ("function", "environment"),
    [
        ("def rows(self):\n    return [{'q': 'a'}]", DATA_IS_ROWS),
        ("def rows(_):\n    return [{'q': 'a'}]", DATA_IS_ROWS),
        ("def rows(*args):\n    return [{'q': 'a'}]", DATA_IS_ROWS),
        ("def rows(split='train'):\n    return [{'q': 'a'}]", DECORATED),
        ("", CLASS.format(data="def data(sums, many=1): return [{'q': 'a'}]")),
    ],
)
def test_a_function_of_data_whose_parameters_are_filled_is_called(
    tmp_path: Path, function: str, environment: str
) -> None:
    assert len(rows_of_source(tmp_path, function, environment)) == 1


@pytest.mark.parametrize(
    ("body", "problem"),
    [("return []", "no row"), ("yield from []", "no row"), ("rows = [1]", "None")],
)
@pytest.mark.parametrize("environment", [DATA_IS_ROWS, DECORATED])
def test_a_function_of_data_that_returns_no_row_is_named(
    tmp_path: Path, body: str, problem: str, environment: str
) -> None:
    parameters = "self" if environment is DATA_IS_ROWS else ""
    with pytest.raises(InputDataError, match=rf"sums\.py:6: rows returned {problem}") as raised:
        rows_of_source(tmp_path, f"def rows({parameters}):\n    {body}", environment)

    assert "yield each row" in raised.value.hint


def test_a_field_with_a_blank_beside_its_name_is_named_as_such() -> None:
    with pytest.raises(InputDataError, match=r"no field 'q'|no row has the field 'q'") as caught:
        list(with_rows([{"q ": "a"}]).rows())

    assert "'q ' has a blank after the name" in caught.value.message


def test_a_field_that_messages_misses_is_told_with_those_of_the_row() -> None:
    def messages(self: Environment, task: Any) -> list[dict[str, str]]:
        return [{"role": "user", "content": task["question"]}]

    with pytest.raises(
        InputDataError, match="messages of sums raised KeyError for row 0"
    ) as raised:
        list(with_rows([{"q": "?", "topic": "a"}], messages=messages).rows())

    assert raised.value.hint == "the row has q, topic"

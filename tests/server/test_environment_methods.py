"""The checks of an author's methods before anything runs."""

from pathlib import Path
from typing import Any

import pytest
from environment_classes import warnings_of, with_methods

from palestra import environment, tool
from palestra.errors import ConfigError, InputDataError
from palestra.server import EnvironmentDefinition

HERE = Path(__file__).name


def without_self(answer, wanted):  # type: ignore[no-untyped-def]
    return answer == wanted


def misspelt(anwser, wanted):  # type: ignore[no-untyped-def]
    return anwser == wanted


def bare():  # type: ignore[no-untyped-def]
    return 1.0


@pytest.mark.parametrize("function", [without_self, misspelt, bare])
@pytest.mark.parametrize("name", ["verify", "reply", "start", "gold", "messages"])
def test_a_method_without_self_is_refused_with_its_line_and_what_to_write(
    name: str, function: Any
) -> None:
    with pytest.raises(ConfigError) as raised:
        EnvironmentDefinition.of(with_methods(**{name: function}))

    line = function.__code__.co_firstlineno
    assert f"{HERE}:{line}: Sums.{name}(" in raised.value.message
    assert "has no self" in raised.value.message
    assert f"def {name}(self" in raised.value.hint


def test_a_first_parameter_with_the_name_of_a_field_is_no_self() -> None:
    cls = with_methods(verify=lambda wanted, answer: answer == wanted)

    with pytest.raises(ConfigError, match="first parameter, wanted, would be the object"):
        list(EnvironmentDefinition.of(cls).rows())


def spread(*everything: Any, **more: Any) -> float:
    return 1.0


@pytest.mark.parametrize(
    "verify",
    [
        staticmethod(without_self),
        classmethod(lambda cls, answer: 1.0),
        lambda _: 1.0,
        lambda this, answer: 1.0,
        lambda shelf, answer: 1.0,
        spread,
    ],
)
def test_a_method_may_call_its_object_by_another_name_or_need_none(verify: Any) -> None:
    cls = with_methods(verify=verify)

    assert len(list(EnvironmentDefinition.of(cls).rows())) == 1


def test_a_tool_without_self_is_refused_with_its_line_and_what_to_write() -> None:
    @tool
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    with pytest.raises(ConfigError, match=r"Sums\.double\(number\) has no self") as raised:
        EnvironmentDefinition.of(with_methods(double=double))

    assert "def double(self, number)" in raised.value.hint


class Opaque:
    """A class without a schema."""


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [("datetime", "when: datetime, NameError"), (Opaque, "when: Opaque, Pydantic")],
)
def test_a_type_of_a_tool_that_cannot_be_used_is_refused_with_its_parameter(
    annotation: Any, problem: str
) -> None:
    @tool
    def wait(self: Any, until: int, when: Any) -> int:
        """Wait."""
        return until

    wait.__annotations__["when"] = annotation
    with pytest.raises(ConfigError) as raised:
        EnvironmentDefinition.of(with_methods(wait=wait))

    line = wait.__code__.co_firstlineno
    assert f"{HERE}:{line}: the tool wait has a type" in raised.value.message
    assert problem in raised.value.message


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (lambda: environment(bare), "@environment needs the rows"),
        (lambda: environment(prompt="?"), "@environment needs the rows"),
        (lambda: environment(dataset=[]), "no parameter 'dataset'; did you mean 'data'"),
        (lambda: environment(data=[], weight={}), "'weight'; did you mean 'weights'"),
    ],
)
def test_wrong_arguments_of_the_decorator_are_refused_with_their_line_and_the_nearest(
    decorate: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        decorate()

    assert raised.value.message.startswith(f"{HERE}:") or f"/{HERE}:" in raised.value.message


def test_the_mark_of_a_tool_may_be_called() -> None:
    @tool()
    def look(self: Any) -> str:
        """Look."""
        return ""

    assert "look" in EnvironmentDefinition.of(with_methods(look=look)).tools


def rows_of_file(folder: Path, name: str, text: str | None) -> list[Any]:
    if text is not None:
        (folder / name).write_text(text)
    cls = with_methods(data=name)
    return list(EnvironmentDefinition.of(cls, folder=folder).rows())


def test_a_missing_file_of_data_is_named_where_it_was_looked_up(tmp_path: Path) -> None:
    with pytest.raises(InputDataError) as raised:
        rows_of_file(tmp_path, "nope.jsonl", None)

    assert str(tmp_path / "nope.jsonl") in raised.value.message
    assert "folder of the environment's file" in raised.value.hint


@pytest.mark.parametrize(("name", "text"), [("rows.jsonl", ""), ("rows.csv", "question\n")])
def test_a_file_of_data_without_rows_is_named(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(InputDataError, match=f"{name}, has no rows"):
        rows_of_file(tmp_path, name, text)


def test_an_object_of_several_lists_of_rows_is_refused_with_their_names(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="several lists of rows: train, test"):
        rows_of_file(tmp_path, "rows.json", '{"train": [{"question": "?"}], "test": [{"a": 1}]}')


@pytest.mark.parametrize(
    "text",
    [
        '{"question": "?", "letters": ["a"], "words": ["b"]}',
        '{"question": [{"a": 1}], "documents": [{"b": 1}]}',
    ],
)
def test_an_object_that_may_be_a_row_is_one(tmp_path: Path, text: str) -> None:
    assert len(rows_of_file(tmp_path, "rows.json", text)) == 1


def test_equal_rows_are_counted_in_a_warning() -> None:
    rows = [{"question": "a"}, {"question": "b"}, {"question": "a"}]

    [warning] = warnings_of(with_methods(data=rows))

    assert "1 of the 3 rows of Sums equals an earlier one" in warning

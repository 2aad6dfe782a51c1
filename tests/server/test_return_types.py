"""Which return annotations promise that a function returns something."""

from collections.abc import Awaitable, Hashable
from typing import Annotated, Any, Literal, NewType, TypeVar

import pytest

from palestra.server.return_types import promised_value

T = TypeVar("T")
Name = NewType("Name", str)


def annotated(kind: Any) -> Any:
    def function() -> None: ...

    function.__annotations__["return"] = kind
    return function


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (int, "int"),
        ("str", "str"),
        (list[str], "list[str]"),
        (int | str, "int | str"),
        (Literal["a"], "Literal['a']"),
        (Annotated[int, "a note"], "int"),
        (Name, "Name"),
    ],
)
def test_a_type_without_none_promises_a_value(kind: Any, text: str) -> None:
    assert text in promised_value(annotated(kind))


@pytest.mark.parametrize(
    "kind",
    [None, Any, object, int | None, T, Literal["a"] | None, Awaitable[int], Hashable, "Missing"],
)
def test_any_type_that_none_may_fit_promises_nothing(kind: Any) -> None:
    assert promised_value(annotated(kind)) == ""


def test_a_class_that_answers_no_question_promises_nothing() -> None:
    class Silent(type):
        def __subclasscheck__(cls, subclass: type) -> bool:
            raise ValueError

    class Kind(metaclass=Silent): ...

    assert promised_value(annotated(Kind)) == ""

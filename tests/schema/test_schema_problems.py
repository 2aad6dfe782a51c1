"""What a rejected value is said to have wrong: pointers into it, and excerpts of it."""

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from palestra.schema import (
    RejectedField,
    ResponseCreateParams,
    VerifyRequest,
    rejected_fields,
    rejection_text,
    why_unreadable,
)


class Board(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cells: dict[str, int] = Field(default_factory=dict)
    size: int = 1


def rejected(model: type[BaseModel], value: Any) -> list[RejectedField]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(value)
    return rejected_fields(value, caught.value)


def test_the_tags_of_a_union_are_no_part_of_a_pointer() -> None:
    item = {"type": "function_call", "call_id": "c", "name": "x"}
    fields = rejected(VerifyRequest, {"responses_create_params": {"input": [item]}})

    assert {field.pointer for field in fields} == {
        "/responses_create_params/input/0/arguments",
        "/response",
    }


def test_a_tag_with_the_name_of_a_field_that_is_there_is_no_part_of_a_pointer() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    fields = rejected(ResponseCreateParams, {"input": "x", "tools": [tool]})

    assert "/tools/0/name" in {field.pointer for field in fields}
    assert not any(field.pointer.startswith("/tools/0/function") for field in fields)


def test_a_tool_of_chat_completions_is_answered_with_what_to_write() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    fields = rejected(ResponseCreateParams, {"input": "x", "tools": [tool]})

    assert "write what is under `function` one level up" in rejection_text(fields)


def test_a_tool_without_a_name_is_none_of_chat_completions() -> None:
    fields = rejected(ResponseCreateParams, {"input": "x", "tools": [{"type": "function"}]})

    assert rejection_text(fields) == "/tools/0/name: Field required"


def test_a_pointer_into_a_body_that_is_read_again_leaves_tags_out() -> None:
    body = b'{"input": "x", "tools": [{"type": "function", "function": {"name": "f"}}]}'
    with pytest.raises(ValidationError) as caught:
        ResponseCreateParams.model_validate_json(body)

    assert why_unreadable(body, caught.value).startswith("/tools/0/name: Field required")


def test_a_key_with_a_slash_is_escaped() -> None:
    [field] = rejected(Board, {"cells": {"a/b~c": "x"}})

    assert field.pointer == "/cells/a~1b~0c"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("two", '"two"'),
        (None, "null"),
        ([1, 2], "a list of 2"),
        ({"secret": 1}, "an object"),
        (Board(), "an object"),
        (b"raw", "a bytes"),
        ("x" * 100, '"' + "x" * 59 + "…"),
    ],
)
def test_a_bad_value_is_quoted_in_short(value: Any, found: str) -> None:
    [field] = rejected(Board, {"size": value})

    assert (field.pointer, field.found) == ("/size", found)
    assert field.sentence.endswith(f", got {found}")


def test_a_missing_field_quotes_nothing_of_what_is_there() -> None:
    fields = rejected(ResponseCreateParams, {"temperature": 1.0})

    assert rejection_text(fields) == "/input: Field required"


def test_a_long_list_of_problems_is_counted() -> None:
    fields = rejected(Board, dict.fromkeys("abcdefg", 1))

    assert rejection_text(fields).endswith("(and 2 more)")
    assert rejection_text(fields).count("Extra inputs are not permitted") == 5


def test_an_object_inside_a_row_is_looked_into() -> None:
    class Game(BaseModel):
        board: dict[str, int]

    [field] = rejected(Game, {"board": Board(size=3)})

    assert (field.pointer, field.found) == ("/board", "an object")


def test_a_value_that_is_wrong_as_a_whole_says_so() -> None:
    assert rejection_text(rejected(Board, 5)) == (
        "the whole: Input should be a valid dictionary or instance of Board, got 5"
    )


def test_an_unreadable_body_is_explained_without_being_dumped() -> None:
    body = b'{"size": {"a": "%s"}}' % (b"x" * 500)
    with pytest.raises(ValidationError) as caught:
        Board.model_validate_json(body)

    assert why_unreadable(body, caught.value) == (
        "/size: Input should be a valid integer, got an object"
    )
    assert why_unreadable(b"{", ValueError("not JSON")) == "not JSON"

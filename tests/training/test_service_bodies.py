"""Errors for bodies that the rollout service does not take."""

import json
from typing import Any

import msgspec
import pytest

from palestra.errors import InputDataError
from palestra.training.service.wire import BatchRequest, CancelRequest
from palestra.training.service.wrong_bodies import wrong_body

MISSPELT: list[tuple[Any, str]] = [
    ({"rows": []}, "requests"),
    ({"request": []}, "requests"),
    ({"requests": [], "deadline": 3}, "deadline_s"),
    ({"requests": [], "min_fracton": 0.5}, "min_fraction"),
    ({"requests": [{"row": {}, "task_id": 0}, {"row": {}, "task": 1}]}, "task_id"),
    ({"requests": [{"row": {}, "id": 0}]}, "task_id"),
    ({"requests": [{"data": {}, "task_id": 0}]}, "row"),
    ({"requests": [{"row": {}, "task_id": 0, "sampling_params": {}}]}, "sampling"),
]


def refusal(body: Any, kind: type[msgspec.Struct] = BatchRequest) -> InputDataError:
    text = json.dumps(body).encode()
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(text, type=kind)
    return wrong_body(text, kind, caught.value)


@pytest.mark.parametrize(("body", "field"), MISSPELT)
def test_an_unknown_field_is_answered_with_the_one_to_write(body: Any, field: str) -> None:
    assert refusal(body).message.endswith(f"; did you mean {field!r}?")


def test_a_field_like_none_names_no_field() -> None:
    error = refusal({"requests": [], "zzz": 1})

    assert "did you mean" not in error.message
    assert "requests, deadline_s, on_incomplete, min_fraction" in error.hint


def test_the_hint_has_the_fields_of_the_object_that_is_wrong() -> None:
    error = refusal({"requests": [{"row": {}, "zzz": 0, "task_id": 0}]})

    assert "the fields of a RolloutRequest: row, task_id, " in error.hint


def test_a_field_of_another_body_is_answered() -> None:
    assert refusal({"key": None}, CancelRequest).message.endswith("did you mean 'keys'?")


def test_a_body_that_is_no_json_has_the_fields_too() -> None:
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(b"{", type=BatchRequest)

    assert "requests" in wrong_body(b"{", BatchRequest, caught.value).hint

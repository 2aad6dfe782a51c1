"""What is sent and stored of an object, and the sum of two turns' usage."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import palestra.schema
from palestra.errors import Outcome
from palestra.schema import Usage, WireModel, add_usage, encode_json, fields_of


class Report(WireModel):
    """A verify response as authors write them: with defaults of both kinds."""

    reward: float
    accuracy: bool = False
    extracted: str | None = None


def test_everything_in_all_exists() -> None:
    assert all(hasattr(palestra.schema, name) for name in palestra.schema.__all__)


def test_a_default_that_says_something_is_a_field_and_an_absent_optional_is_not() -> None:
    assert fields_of(Report(reward=1.0)) == {"reward": 1.0, "accuracy": False}


def test_a_field_set_to_none_was_set() -> None:
    assert fields_of(Report(reward=1.0, extracted=None)) == {
        "reward": 1.0,
        "accuracy": False,
        "extracted": None,
    }


def test_unknown_fields_are_fields_and_objects_stay_objects() -> None:
    inner = Report(reward=0.0)
    outer = WireModel.model_validate({"of": inner, "_ng_task_index": 1})

    assert fields_of(outer) == {"of": inner, "_ng_task_index": 1}
    assert fields_of(outer)["of"] is inner


def test_objects_inside_plain_values_are_encoded_without_invented_fields() -> None:
    row = {"list": [Report(reward=1.0)], 3: "whole numbers are keys too"}

    assert json.loads(encode_json(row)) == {
        "list": [{"reward": 1.0}],
        "3": "whole numbers are keys too",
    }


def test_not_a_number_becomes_null() -> None:
    assert encode_json({"x": float("nan")}) == b'{"x":null}'


def test_what_is_no_json_says_its_type() -> None:
    with pytest.raises(TypeError, match=r"not JSON serializable|set is not JSON"):
        encode_json({"tags": {1, 2}})


COUNTS = st.integers(0, 10**6)
USAGES = st.builds(
    lambda i, o, c, r: Usage.model_validate(
        {
            "input_tokens": i,
            "input_tokens_details": {"cached_tokens": c},
            "output_tokens": o,
            "output_tokens_details": {"reasoning_tokens": r},
            "total_tokens": i + o,
        }
    ),
    COUNTS,
    COUNTS,
    COUNTS | st.none(),
    COUNTS | st.none(),
)


@given(USAGES, USAGES)
def test_usage_adds_up_field_by_field(one: Usage, other: Usage) -> None:
    total = add_usage(one, other)

    assert total == add_usage(other, one)
    assert total is not None
    assert total.total_tokens == one.total_tokens + other.total_tokens
    counts = [usage.input_tokens_details.cached_tokens for usage in (one, other)]
    cached = None if None in counts else sum(filter(None, counts))
    assert total.input_tokens_details.cached_tokens == cached


def test_usage_is_unknown_only_when_no_turn_knew_it() -> None:
    known = Usage(input_tokens=1, output_tokens=2, total_tokens=3)

    assert add_usage(None, None) is None
    assert add_usage(known, None) == add_usage(None, known) == known


def test_only_scored_rollouts_have_a_reward() -> None:
    assert {outcome for outcome in Outcome if outcome.has_reward} == {
        Outcome.SCORED,
        Outcome.TRUNCATED,
    }

"""What passes as a row."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import validator_for

from palestra.datasets import RowProblems
from palestra.datasets.row_checks import PLAIN_REQUEST, RowCheck
from palestra.errors import InputDataError
from palestra.schema import Line, ResponseCreateParams

ANY = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
WHOLE = st.sampled_from([None, 0, 3, 2.0, 2.5, 1e300, 2**53, 2**70, True, "4", -(2**62)])
WORD = st.sampled_from(
    ["message", "function_call", "function_call_output", "reasoning", "input_text", "input_image",
     "output_text", "refusal", "function", "user", "assistant", "other", "", None, 5]
)  # fmt: skip
PART = st.dictionaries(
    st.sampled_from(["type", "text", "image_url", "detail", "annotations", "refusal"]),
    WORD | ANY | st.just([]),
)
ITEM = st.dictionaries(
    st.sampled_from(
        ["type", "role", "content", "name", "arguments", "call_id", "output", "id", "status"]
    ),
    WORD | ANY | st.lists(PART, max_size=2),
)
TOOL = st.dictionaries(
    st.sampled_from(["type", "name", "parameters", "strict", "description"]),
    WORD | ANY | st.just({}),
)
NAMES = sorted(ResponseCreateParams.model_fields)
PARAMS = st.builds(
    lambda given, others: {**others, **given},
    st.fixed_dictionaries(
        {"input": st.text(max_size=2) | st.lists(ITEM, max_size=3) | ANY},
        optional={"tools": st.lists(TOOL, max_size=2) | ANY, "max_output_tokens": WHOLE},
    ),
    st.dictionaries(
        st.sampled_from(NAMES), ANY | WHOLE | st.just({}) | st.just([]) | st.just(["x"]), max_size=3
    ),
)
PLAIN = validator_for(PLAIN_REQUEST)


@given(PARAMS)
def test_a_request_that_passes_as_plain_is_one_of_the_model(params: dict[str, Any]) -> None:
    if PLAIN.is_valid(params):
        ResponseCreateParams.model_validate(params)


def test_ordinary_requests_pass_as_plain() -> None:
    tool = {"type": "function", "name": "f", "parameters": {}, "strict": True}
    call = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"}
    output = {"type": "function_call_output", "call_id": "1", "output": "3"}
    parts = [{"type": "input_text", "text": "x"}]
    user = {"role": "user", "content": parts}

    assert PLAIN.is_valid({"input": "x", "temperature": 1.0, "max_output_tokens": 5})
    assert PLAIN.is_valid({"input": [user, call, output], "tools": [tool]})


METADATA = st.dictionaries(
    st.sampled_from(["note", "extra_body", "chat_template_kwargs"]), ANY | st.just({}), max_size=2
)


@given(METADATA)
def test_a_row_passes_if_and_only_if_it_has_no_problem(metadata: dict[str, Any]) -> None:
    row = {"responses_create_params": {"input": "x", "metadata": metadata}}
    problems = list(RowCheck().problems(Line(1, row)))

    assert RowCheck().passes(row) == (not problems)
    assert all("/metadata/" in problem for problem in problems)


def refusal_of(*rows: dict[str, Any]) -> str:
    """The message about these rows, which are the lines of `t.jsonl`."""
    check, problems = RowCheck(), RowProblems()
    for number, row in enumerate(rows, start=1):
        assert not check.passes(row)
        for problem in check.problems(Line(number, row)):
            problems.add(Path("t.jsonl"), number, problem)
    with pytest.raises(InputDataError) as caught:
        problems.raise_if_any()
    return caught.value.message


def row_with(**params: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "q", **params}}


def test_the_value_that_a_field_refuses_is_quoted() -> None:
    assert refusal_of(row_with(tools="add")).endswith('should be a valid list, got "add"')


def test_rows_that_are_bad_in_the_same_way_are_one_problem_with_the_first_value() -> None:
    message = refusal_of(row_with(temperature="warm"), row_with(temperature="hot"))

    assert "lines 1-2: /responses_create_params/temperature" in message
    assert message.endswith(', such as "warm"')


def test_a_long_value_is_cut() -> None:
    assert refusal_of(row_with(tools="a" * 1000)).endswith(f'got "{"a" * 59}…')


@pytest.mark.parametrize("key", ["response_create_params", "responses_create_param"])
def test_a_misspelt_key_of_the_request_is_named(key: str) -> None:
    message = refusal_of({key: {"input": "q"}})

    assert message.endswith(f"no `responses_create_params`; {key!r} is its nearest key")


def test_a_misspelt_key_of_the_agent_is_named() -> None:
    message = refusal_of({**row_with(), "agent_reff": {"name": "a"}})

    assert message.endswith("no `agent_ref`; 'agent_reff' is its nearest key")


def test_a_field_with_a_similar_name_that_names_no_agent_is_the_rows_own() -> None:
    assert RowCheck().passes({**row_with(), "agent_refs": ["a"]})

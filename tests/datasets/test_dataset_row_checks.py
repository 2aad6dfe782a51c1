"""What passes as a row."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import validator_for

from palestra.datasets.row_checks import PLAIN_REQUEST, RowCheck
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

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.responses_api_models.local_model.mending import WrittenCall, read_calls, write_call

PARIS = WrittenCall("get_weather", '{"city": "Paris"}')
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def test_a_call_is_taken_out_of_the_text_around_it() -> None:
    text = f"I will look.\n{write_call(PARIS)}\nOne moment."

    assert read_calls(text) == (
        "I will look.\n\nOne moment.",
        [WrittenCall("get_weather", '{"city":"Paris"}')],
    )


def test_several_calls_keep_their_order() -> None:
    text = write_call(WrittenCall("a", "{}")) + write_call(WrittenCall("b", "{}"))

    assert read_calls(text) == ("", [WrittenCall("a", "{}"), WrittenCall("b", "{}")])


def test_one_block_may_hold_a_list_of_calls() -> None:
    text = '<tool_call>[{"name": "a", "arguments": {"x": 1}}, {"name": "b"}]</tool_call>'

    assert read_calls(text) == ("", [WrittenCall("a", '{"x":1}'), WrittenCall("b", "{}")])


def test_arguments_written_as_text_stay_that_text() -> None:
    text = '<tool_call>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool_call>'

    assert read_calls(text)[1] == [WrittenCall("a", '{"x": 1}')]


@pytest.mark.parametrize(
    "text",
    [
        "no call at all ",
        '<tool_call>\n{"name": "a", "argum',
        '<tool_call>{"name": "a", "arguments": {"x": ...}}</tool_call>',
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>{"name": ""}</tool_call>',
        '<tool_call>["a"]</tool_call>',
        "<tool_call></tool_call>",
    ],
)
def test_what_is_no_call_stays_text_word_for_word(text: str) -> None:
    assert read_calls(text) == (text, [])


def test_a_broken_call_beside_a_good_one_stays_text() -> None:
    broken = "<tool_call>{oops}</tool_call>"

    rest, calls = read_calls(broken + write_call(PARIS))

    assert rest == broken
    assert [call.name for call in calls] == ["get_weather"]


@pytest.mark.slow
@given(
    calls=st.lists(
        st.tuples(st.text(min_size=1), st.dictionaries(st.text(), JSON)), min_size=1, max_size=3
    )
)
def test_what_is_written_is_read_back(calls: list[tuple[str, dict[str, Any]]]) -> None:
    written = [WrittenCall(name, orjson.dumps(arguments).decode()) for name, arguments in calls]
    text = "\n".join(write_call(call) for call in written)

    # A value that holds the closing tag itself cannot be told apart: the model's own problem.
    if text.count("</tool_call>") == len(written):
        assert read_calls(text) == ("", written)

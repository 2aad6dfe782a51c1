"""Text of the report: hidden characters shown, markup escaped, transcripts cut to length."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.analysis.report.markup import Markup, data_block, tag, visible, visible_line
from palestra.analysis.report.transcript import (
    ENTRY_CHARACTERS,
    TRANSCRIPT_CHARACTERS,
    prompt,
    question,
    result_fields,
    snippets,
    transcript,
)

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("\x00", "␀"),
        ("\x1b[31m", "␛[31m"),
        ("\x7f", "␡"),
        ("\r\n", "\n"),
        ("\r", "␍"),
        ("\x9b", "⟨U+009B⟩"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("\u2066", "⟨U+2066⟩"),
        ("\u200b", "⟨U+200B⟩"),
        ("\u2028", "⟨U+2028⟩"),
        ("\ufeff", "⟨U+FEFF⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
    ],
)
def test_hidden_characters_are_spelled_out(hidden: str, shown: str) -> None:
    assert visible(hidden) == shown


@pytest.mark.parametrize("text", ["plain\n\ttext", "naïve 数学", "👩\u200d🔬", "עברית"])
def test_writing_of_all_kinds_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@given(ANY_TEXT)
def test_what_is_visible_can_be_encoded_and_is_visible_again(text: str) -> None:
    shown = visible(text)

    assert shown.encode().decode() == shown
    assert visible(shown) == shown


def test_a_long_name_becomes_one_short_line() -> None:
    assert visible_line("a\n  b\tc" + "d" * 50, 8) == "a b cdd…"


@given(ANY_TEXT)
def test_text_never_becomes_markup(text: str) -> None:
    element = tag("p", text, title=text)

    assert element.count("<") == element.count(">") == 2
    assert element.count('"') == 2


def test_only_markup_built_here_is_markup() -> None:
    assert tag("b", tag("i", "&"), None, 3, hidden=True, lang=None) == "<b hidden><i>&amp;</i>3</b>"
    assert isinstance(tag("br"), Markup)


@given(ANY_TEXT)
def test_a_data_block_holds_any_text_and_ends_where_it_should(text: str) -> None:
    value = {"text": visible(text + "</script><!--<script>")}
    block = data_block("x", value)
    inside = block.removeprefix('<script type="application/json" id="x">').removesuffix("</script>")

    assert json.loads(inside) == value
    assert not set(inside) & set("<>&\u2028\u2029")


def said(*items: object) -> list[list[object]]:
    return transcript({"response": {"output": list(items)}})


def test_a_transcript_says_who_said_what() -> None:
    parts = [{"type": "output_text", "text": "four"}, {"type": "refusal", "refusal": "no"}]
    assert said(
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "name": "add", "arguments": '{"a": 2}'},
        {"type": "function_call_output", "output": "4"},
        {"type": "message", "role": "assistant", "content": parts},
        {"type": "message", "role": "user", "content": "thanks"},
    ) == [
        ["reasoning", "", "hm"],
        ["call", "add", '{"a": 2}'],
        ["result", "", "4"],
        ["assistant", "", "four\n\nno"],
        ["user", "", "thanks"],
    ]


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ({}, []),
        ({"response": None}, []),
        ({"response": {"output": "text"}}, [["assistant", "", "text"]]),
        ({"response": {"output": [7]}}, [["other", "", "7"]]),
        ({"response": {"output": [{"type": "new", "x": 1}]}}, None),
        ({"response": {"output": [{"role": ["odd"], "content": 1.5}]}}, [["other", "", "1.5"]]),
    ],
)
def test_rows_of_any_shape_have_a_transcript(row: object, shown: object) -> None:
    found = transcript(row)

    assert found == (shown or found)


def test_a_long_text_loses_its_middle_and_says_so() -> None:
    text = "a" * ENTRY_CHARACTERS + "tail"
    ((kind, _, head, omitted, tail),) = said({"role": "assistant", "content": text})

    assert kind == "assistant"
    assert len(head) + omitted + len(tail) == len(text)
    assert tail.endswith("tail")


def test_a_long_transcript_keeps_its_two_ends_and_counts_the_rest() -> None:
    messages = [{"role": "user", "content": str(at) * 1000} for at in range(100, 200)]
    found = said(*messages)
    gap = next(entry for entry in found if len(entry) == 1)

    assert sum(len(entry[2]) for entry in found if len(entry) > 1) <= TRANSCRIPT_CHARACTERS
    assert found[0][2].startswith("100")
    assert found[-1][2].startswith("199")
    assert len(found) - 1 + gap[0] == 100


def test_the_prompt_is_found_in_both_of_its_shapes() -> None:
    as_text = {"responses_create_params": {"input": "2 + 2?", "instructions": "Be brief."}}
    as_list = {"responses_create_params": {"input": [{"role": "user", "content": "2 + 2?"}]}}

    assert prompt(as_text) == [["system", "", "Be brief."], ["user", "", "2 + 2?"]]
    assert prompt(as_list) == [["user", "", "2 + 2?"]]
    assert question(as_list) == "2 + 2?"
    assert question({}) == ""


def test_prompts_of_a_template_start_where_they_differ() -> None:
    template = "Extract name, age and city of the text as a JSON object. Answer only with JSON. "
    questions = [template + "Ann is 31.", template + "Another text.", "What is 2 + 2?"]

    assert snippets(questions) == ["… Ann is 31.", "… Another text.", "What is 2 + 2?"]


def test_prompts_that_are_all_the_same_are_shown_from_their_beginning() -> None:
    text = "Write a poem about the sea, and let no line have the letter e."

    assert snippets([text, text]) == [text, text]


def test_the_parts_of_a_reward_are_fields_of_their_own() -> None:
    row = {"reward": 1.1, "reward_components": {"state": 1.0, "polite": 0.1}}

    assert result_fields(row) == [
        ["reward_components.polite", "0.1"],
        ["reward_components.state", "1.0"],
    ]


def test_result_fields_come_by_name_without_what_is_shown_elsewhere() -> None:
    response = {"output": [], "incomplete_details": {"reason": "max_output_tokens"}}
    row = {"response": response, "reward": 1.0, "_ng_task_index": 3, "b": [1], "a": "x\x00"}

    assert result_fields(row) == [
        ["a", "x␀"],
        ["b", "[1]"],
        ["response.incomplete_details", '{"reason": "max_output_tokens"}'],
    ]

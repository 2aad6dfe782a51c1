import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palestra.responses_api_models.chat import split_thinking, wrap_thinking


@pytest.mark.parametrize(
    ("text", "blocks", "answer"),
    [
        ("plain", [], "plain"),
        ("<think>a</think>b", ["a"], "b"),
        ("<think>\na\n</think>\n\nb ", ["\na\n"], "\n\nb "),
        ("<think>a</think>x<think>b</think>y", ["a", "b"], "xy"),
        ("a</think>b", ["a"], "b"),
        ("a</think>b<think>c</think>d", ["a", "c"], "bd"),
        ("<think>cut off", ["cut off"], ""),
        ("x<think>a</think>y<think>cut", ["a", "cut"], "xy"),
        ("<think></think>", [""], ""),
        ("", [], ""),
    ],
)
def test_thinking_is_told_from_the_answer(text: str, blocks: list[str], answer: str) -> None:
    assert split_thinking(text) == (blocks, answer)


@settings(deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_characters="<"))),
    st.text(st.characters(exclude_characters="<")),
)
def test_what_is_wrapped_comes_apart_again(blocks: list[str], answer: str) -> None:
    assert split_thinking(wrap_thinking(blocks) + answer) == (blocks, answer)


@settings(deadline=None)
@given(st.text())
def test_no_text_is_lost_whatever_the_tags(text: str) -> None:
    tagged = text.replace("a", "<think>").replace("b", "</think>")

    blocks, answer = split_thinking(tagged)

    kept = sum(map(len, blocks)) + len(answer)
    assert len(tagged) - kept <= tagged.count("<think>") * 7 + tagged.count("</think>") * 8

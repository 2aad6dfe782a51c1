"""Rows are split into items and ranges of texts, whatever they hold."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palestra.errors import InputDataError
from palestra.viewer.index import SplitItem, SplitRow, split_item

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "role", "content", "text", "output", "summary", "image_url"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def row(output: Any, **params: Any) -> bytes:
    return json.dumps({"responses_create_params": params, "response": {"output": output}}).encode()


def message(content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": content}


def items_of(data: bytes) -> list[SplitItem]:
    return [
        split_item(raw, number=number, section=section, role=role)
        for number, (section, role, raw) in enumerate(SplitRow(data).raws())
    ]


def whole_text(data: bytes, number: int, part: int = 0, *, length: int) -> str:
    texts, start = [], 0
    while True:
        text = SplitRow(data).texts(number)[part].range(start, length)
        texts.append(text.text)
        if text.next is None:
            return "".join(texts)
        start = text.next


@example("\ud83d" * 9, 30, True)
@given(
    st.text(alphabet=st.sampled_from('\\"\n\x00ué😀\ud83dx'), max_size=40),
    st.integers(1, 30),
    st.booleans(),
)
def test_the_ranges_of_a_text_make_the_text(text: str, length: int, is_ascii: bool) -> None:
    text = text if is_ascii else text.encode("utf-8", "replace").decode()
    content = {"response": {"output": [message(text)]}}
    data = json.dumps(content, ensure_ascii=is_ascii).encode()

    joined = whole_text(data, 0, length=length)

    # halves of a pair that were apart are one character again, as any reader of JSON takes them
    assert joined.encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")


@given(st.text(alphabet='\\"ué😀', max_size=40), st.integers(0, 300))
def test_any_start_is_moved_between_characters(text: str, start: int) -> None:
    data = row([message(text)])

    [whole] = SplitRow(data).texts(0)
    part = whole.range(start, 10_000)

    assert text.endswith(part.text)


@given(JSON, JSON)
def test_any_row_has_an_outline(output: Any, prompt: Any) -> None:
    data = row(output, input=prompt)

    split = SplitRow(data)

    for item in items_of(data):
        assert item.size == len(bytes(split.raw(item.number)))
        assert all(
            text.head == whole_text(data, item.number, at, length=10**6)[:200]
            for at, text in enumerate(item.texts)
        )


def test_items_have_their_kinds_names_and_texts() -> None:
    items = [
        {"type": "reasoning", "summary": [{"text": "hm"}]},
        {"type": "function_call", "name": "add", "call_id": "c", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "3"},
        message(
            [{"type": "output_text", "text": "three"}, {"type": "input_image", "image_url": "u"}]
        ),
        {"type": "new", "field": 1},
    ]
    shown = items_of(row(items, input="how much?", instructions="Be brief"))

    assert [(i.section, i.kind, i.role, i.name) for i in shown[:4]] == [
        ("prompt", "message", "system", ""),
        ("prompt", "message", "user", ""),
        ("output", "reasoning", "", ""),
        ("output", "function_call", "", "add"),
    ]
    assert [[(text.kind, text.head) for text in item.texts] for item in shown[2:]] == [
        [("reasoning", "hm")],
        [("arguments", "{}")],
        [("output", "3")],
        [("text", "three"), ("image", "u")],
        [("json", '{"type": "new", "field": 1}')],
    ]


def test_an_item_that_is_not_there_is_an_error() -> None:
    split = SplitRow(row([message("a")]))

    for number in (1, -1):
        with pytest.raises(InputDataError):
            split.raw(number)

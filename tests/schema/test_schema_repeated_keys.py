"""A key that an object has twice: found wherever it is, and never where it is not."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.schema import read_jsonl, repeated_key

REPEATED = {
    '{"q": 1, "a": 2, "q": 3}': "/q",
    '{"q": {"a": 1, "a": 1}}': "/q/a",
    '[{}, {"m": [{"x:y": 1, "x:y": 2}]}]': "/1/m/0/x:y",
    '{"a": "\\u003a", "b": 1, "b": 2}': "/b",
    '{"\\u0061": 1, "a": 2}': "/a",
}
PLAIN = (
    '{"q": "a: b", "a" : {"q": ":"}}',
    '[{"q": 1}, {"q": 1}]',
    '{"a": "\\u003a\\u003A", "b\\"": "x\\": y"}',
    "[" * 300 + "]" * 300,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('a:"\\\u00e9', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("a:\\", max_size=2), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(("text", "pointer"), REPEATED.items())
def test_a_repeated_key_is_found(text: str, pointer: str) -> None:
    assert repeated_key(text.encode(), orjson.loads(text)) == pointer


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_there_once_is_not_repeated(text: str) -> None:
    assert repeated_key(text.encode(), orjson.loads(text)) == ""


@given(VALUES, st.booleans())
def test_no_key_of_a_written_value_is_repeated(value: Any, as_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=as_ascii)

    assert repeated_key(text.encode(), orjson.loads(text)) == ""


def test_a_line_with_a_repeated_key_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"q": 1}\n{"q": 1, "m": {"a": 1, "a": 2}}\n')

    first, second = read_jsonl(path)

    assert first.row == {"q": 1}
    assert (second.number, second.row, second.error) == (2, None, "the key /m/a is there twice")

"""What the index takes of a response: the end of the answer, turns, and tool calls."""

import json
from typing import Any

import msgspec
import pytest

from palestra.viewer.index.responses import IndexedObject, digest_of

PARTS = [{"type": "output_text", "text": "one"}, {"type": "refusal"}, {"text": "two"}]


def message(content: Any, role: str = "assistant") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def decoded(items: Any) -> IndexedObject:
    row = json.dumps({"output": items})
    return msgspec.json.decode(row, type=IndexedObject)


@pytest.mark.parametrize(
    ("items", "answer"),
    [
        ([message("plain")], "plain"),
        ([message(PARTS)], "one\ntwo"),
        ([message(["bare", {"text": 7}, None])], "bare"),
        ([message("first"), message(""), message("asked", "user")], "first"),
        ([message([{"text": '\U0001f600"\n\\' * 9_000}])], ('\U0001f600"\n\\' * 9_000)[-200:]),
        ([message([{"text": "ä" * 9_000}, {"text": "b"}])], "ä" * 198 + "\nb"),
        ([message([{"text": ["x" * 9_000]}])], ""),
        ("only a text", "only a text"),
        ([], ""),
    ],
)
def test_the_answer_is_the_end_of_the_last_message_with_text(items: Any, answer: str) -> None:
    assert digest_of(decoded(items)).answer == answer


@pytest.mark.parametrize("content", [{"text": "x"}, 3, [["y"]], "\ud800", [{"text": "\ud800"}]])
def test_what_only_pythons_json_reads_has_the_same_digest(content: Any) -> None:
    call = {"type": "function_call", "name": "search"}
    items: list[Any] = [call, message("before"), message(content)]
    digest = digest_of(IndexedObject(output=items))

    assert (digest.turns, digest.calls, digest.tools) == (1, 1, "\x1fsearch\x1f")
    assert digest.answer in {"before", "\ud800"}


def test_a_type_that_is_no_text_is_no_turn_of_the_model() -> None:
    assert digest_of(decoded([{"type": ["function_call"]}, {"type": "reasoning"}])).turns == 1

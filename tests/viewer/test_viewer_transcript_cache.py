"""A row is split once while its file stays as it is; its items are then read alone."""

import json
import os
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from indexed_runs import indexed
from viewer_world import viewing

from palestra.viewer.conversation import Transcript
from palestra.viewer.index import IndexedPlace, RowPieces, SplitRow
from palestra.viewer.transcript_cache import TranscriptCache

LONG_AGO = 1_700_000_000
ITEM = "/api/r/RUN/t/0/0/item"
TEXT = st.text(alphabet=st.sampled_from('aé😀"\\\ud83d'), max_size=8)


def row(*texts: str, task: int = 0, **fields: Any) -> bytes:
    output = [
        {"type": "message", "role": "assistant", "content": text, "call_id": f"{task}-{number}"}
        for number, text in enumerate(texts)
    ]
    key = {"_ng_task_index": task, "_ng_rollout_index": 0}
    head = {"responses_create_params": {"input": "how much?"}, "reward": 1.0}
    return json.dumps(key | head | {"response": {"output": output}} | fields).encode() + b"\n"


def write(path: Path, *rows: bytes, modified_s: int = LONG_AGO) -> Path:
    """Write a file in place, with the time of a write that is long past."""
    path.write_bytes(b"".join(rows))
    os.utime(path, (modified_s, modified_s))
    return path


def place(path: Path) -> IndexedPlace:
    """The place of the only row of a file."""
    return IndexedPlace(path, 0, path.stat().st_size - 1, 1)


def texts(talk: Transcript) -> list[str]:
    return [text for _, text in talk.texts(talk.items)]


def replace(path: Path, *rows: bytes) -> None:
    write(path.with_suffix(".new"), *rows).replace(path)


def write_again(path: Path, *rows: bytes) -> None:
    write(path, *rows, modified_s=LONG_AGO + 1)


def test_the_second_request_of_an_item_answers_the_same(tmp_path: Path) -> None:
    output = write(tmp_path / "rollouts.jsonl", row("one", "two"))
    with viewing(output, cache=tmp_path / "cache") as world:
        path = f"{ITEM.replace('RUN', world.run_id)}?at=2"

        first, second = world.ask(path), world.ask(path)

    assert first.body == second.body
    assert json.loads(first.body)["text"] == "two"


def test_a_page_of_an_outline_has_only_its_items(tmp_path: Path) -> None:
    numbers = [str(number) for number in range(700)]
    output = write(tmp_path / "rollouts.jsonl", row(*numbers))
    with viewing(output, cache=tmp_path / "cache") as world:
        page = world.get("/api/r/RUN/t/0/0/outline", start=600)

    assert page["total"] == 701
    assert [item["head"] for item in page["items"]] == numbers[599:]


def test_a_row_is_split_once(tmp_path: Path) -> None:
    output = write(tmp_path / "rollouts.jsonl", row("one"))
    cache = TranscriptCache()
    with indexed(output, tmp_path / "cache") as snapshot:
        assert cache.of(snapshot, 0) is cache.of(snapshot, 0)


@pytest.mark.parametrize("change", [replace, write_again])
def test_a_changed_row_of_the_same_length_is_not_answered_from_the_old(
    tmp_path: Path, change: Callable[..., None]
) -> None:
    old, new = row("one", "two"), row("three", note="")
    new = row("three", note="x" * (len(old) - len(new)))
    output = write(tmp_path / "rollouts.jsonl", old)
    with indexed(output, tmp_path / "cache") as snapshot:
        cache = TranscriptCache()
        assert texts(cache.of(snapshot, 0)) == ["how much?", "one", "two"]

        change(output, new)

        assert texts(cache.of(snapshot, 0)) == ["how much?", "three"]


def test_a_row_that_changes_while_a_page_reads_it_is_read_whole(tmp_path: Path) -> None:
    output = write(tmp_path / "rollouts.jsonl", row("long text", "b", note="no"))
    pieces, _ = RowPieces.split(place(output))

    write_again(output, row("a", "long text", note="ok"))

    assert json.loads(bytes(pieces.items([1])[0]))["content"] == "a"
    fields = pieces.fields(without=frozenset({"response"}), most_bytes=100)
    assert bytes(fields["note"]) == b'"ok"'


def test_a_row_that_may_still_change_unseen_is_not_kept(tmp_path: Path) -> None:
    output = tmp_path / "rollouts.jsonl"
    output.write_bytes(row("one"))
    cache = TranscriptCache()
    with indexed(output, tmp_path / "cache") as snapshot:
        cache.of(snapshot, 0)

    assert cache.memory_bytes == 0


def test_the_memory_of_all_conversations_is_bounded(tmp_path: Path) -> None:
    rows = [row(*["text"] * 20, task=task) for task in range(10)]
    output = write(tmp_path / "rollouts.jsonl", *rows, row(*["text"] * 400, task=10))
    cache = TranscriptCache(most_bytes=100_000)
    with indexed(output, tmp_path / "cache") as snapshot:
        for number in range(10):
            last = cache.of(snapshot, number)
            assert 0 < cache.memory_bytes <= 100_000
        too_large = cache.of(snapshot, 10)

        assert too_large.memory_bytes > 100_000 > cache.memory_bytes
        assert cache.of(snapshot, 9) is last


def test_a_conversation_takes_no_more_memory_than_it_says(tmp_path: Path) -> None:
    output = write(tmp_path / "rollouts.jsonl", row(*["text"] * 2_000))
    talk = Transcript([place(output)], "scored")
    tracemalloc.start()
    try:
        assert len(talk.items) - len(talk.turns) - len(talk.pairs) == 1
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert taken <= talk.memory_bytes


@given(st.lists(TEXT, max_size=4), st.floats(), st.booleans())
def test_pieces_are_those_of_the_row(words: list[str], score: float, is_ascii: bool) -> None:
    data = json.loads(row(*words)) | {"score": score}
    data["response"]["log_prob"] = score
    text = json.dumps(data, ensure_ascii=is_ascii).encode("utf-8", "replace")
    split = SplitRow(text)

    with tempfile.TemporaryDirectory() as folder:
        pieces, _ = RowPieces.split(place(write(Path(folder, "rollouts.jsonl"), text, b"\n")))
        numbers = list(range(len(split)))
        raws = pieces.items(numbers)
        fields = pieces.fields(without=frozenset({"reward"}), most_bytes=40)

    assert [bytes(raw) for raw in raws] == [bytes(split.raw(number)) for number in numbers]
    assert {name: bytes(raw) for name, raw in fields.items()} == {
        name: bytes(raw)
        for name, raw in split.fields.items()
        if name != "reward" and len(bytes(raw)) <= 40
    }

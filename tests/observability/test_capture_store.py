"""The capture files of rollouts."""

import threading
from pathlib import Path

import pytest

from palestra.observability import CaptureStore, TokenStore, clear_capture


def test_lines_come_back_in_the_order_in_which_they_were_recorded(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path / "new" / "folder")

    store.record("0-1", {"number": 1})
    store.record("0-1", {"number": 2})

    assert store.read("0-1") == [{"number": 1}, {"number": 2}]
    assert store.path_for("0-1") == tmp_path / "new" / "folder" / "0-1.capture.jsonl"


def test_a_rollout_without_a_file_has_no_calls(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)

    assert store.read("7-0") == []
    assert store.read_available("7-0") == ([], 0)


@pytest.mark.parametrize("rollout_id", ["", "a/b", "a b", "é", "../x"])
def test_an_id_with_other_characters_is_refused(tmp_path: Path, rollout_id: str) -> None:
    with pytest.raises(ValueError, match="rollout id"):
        CaptureStore(tmp_path).path_for(rollout_id)


def test_a_damaged_line_is_an_error_or_counted_and_others_keep_their_index(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    store.record("0-0", {"number": 0})
    with store.path_for("0-0").open("ab") as file:
        file.write(b'{"torn": \n[1]\n')
    store.record("0-0", {"number": 3})

    with pytest.raises(ValueError, match="line 2"):
        store.read("0-0")
    assert store.read_available("0-0") == ([(0, {"number": 0}), (3, {"number": 3})], 2)


def test_half_a_line_of_a_killed_writer_does_not_swallow_the_next(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    store.path_for("0-0").write_bytes(b'{"torn": 1')

    store.record("0-0", {"number": 1})

    assert store.read_available("0-0") == ([(1, {"number": 1})], 1)


def test_writers_at_the_same_time_do_not_mix_their_lines(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    threads = [
        threading.Thread(target=store.record, args=("0-0", {"number": n, "text": "x" * 20_000}))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(line["number"] for line in store.read("0-0")) == list(range(8))


def test_a_rollout_can_be_marked_as_incomplete(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    assert not store.is_incomplete("0-0")

    store.mark_incomplete("0-0")

    assert store.is_incomplete("0-0")
    assert store.incomplete_path_for("0-0").name == "0-0.capture.incomplete"


def test_clearing_removes_all_files_of_one_rollout(tmp_path: Path) -> None:
    store, tokens = CaptureStore(tmp_path), TokenStore(tmp_path)
    for rollout_id in ("0-0", "0-1"):
        store.record(rollout_id, {})
        store.mark_incomplete(rollout_id)
        tokens.record(rollout_id, {})

    clear_capture(tmp_path, "0-0")

    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"0-1.capture.jsonl", "0-1.capture.incomplete", "0-1.tokens.jsonl"}

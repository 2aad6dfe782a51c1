"""Reading rows from disk, also from files that a kill left behind."""

import bz2
import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packers import zstd
from palestra.schema import Line, RolloutKey, key_of, read_jsonl


def lines_of(tmp_path: Path, content: bytes) -> list[Line]:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    return list(read_jsonl(path))


def test_blank_lines_are_skipped_and_still_counted(tmp_path: Path) -> None:
    found = lines_of(tmp_path, b'{"a":1}\n\n  \t\n{"a":2}\n\n')

    assert [(line.number, line.row) for line in found] == [(1, {"a": 1}), (4, {"a": 2})]


def test_a_last_line_without_its_line_break_is_torn_when_it_is_no_json(tmp_path: Path) -> None:
    *whole, last = lines_of(tmp_path, b'{"a":1}\n{"a":')

    assert [line.row for line in whole] == [{"a": 1}]
    assert last.torn
    assert last.number == 2
    assert last.error


def test_a_last_line_without_its_line_break_counts_when_it_is_whole(tmp_path: Path) -> None:
    assert lines_of(tmp_path, b'{"a":1}') == [Line(1, {"a": 1}, ended=False)]


def test_a_bad_line_in_the_middle_is_not_torn_and_does_not_end_the_file(tmp_path: Path) -> None:
    first, bad, last = lines_of(tmp_path, b'{"a":1}\n{"a":\n{"a":3}\n')

    assert (first.row, last.row) == ({"a": 1}, {"a": 3})
    assert bad.row is None
    assert bad.error
    assert not bad.torn


def test_an_empty_file_has_no_lines_and_a_missing_one_raises(tmp_path: Path) -> None:
    assert lines_of(tmp_path, b"") == []
    with pytest.raises(FileNotFoundError):
        list(read_jsonl(tmp_path / "absent.jsonl"))


ROWS = st.lists(st.dictionaries(st.text(), st.integers(0, 9) | st.text()), min_size=1, max_size=5)


@pytest.mark.slow
@given(rows=ROWS, cut=st.integers(1))
def test_a_file_cut_anywhere_loses_only_its_last_row(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]], cut: int
) -> None:
    whole = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    kept = whole[: cut % len(whole)]
    found = lines_of(tmp_path_factory.mktemp("cut"), kept)

    good = [line.row for line in found if not line.error]
    assert good == rows[: len(good)]
    assert len(good) >= kept.count(b"\n")
    assert [line.torn for line in found if line.error] in ([], [True])


def test_a_row_s_key_sorts_by_task_then_rollout_and_reads_well() -> None:
    rows = [{"_ng_task_index": t, "_ng_rollout_index": r} for t, r in ((1, 0), (0, 2), (0, 10))]

    assert sorted(key_of(row) for row in rows) == [(0, 2), (0, 10), (1, 0)]
    assert str(RolloutKey(3, 1)) == "3:1"
    with pytest.raises(KeyError):
        key_of({"_ng_task_index": 1})


def test_objects_over_several_lines_are_one_bad_line_with_the_command_that_converts_them(
    tmp_path: Path,
) -> None:
    row = orjson.dumps({"a": {"b": [1, 2]}}, option=orjson.OPT_INDENT_2)

    [line] = lines_of(tmp_path, row + b"\n" + row + b"\n")

    path = tmp_path / "rows.jsonl"
    assert line.number == 1
    assert f"`jq -c . {path} > {tmp_path / 'rows_lines.jsonl'}` converts it" in line.error


def test_line_ends_of_old_macs_are_one_bad_line_with_the_command_that_converts_them(
    tmp_path: Path,
) -> None:
    [line] = lines_of(tmp_path, b'{"a": 1}\r{"a": 2}\r')

    path = tmp_path / "rows.jsonl"
    assert "the lines end with CR alone" in line.error
    assert rf"`tr '\r' '\n' < {path} > {tmp_path / 'rows_lines.jsonl'}` converts" in line.error


def test_a_lone_brace_on_the_first_line_is_one_of_several_bad_lines(tmp_path: Path) -> None:
    found = lines_of(tmp_path, b'{\n{"a": 1}\nnothing\n{"a": 2}\n')

    assert [line.number for line in found if line.error] == [1, 3]
    assert [line.row for line in found if not line.error] == [{"a": 1}, {"a": 2}]


def test_a_line_that_is_too_long_is_bad_and_the_next_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": "' + b"x" * 100 + b'"}\n{"c": 3}\n')
    first, second, third = read_jsonl(path, most_bytes=20)

    assert (first.row, third.row, third.number) == ({"a": 1}, {"c": 3}, 3)
    assert (second.row, second.error) == (None, "110 bytes; the limit of a row is 20")
    assert second.ended


def test_a_torn_line_that_is_too_long_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"b": "' + b"x" * 100)
    [line] = read_jsonl(path, most_bytes=20)

    assert (line.torn, line.ended) == (True, False)


@pytest.mark.parametrize(
    ("data", "kind"),
    [(bz2.compress(b"{}\n"), "compressed (bzip2)"), ("{}\n".encode("utf-16"), "UTF-16")],
)
def test_a_file_of_another_kind_is_one_bad_line(tmp_path: Path, data: bytes, kind: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(data * 10)
    [line] = read_jsonl(path)

    assert line.error == f"the file is {kind}: JSONL is plain UTF-8 text"


ROWS = b'{"n": 1}\n{"n": 2}\n'


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(ROWS, mtime=0),
        zstd.compress(ROWS),
        b"\xef\xbb\xbf" + ROWS,
        ROWS.replace(b"\n", b"\r\n"),
        gzip.compress(b"\xef\xbb\xbf" + ROWS.replace(b"\n", b"\r\n"), mtime=0),
    ],
    ids=["gzip", "zstd", "byte order mark", "Windows line ends", "all of these"],
)
def test_rows_are_read_however_the_file_was_saved(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(data)

    assert [line.row for line in read_jsonl(path)] == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress], ids=["gzip", "zstd"])
def test_a_compressed_file_that_was_cut_off_cannot_be_read(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(pack(ROWS * 99)[:-9])

    with pytest.raises(OSError, match="incomplete or damaged"):
        list(read_jsonl(path))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"a": "b', "inside the string that begins in column 7"),
        ('{"a": 1, "ü', "inside the string that begins in column 10"),
        ('{"a": 1,', "too early, after column 8"),
        ('{"a": [1', "too early, after column 8"),
    ],
)
def test_a_line_that_is_cut_off_says_where_it_ends(tmp_path: Path, text: str, where: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{text}\n{{}}\n", encoding="utf-8")

    cut, whole = read_jsonl(path)

    assert cut.error.endswith(f"the line ends {where})")
    assert whole.error == ""


def test_a_line_that_is_wrong_before_its_end_keeps_the_parsers_reason(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a" 1}\n')

    (line,) = read_jsonl(path)

    assert "column 6" in line.error
    assert "the line ends" not in line.error


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": NaN}\n', "JSON has no NaN: write null, or leave the field out"),
        (b'{"a": -Infinity}\n', "JSON has no -Infinity: write null, or leave the field out"),
        (b'{"a": "caf\xe9"}\n', "byte 0xe9 at column 11 is not UTF-8; `iconv"),
        (b'{"a": "\xc3\xa9\xe9"}\n', "byte 0xe9 at column 9 is not UTF-8; `iconv"),
    ],
)
def test_a_number_or_a_byte_that_json_lacks_is_named(
    tmp_path: Path, text: bytes, reason: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n' + text)

    _, line = read_jsonl(path)

    assert line.number == 2
    assert line.error.startswith(f"not JSON ({reason}")

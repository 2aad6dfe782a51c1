"""Rows of packed files are read by unpacking their frame alone."""

import gzip
import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from viewer_world import viewing

from listed_runs import answered, write_run
from packers import zstd
from palestra.errors import InputDataError
from palestra.viewer.index import IndexedPlace, RunChanged, RunPart, read_row
from palestra.viewer.index.packed import ENTERED_BYTES, PIECE_BYTES, PackedFrames, PieceReader
from palestra.viewer.index.storage import StoredColumns

PACKERS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".zst": zstd.compress}
BETWEEN = {".gz": bytes(512), ".zst": b"\x50\x2a\x4d\x18\x04\x00\x00\x00seek"}
"""What may stand between frames: padding of gzip, a frame of zstd that readers skip."""
SMALL, LARGE = 300_000, ENTERED_BYTES + 3 * PIECE_BYTES // 2
LAYOUTS = {
    "many small": [SMALL] * 12,
    "one": [SMALL],
    "one large": [LARGE],
    "mixed": [SMALL, LARGE, 1, 0, SMALL, LARGE, LARGE, PIECE_BYTES, ENTERED_BYTES],
}

pytestmark = pytest.mark.parametrize("suffix", list(PACKERS))


@contextmanager
def pieces(path: Path, **options: Any) -> Iterator[tuple[PackedFrames, int]]:
    """The pieces of a packed file, and the size of their copies."""
    columns = StoredColumns(None)
    reader = PieceReader(path, columns, "x", **options)
    while reader.read(PIECE_BYTES // 3):
        pass
    reader.close()
    assert reader.copies
    states = columns.states
    copies = states["x.copies"].size if "x.copies" in states else 0
    views = [columns.view(f"x.{n}", "int64", states[f"x.{n}"].size) for n in COLUMNS]
    heap = columns.view("x.copies", "uint8", copies)
    yield PackedFrames(path, heap, *views), copies


COLUMNS = ("starts", "offsets", "sizes")


def packed(path: Path, sizes: Sequence[int]) -> bytes:
    """Write a file with frames of these sizes; returns what is packed in it."""
    generator = random.Random(7)
    data = b"".join(generator.randbytes(16) * 4 for _ in range(sum(sizes) // 64 + 1))
    frames, start = [], 0
    for size in sizes:
        frames.append(PACKERS[path.suffix](data[start : start + size]))
        start += size
    path.write_bytes(BETWEEN[path.suffix].join(frames))
    return data[:start]


@pytest.mark.slow
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_any_part_of_a_packed_file_is_read(tmp_path: Path, suffix: str, layout: str) -> None:
    path = tmp_path / f"rows{suffix}"
    data = packed(path, LAYOUTS[layout])
    generator = random.Random(1)
    with pieces(path) as (frames, _):
        for _ in range(40):
            start = generator.randrange(len(data))
            count = min(generator.choice([0, 1, 900, PIECE_BYTES, 3 * SMALL]), len(data) - start)
            assert frames.read(start, count) == data[start : start + count]
        assert frames.read(0, len(data)) == data
        with pytest.raises(InputDataError):
            frames.read(len(data) - 1, 2)


def test_small_frames_are_not_copied_and_large_ones_are(tmp_path: Path, suffix: str) -> None:
    small, large = tmp_path / f"small{suffix}", tmp_path / f"large{suffix}"
    packed(small, LAYOUTS["many small"])
    packed(large, [SMALL, SMALL, LARGE])
    with pieces(small) as (frames, copies):
        assert (copies, len(frames.starts)) == (0, 3)
        assert max(frames.sizes) < small.stat().st_size / 2
    with pieces(large) as (frames, copies):
        assert copies > 0
        assert frames.starts[frames.sizes < 0].min() == 2 * SMALL


@pytest.mark.slow
def test_one_frame_beyond_the_limit_names_what_to_unpack(tmp_path: Path, suffix: str) -> None:
    path, offset = tmp_path / f"rows.jsonl{suffix}", 65 << 20
    path.write_bytes(PACKERS[suffix](bytes(offset) + b"row\n"))
    reader = PieceReader(path, StoredColumns(None), "x", most_copied=10)
    while reader.read(PIECE_BYTES):
        pass
    reader.close()

    assert not reader.copies
    with pytest.raises(InputDataError) as caught:
        read_row(IndexedPlace(path, offset, 3, 1, is_packed=True))
    assert path.name in caught.value.hint
    assert read_row(IndexedPlace(path, 1 << 20, 3, 1, is_packed=True)) == bytes(3)


def test_a_packed_file_that_was_replaced_is_an_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    packed(path, LAYOUTS["many small"])
    with pieces(path) as (frames, _):
        path.write_bytes(path.read_bytes()[:1000])

        with pytest.raises(RunChanged):
            frames.read(5 * SMALL, 10)


def test_the_viewer_opens_a_packed_run_of_many_frames(tmp_path: Path, suffix: str) -> None:
    output = write_run(tmp_path / "a", [answered(task, 1) for task in range(8)], requested=8)
    rows = output.read_bytes().splitlines(keepends=True)
    output.with_name(output.name + suffix).write_bytes(b"".join(map(PACKERS[suffix], rows)))
    output.unlink()
    with viewing(output.parent, cache=tmp_path / "cache") as world:
        [run] = world.catalog.places
        raw = world.get("/api/r/RUN/t/5/0/raw")
        outline = world.get("/api/r/RUN/t/5/0/outline")
        place = world.catalog.run(run.id).snapshot.place(5, RunPart.RESULT)

    assert raw["text"] + "\n" == rows[5].decode()
    assert json.loads(raw["text"])["response"]["output"][-1]["type"] == "message"
    assert outline["total"] == 3
    assert place is not None
    assert place.frames is not None
    assert len(place.frames.copies) == 0

"""Finds the files of a run: one of each kind, or one per shard, by name or glob."""

import glob
import gzip
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from palestra.errors import InputDataError
from palestra.schema import RunPaths, bare_name, with_compressed

BUFFER_BYTES = 1 << 20
PACKED_BYTES = 1 << 12
"""The number of bytes of zstd data read at once. They can decompress to 30,000 times as many."""
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
LARGEST_WINDOW_BYTES = 1 << 31
"""The window size of `zstd --long=31`. Memory is allocated only when a file needs it."""


def open_rows(path: Path) -> BinaryIO:
    """Open a file for reading bytes and decompress while reading. Raises InputDataError: the file
    cannot be opened.

    Reading raises OSError or EOFError: the compressed data is broken or incomplete.
    """
    try:
        file = io.BufferedReader(path.open("rb", buffering=0), BUFFER_BYTES)
    except OSError as error:
        raise InputDataError(f"cannot read {path}: {error.strerror}") from error
    magic = file.peek(4)[:4]
    if magic.startswith(GZIP):
        file.close()
        return cast(BinaryIO, gzip.open(path))
    if magic.startswith(ZSTD):
        return io.BufferedReader(_Unzstd(file), BUFFER_BYTES)
    return file


def is_compressed(path: Path) -> bool:
    """Whether the file is compressed, so that row offsets are not byte positions in it."""
    with path.open("rb") as file:
        return file.read(4).startswith((GZIP, ZSTD))


class _Unzstd(io.RawIOBase):
    """Reads a sequence of zstd frames. Unlike the package's own reader, it raises EOFError when the
    end of a frame is missing.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._new_frame()
        self._held = memoryview(b"")

    def _new_frame(self) -> None:
        self._frame = zstandard.ZstdDecompressor(
            max_window_size=LARGEST_WINDOW_BYTES
        ).decompressobj()
        self._began = False

    def readable(self) -> bool:
        return True

    def readinto(self, into: "memoryview[int] | bytearray") -> int:  # type: ignore[override]
        while not self._held:
            packed = self._frame.unused_data if self._frame.eof else self._file.read(PACKED_BYTES)
            if self._frame.eof:
                packed = packed or self._file.read(PACKED_BYTES)
                self._new_frame()
            if not packed:
                if self._began:
                    raise EOFError("the zstd data ends before its end mark")
                return 0
            self._began = True
            try:
                self._held = memoryview(self._frame.decompress(packed))
            except zstandard.ZstdError as error:
                raise OSError(f"broken zstd data ({error})") from error
        count = min(len(into), len(self._held))
        into[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


Files = Path | str | Sequence[Path | str]
"""One file, a quoted glob of shards, or several of either."""

_INPUTS = "_materialized_inputs.jsonl"
_BESIDE = (
    _INPUTS,
    "_failures.jsonl",
    "_manifest.json",
    "_aggregate_metrics.json",
    "_reward_profiling.jsonl",
    "_agent_metrics.json",
    "_report.html",
)
_ASIDE = (".bak", ".tmp", ".new", ".merging", ".partial")


def rollout_files(files: Files) -> list[Path]:
    """Return the rollouts files. A glob skips other files of a run, such as inputs, failures and
    reports.

    Raises InputDataError: a file is missing or a glob matches no file.
    """
    return _files_of_arguments(files, passed_over=_BESIDE)


def run_files(inputs: Files | None, rollouts: Files) -> tuple[list[Path], list[Path]]:
    """Return the materialized inputs and the rollouts files.

    Without `inputs`, the inputs file next to each rollouts file is used. Raises InputDataError: a
    file is missing or a glob matches no file.
    """
    input_paths = (
        None
        if inputs is None
        else _files_of_arguments(inputs, passed_over=tuple(set(_BESIDE) - {_INPUTS}))
    )
    rollout_paths = rollout_files(rollouts)
    return [
        _inputs_beside(path) for path in rollout_paths
    ] if input_paths is None else input_paths, rollout_paths


def _inputs_beside(rollouts: Path) -> Path:
    materialized = RunPaths(rollouts).materialized_inputs
    inputs = with_compressed(materialized)
    if inputs is None:
        raise InputDataError(
            f"{rollouts} has no materialized inputs beside it: {materialized} does not exist",
            hint="name them: --inputs FILE, or +materialized_inputs_jsonl_fpath=FILE",
        )
    return inputs


def failure_files(files: Files | None, rollouts: Sequence[Path]) -> list[Path]:
    """Return the failures files named by `files`; without `files`, those that exist next to
    `rollouts`.
    """
    if files is not None:
        return _files_of_arguments(files, passed_over=())
    failure_paths = (with_compressed(RunPaths(path).failures) for path in rollouts)
    return [path for path in failure_paths if path is not None]


def _files_of_arguments(files: Files, *, passed_over: tuple[str, ...]) -> list[Path]:
    """Return each file once, sorted by path, so that the order of the arguments does not matter."""
    items = [files] if isinstance(files, Path | str) else files
    matched = {path.resolve(): path for item in items for path in _matches(str(item), passed_over)}
    if not matched:
        raise InputDataError("no file of rows is given")
    return sorted(matched.values())


def _matches(item: str, passed_over: tuple[str, ...]) -> Iterator[Path]:
    path = Path(item)
    if path.is_dir():
        raise InputDataError(
            f"{path} is a folder, not a file of rows",
            hint=f'give a file, or a quoted glob of shards: "{path}/*.jsonl"',
        )
    if path.exists():
        yield path
        return
    if not glob.has_magic(item):
        raise InputDataError(
            f"cannot read {path}: No such file or directory",
            hint="relative paths are of the working directory",
        )
    names = [Path(name) for name in sorted(glob.glob(item, recursive=True))]  # noqa: PTH207  # absolute patterns too
    accepted = [name for name in names if not name.is_dir() and not _goes_along(name, passed_over)]
    if not accepted:
        what = f"only files that go with a run ({names[0]})" if names else "nothing"
        raise InputDataError(f"{item} matches {what}")
    yield from accepted


def _goes_along(path: Path, passed_over: tuple[str, ...]) -> bool:
    return path.name.endswith(_ASIDE) or bare_name(path).endswith(passed_over)

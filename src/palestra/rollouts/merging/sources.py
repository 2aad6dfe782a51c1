"""The files that a merge reads: find the shards of one run, and number the files.

The files are never changed.
"""

import glob
import os
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from palestra.config import did_you_mean_path
from palestra.errors import InputDataError, KnownCause, Layer
from palestra.rollouts.manifest import Manifest, ShardOf, read_manifest
from palestra.rollouts.reverification.files import is_reverified
from palestra.rollouts.same_run import setting_differences
from palestra.schema import RunPaths, goes_with_a_run
from palestra.system import FileState, lock, matching_files

BUFFER_BYTES = 1 << 20
MOST_OPEN = 64
"""The maximum number of files kept open at once."""


class RowPlace(NamedTuple):
    """The position of a row: its file's number, and its byte offset and length, including the line
    break.
    """

    source: int
    offset: int
    length: int


class NumberedFiles:
    """Numbers files as they are scanned, and reads rows from them by position. Use it as a context
    manager.
    """

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self._states: list[FileState] = []
        self._open: OrderedDict[int, BinaryIO] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def scan(self, path: Path) -> tuple[int, Iterator[tuple[int, bytes]]]:
        """Return the file's number, and an iterator over its non-blank lines with their offsets.

        Raises InputDataError: the file cannot be read.
        """
        try:
            file = path.open("rb", buffering=BUFFER_BYTES)
        except OSError as error:
            raise _unreadable(path, error) from error
        source = len(self.paths)
        self.paths.append(path)
        self._states.append(FileState.of(os.fstat(file.fileno())))
        return source, _lines(path, file)

    def read(self, row_place: RowPlace) -> bytes:
        """Return the bytes at a position. Raises InputDataError: the file is now shorter or cannot
        be read.
        """
        path = self.paths[row_place.source]
        try:
            data = os.pread(
                self._handle(row_place.source).fileno(), row_place.length, row_place.offset
            )
        except OSError as error:
            raise _unreadable(path, error) from error
        if len(data) != row_place.length:
            raise _changed(path)
        return data

    def line_number(self, source: int, offset: int) -> int:
        """Return the line number, from 1, of the row at `offset` in file `source`."""
        file = self._handle(source)
        file.seek(0)
        remaining, breaks = offset, 0
        while remaining:
            block = file.read(min(remaining, BUFFER_BYTES))
            if not block:
                break
            remaining -= len(block)
            breaks += block.count(b"\n")
        return breaks + 1

    def check_unchanged(self) -> None:
        """Raise InputDataError: some file has changed since it was scanned."""
        for path, state in zip(self.paths, self._states, strict=True):
            try:
                now = FileState.of(path.stat())
            except OSError as error:
                raise _unreadable(path, error) from error
            if now != state:
                raise _changed(path)

    def _handle(self, source: int) -> BinaryIO:
        file = self._open.get(source)
        if file is not None:
            self._open.move_to_end(source)
            return file
        if len(self._open) >= MOST_OPEN:
            self._open.popitem(last=False)[1].close()
        path = self.paths[source]
        try:
            file = self._open[source] = path.open("rb", buffering=0)
        except OSError as error:
            raise _unreadable(path, error) from error
        return file


def check_not_being_written(path: Path) -> None:
    """Raise InputDataError: a collection is writing to `path`. Read permission is enough for this
    check.
    """
    try:
        with path.open("rb") as file:
            lock(file, shared=True)
    except BlockingIOError:
        raise InputDataError(
            f"{path} is being written by a collection",
            hint="merge when that one has ended; `--resume` continues one that was killed",
            cause=KnownCause.OUTPUT_IN_USE,
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from error


def _lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    offset = 0
    with file:
        try:
            for text in file:
                if not text.isspace():
                    yield offset, text
                offset += len(text)
        except OSError as error:
            raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> InputDataError:
    return InputDataError(f"cannot read {path}: {error.strerror}")


def _changed(path: Path) -> InputDataError:
    return InputDataError(
        f"{path} changed while it was being merged; nothing was written",
        hint="run the merge again when no process writes to its shards",
    )


MOST_NAMED = 10


class OtherRun(InputDataError):
    """The shards come from different rows or settings, so they must not be merged."""

    layer = Layer.CACHE


class RunSize(NamedTuple):
    """The numbers of rollouts and tasks in a whole run."""

    rollouts: int
    tasks: int


@dataclass(frozen=True, slots=True)
class ShardToMerge:
    """The files of one shard, and its manifest; None for files from other tools, which write no
    manifest.

    A run without shards counts as a single shard.
    """

    paths: RunPaths
    manifest: Manifest | None

    @property
    def part(self) -> ShardOf | None:
        """The shard's position in its run; None for a whole run or without a manifest."""
        return self.manifest.shard if self.manifest else None

    @property
    def run_size(self) -> RunSize:
        """The size of the whole run when this shard was collected; zeros without a manifest."""
        sizes = self.part or self.manifest
        return RunSize(sizes.requested, sizes.tasks) if sizes else RunSize(0, 0)


def find_shards(
    patterns: Sequence[str | Path], output: Path, run_size: RunSize | None = None
) -> tuple[list[ShardToMerge], list[str]]:
    """Return the shards that match `patterns` (files, folders, globs), sorted by path, and notices.

    Other files of a run are skipped, and so is `output` when a folder or glob contains it. `whole`:
    the size of the run, if the shards need not agree about it. Raises InputDataError: there is no
    shard, or a shard cannot be used.
    """
    names_of_file: dict[Path, list[Path]] = {}
    for item in patterns:
        for path in _files_named(str(item), output):
            names_of_file.setdefault(path.resolve(), []).append(path)
    if not names_of_file:
        what = ", ".join(str(item) for item in patterns) or "nothing"
        raise InputDataError(
            f"no shards to merge in {what}",
            hint="pass the shards' output files, or a folder or a quoted glob of them",
        )
    first_names = [min(names) for _, names in sorted(names_of_file.items())]
    twice = [path for path in first_names if len(names_of_file[path.resolve()]) > 1]
    notices = [f"given more than once, read once: {_names(twice)}"] if twice else []
    shards = [_shard(path) for path in first_names]
    _check_manifests(shards, run_size)
    _check_inputs(shards)
    if shards[0].manifest is None:
        notices.append(
            "no shard has a manifest: that they are of one run, and whole, cannot be checked"
        )
    return shards, notices


def missing_parts(shards: Iterable[ShardToMerge]) -> tuple[int, list[int]]:
    """Return the number of shards in the run and the indices of the missing ones.

    Return (0, []) when the shards have no shard numbers, or belong to different divisions of the
    run.
    """
    parts = [shard.part for shard in shards]
    if None in parts or len({part.of for part in parts if part}) != 1:
        return 0, []
    of = max(part.of for part in parts if part)
    return of, sorted(set(range(of)) - {part.index for part in parts if part})


def _files_named(item: str, output: Path) -> Iterator[Path]:
    """Yield the shard files that one argument refers to. In a folder or a glob, the rows that are
    verified again are left out beside those of their run.
    """
    path = Path(item)
    if path.is_dir():
        candidates = sorted(path.glob("*.jsonl"))
    elif path.exists() or RunPaths(path).manifest.exists():
        if path.resolve() == output.resolve():
            raise InputDataError(
                f"{path} is the output and one of the shards",
                hint="choose another output; a folder or a quoted glob leaves the output out",
            )
        candidates = [path]
    elif glob.has_magic(item):
        candidates = list(matching_files(item))
        if not candidates:
            raise InputDataError(f"no file matches {item}")
    else:
        raise InputDataError(f"shard {path} does not exist{did_you_mean_path(path)}")
    rows = [file for file in candidates if not file.is_dir() and not goes_with_a_run(file)]
    rows = [file for file in rows if file.resolve() != output.resolve()]
    yield from [file for file in rows if not is_reverified(file)] or rows


def _shard(path: Path) -> ShardToMerge:
    paths = RunPaths(path)
    if path.exists():
        check_not_being_written(path)
    if not paths.manifest.exists():
        return ShardToMerge(paths, None)
    try:
        return ShardToMerge(paths, read_manifest(paths.manifest))
    except InputDataError as error:
        raise InputDataError(
            error.message,
            hint="merge with the version that collected it, or collect it again",
            cause=error.cause,
        ) from error


def _check_manifests(shards: Sequence[ShardToMerge], run_size: RunSize | None) -> None:
    """Raise InputDataError: only some shards have a manifest. OtherRun: the shards belong to
    different runs.
    """

    def run_of(shard: ShardToMerge) -> tuple[str, RunSize]:
        return _digest(shard), run_size or shard.run_size

    without = [shard.paths.output for shard in shards if shard.manifest is None]
    if len(without) == len(shards):
        return
    if without:
        raise InputDataError(
            f"no manifest beside {_names(without)}, but {len(shards) - len(without)} other "
            "shards have one",
            hint="leave out files that are not shards, or restore their <stem>_manifest.json",
            cause=KnownCause.BROKEN_MANIFEST,
        )
    common = Counter(map(run_of, shards)).most_common(1)[0][0]
    reference = next(shard for shard in shards if run_of(shard) == common)
    changes = [
        (shard, _changes(reference, shard, run_size)) for shard in shards if run_of(shard) != common
    ]
    others = [(shard, lines) for shard, lines in changes if lines]
    if others:
        lines = [f"{shard.paths.output}:\n    " + "\n    ".join(texts) for shard, texts in others]
        raise OtherRun(
            f"{len(others)} of {len(shards)} shards belong to another run than "
            f"{reference.paths.output}\n  " + "\n  ".join(lines[:MOST_NAMED]),
            hint="merge each run separately, or collect those shards again from the same rows "
            "and settings; to split a run, give each part all rows and its share, `--shard I/N`",
        )


def _check_inputs(shards: Sequence[ShardToMerge]) -> None:
    """Raise InputDataError: a shard lacks its materialized inputs.

    Shards without manifests, from other tools, are accepted if none of them has materialized
    inputs.
    """
    without = [
        s.paths.materialized_inputs for s in shards if not s.paths.materialized_inputs.exists()
    ]
    if without and (len(without) < len(shards) or shards[0].manifest is not None):
        raise InputDataError(
            f"{_names(without)} is missing"
            if len(without) == 1
            else f"{_names(without)} are missing",
            hint="without materialized inputs the requested rollouts are unknown; restore the "
            "file, or collect the shard again",
        )


def _changes(reference: ShardToMerge, shard: ShardToMerge, run_size: RunSize | None) -> list[str]:
    """Return why a shard is not of the run of `reference`, one line each; nothing when it is."""
    old, new = reference.manifest, shard.manifest
    if old is None or new is None:
        return []
    changes = ["the input rows differ"] if old.input_digest != new.input_digest else []
    files = [compared.paths.materialized_inputs for compared in (reference, shard)]
    changes += setting_differences(old.semantics, new.semantics, files)
    if run_size is not None:
        return changes
    sizes = zip(("rollouts", "tasks"), reference.run_size, shard.run_size, strict=True)
    return changes + [f"{what} of the run: {a} -> {b}" for what, a, b in sizes if a != b]


def _digest(shard: ShardToMerge) -> str:
    return shard.manifest.digest if shard.manifest else ""


def _names(paths: Sequence[Path]) -> str:
    addition = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return ", ".join(str(path) for path in paths[:MOST_NAMED]) + addition

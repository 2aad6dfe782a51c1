"""What a re-verification keeps on disk.

While it runs, `<output>.partial` has one line for each row that is done, in the order of the
input: its new result row, or its failure. One file with one writer, so whatever a kill leaves is
a beginning of it. The last step makes the output of it, and the failures file beside.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import orjson

from palestra.errors import InputDataError
from palestra.rollouts.journal import JournalFailed, hold, repair, write_whole
from palestra.rollouts.manifest import differences
from palestra.rollouts.prepare import StaleRun
from palestra.schema import FAILURE_CLASS

FORMAT = 1
_FAILURE = b'{"' + FAILURE_CLASS.encode() + b'"'
"""How a failure's line begins, and no result row's."""
_OVERWRITE = "choose another output, or --overwrite moves what is there to .bak"


@dataclass(frozen=True, slots=True)
class ReverifyPaths:
    """Every file of one re-verification, named after its output."""

    output: Path

    @property
    def partial(self) -> Path:
        """Rows that are done, while others are not."""
        return self.output.with_name(self.output.name + ".partial")

    @property
    def failures(self) -> Path:
        """Rows that could not be verified."""
        return self.output.with_name(f"{self.output.stem}_failures.jsonl")

    @property
    def manifest(self) -> Path:
        """What the rewards were made from, and what they changed."""
        return self.output.with_name(f"{self.output.stem}_reverify.json")

    def all(self) -> tuple[Path, ...]:
        """Every file that a re-verification writes."""
        return (self.output, self.partial, self.failures, self.manifest)


@dataclass(frozen=True, slots=True)
class Origin:
    """What new rewards are made from; only with the same is a beginning of them continued."""

    rollouts: str
    """Digest of the file with the stored responses."""
    rows: int
    inputs: str | None
    """Digest of the file with their task rows, when one was given."""
    verifiers: Mapping[str, Any]
    """Settings and code of the resources servers."""
    judge: str
    """`replayed` or `fresh`."""

    def as_json(self) -> dict[str, Any]:
        """As JSON gives it back, so that like is compared with like."""
        held = {name: getattr(self, name) for name in self.__dataclass_fields__}
        read_back: dict[str, Any] = orjson.loads(orjson.dumps(held, default=str))
        return read_back


@dataclass(frozen=True, slots=True)
class Begun:
    """How a re-verification starts."""

    notices: tuple[str, ...] = ()
    finished: Mapping[str, Any] | None = None
    """The result, when an earlier session has reached the end already."""


def check_places(
    paths: ReverifyPaths, sources: Collection[Path], *, overwrite: bool, resume: bool
) -> None:
    """Raise InputDataError when writing there would lose something."""
    read = {source.resolve() for source in sources}
    for path in paths.all():
        if path.is_dir():
            raise InputDataError(f"{path} is a folder", hint="give the output a name of its own")
        if path.resolve() in read:
            raise InputDataError(
                f"this would write {path}, which is its input", hint="choose another output"
            )
    if overwrite and resume:
        raise InputDataError("--resume goes on, --overwrite starts again: give one of them")
    if overwrite or (resume and paths.manifest.exists()):
        return
    if paths.partial.exists():
        raise InputDataError(
            f"{paths.partial} is there from a re-verification that did not end",
            hint=f"--resume goes on from there; {_OVERWRITE}",
        )
    for path in paths.all():
        if path.exists():
            raise InputDataError(f"{path} exists already", hint=_OVERWRITE)


def begin(paths: ReverifyPaths, origin: Origin, *, resume: bool, version: str) -> Begun:
    """Start afresh, moving aside what is there, or go on with it.

    Raises StaleRun when what is there was made from something else.
    """
    if not (resume and paths.manifest.exists()):
        notices = _set_aside(paths)
        _write_manifest(paths, origin, None, version)
        return Begun(notices)
    manifest = _read_manifest(paths.manifest)
    changed = differences(manifest["made_from"], origin.as_json())
    if changed:
        raise StaleRun(
            f"{paths.output} was made from something else:\n  " + "\n  ".join(changed),
            hint="start again with --overwrite, or give back what was changed",
        )
    if manifest["result"] is not None and paths.output.exists():
        paths.partial.unlink(missing_ok=True)
        return Begun(finished=manifest["result"])
    dropped = repair(paths.partial)
    notice = f"{paths.partial}: dropped a torn last line of {dropped} bytes"
    return Begun((notice,) if dropped else ())


def _set_aside(paths: ReverifyPaths) -> tuple[str, ...]:
    existing = [path for path in paths.all() if path.exists()]
    for path in existing:
        path.replace(path.with_name(path.name + ".bak"))
    return (f"moved {len(existing)} files to <name>.bak",) if existing else ()


def _write_manifest(
    paths: ReverifyPaths, origin: Origin, result: Mapping[str, Any] | None, version: str
) -> None:
    try:
        paths.manifest.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputDataError(f"{paths.manifest.parent}: {error.strerror}") from error
    write_whole(
        paths.manifest,
        {
            "format": FORMAT,
            "palestra_version": version,
            "made_from": origin.as_json(),
            "result": result,
        },
    )


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        held: dict[str, Any] = orjson.loads(path.read_bytes())
        if held["format"] > FORMAT:
            raise InputDataError(
                f"{path} was written by a newer Palestra",
                hint="go on with the version that started it, or --overwrite",
            )
        return {"made_from": held["made_from"], "result": held["result"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputDataError(
            f"{path} does not say what was verified ({error!r})",
            hint="start again with --overwrite",
        ) from error


class Partial:
    """The rows that are done, and their one writer. Use as a context manager."""

    def __init__(self, paths: ReverifyPaths) -> None:
        self._paths = paths
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._file = self._paths.partial.open("ab")
        except OSError as error:
            raise InputDataError(f"{self._paths.partial}: {error.strerror}") from error
        try:
            hold(self._file, self._paths.partial)
        except InputDataError:
            self._file.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A disk that is full says so once; what could not be flushed is verified again.
        if self._file is not None:
            try:
                self._file.close()
            except OSError:
                if error is None:
                    raise

    def done(self) -> Iterator[bytes]:
        """The lines of earlier sessions, in order."""
        with self._paths.partial.open("rb") as file:
            yield from file

    def append(self, line: bytes) -> None:
        """The next row. Raises JournalFailed when the disk will not take it."""
        self._try(lambda file: file.write(line + b"\n"))

    def finish(
        self, origin: Origin, result: Mapping[str, Any], *, failures: bool, version: str
    ) -> None:
        """Make the output of it. Raises JournalFailed when the disk will not take it."""
        self._try(_sync)
        paths = self._paths
        try:
            if failures:
                _split(paths)
            _write_manifest(paths, origin, result, version)
            if not failures:
                paths.partial.replace(paths.output)
        except OSError as error:
            raise JournalFailed(f"{error.filename}: {error.strerror}", hint=_ROOM) from error
        paths.partial.unlink(missing_ok=True)

    def _try(self, write: Any) -> None:
        if self._file is None:
            raise JournalFailed("the partial output is not open")
        try:
            write(self._file)
        except OSError as error:
            raise JournalFailed(f"{self._paths.partial}: {error.strerror}", hint=_ROOM) from error


_ROOM = "make room, then --resume: what is written is intact"


def is_failure(line: bytes) -> bool:
    """Whether a line of a partial output is a failure."""
    return line.startswith(_FAILURE)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _split(paths: ReverifyPaths) -> None:
    """Result rows into the output, failures into theirs; both whole or absent."""
    targets = (paths.output, paths.failures)
    beside = [path.with_name(path.name + ".tmp") for path in targets]
    try:
        with (
            paths.partial.open("rb") as lines,
            beside[0].open("wb") as results,
            beside[1].open("wb") as failures,
        ):
            for line in lines:
                (failures if is_failure(line) else results).write(line)
            _sync(results)
            _sync(failures)
        for made, target in zip(reversed(beside), reversed(targets), strict=True):
            made.replace(target)
    except OSError:
        for path in beside:
            path.unlink(missing_ok=True)
        raise

"""What a re-verification keeps on disk.

While it runs, `<output>.partial` has one line for each row that is done, in the order of the
input: its new result row, or its failure. One file with one writer, so whatever a kill leaves is
a beginning of it. The last step makes the output of it, and the failures file beside.
"""

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import orjson

from palestra.errors import CallError, InputDataError, KnownCause, Outcome, RowIdentity
from palestra.rollouts.journal import JournalFailed, being_written, repair, write_json
from palestra.rollouts.manifest import differences
from palestra.rollouts.prepare import StaleRun
from palestra.rollouts.results import described
from palestra.schema import FAILURE_CLASS, JsonDict, JsonObject
from palestra.system import is_file_at, move, on_failure, open_locked, replacing, set_aside, sync

FORMAT = 1
_FAILURE = b'{"' + FAILURE_CLASS.encode() + b'"'
"""How a failure's line begins, and no result row's."""
BACKUP: Final = ".bak"
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
    verifiers: JsonObject
    """Settings and code of the resources servers."""
    judge: str
    """`replayed` or `fresh`."""

    def as_json(self) -> JsonDict:
        """As JSON gives it back, so that like is compared with like."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        read_back: JsonDict = orjson.loads(orjson.dumps(fields, default=str))
        return read_back


@dataclass(frozen=True, slots=True)
class Begun:
    """How a re-verification starts. `partial`: held by this one alone."""

    partial: "Partial"
    notices: tuple[str, ...] = ()
    finished: JsonObject | None = None
    """The result, when an earlier session has reached the end already."""


def check_places(
    paths: ReverifyPaths, sources: Collection[Path], *, overwrite: bool, resume: bool
) -> None:
    """Raise InputDataError when writing there would lose something."""
    source_paths = {source.resolve() for source in sources}
    for path in paths.all():
        if path.is_dir():
            raise InputDataError(f"{path} is a folder", hint="give the output a name of its own")
        if path.resolve() in source_paths:
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
            raise InputDataError(
                f"{path} exists already", hint=_OVERWRITE, cause=KnownCause.OUTPUT_EXISTS
            )


@contextlib.contextmanager
def begin_reverification(
    paths: ReverifyPaths, origin: Origin, *, resume: bool, version: str
) -> Iterator[Begun]:
    """Start afresh, moving aside what is there, or go on with it; nobody else does meanwhile.

    Raises StaleRun when what is there was made from something else, and InputDataError when
    another writes it: then nothing has been touched.
    """
    partial = Partial(paths)
    with on_failure(partial.leave_as_found):
        output_begun = _begun(partial, origin, resume=resume, version=version)
    with on_failure(partial.give_up):
        yield output_begun
    partial.close()


def _begun(partial: "Partial", origin: Origin, *, resume: bool, version: str) -> Begun:
    paths = partial.paths
    if not (resume and paths.manifest.exists()):
        notices = _set_aside(partial)
        _write_manifest(paths, origin, None, version)
        return Begun(partial, notices)
    manifest = read_manifest(paths.manifest)
    changed = differences(manifest["made_from"], origin.as_json())
    if changed:
        raise StaleRun(
            f"{paths.output} was made from something else:\n  " + "\n  ".join(changed),
            hint="start again with --overwrite, or give back what was changed",
        )
    if manifest["result"] is not None and paths.output.exists():
        paths.partial.unlink(missing_ok=True)
        return Begun(partial, finished=manifest["result"])
    dropped = repair(paths.partial)
    notice = f"{paths.partial}: dropped a torn last line of {dropped} bytes"
    return Begun(partial, (notice,) if dropped else ())


def _set_aside(partial: "Partial") -> tuple[str, ...]:
    paths = partial.paths
    existing = [path for path in paths.all() if path.exists() and path != paths.partial]
    moved = len(existing) + partial.set_aside()
    set_aside(existing, BACKUP)
    return (f"moved {moved} files to <name>.bak",) if moved else ()


def _write_manifest(
    paths: ReverifyPaths, origin: Origin, result: JsonObject | None, version: str
) -> None:
    write_json(
        paths.manifest,
        {
            "format": FORMAT,
            "palestra_version": version,
            "made_from": origin.as_json(),
            "result": result,
        },
    )


def read_manifest(path: Path) -> JsonDict:
    """What is known of a re-verification. Raises InputDataError when the file does not tell it."""
    try:
        fields: JsonDict = orjson.loads(path.read_bytes())
        if fields["format"] > FORMAT:
            raise InputDataError(
                f"{path} was written by a newer Palestra",
                hint="go on with the version that started it, or --overwrite",
                cause=KnownCause.BROKEN_MANIFEST,
            )
        return {**fields, "made_from": fields["made_from"], "result": fields["result"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputDataError(
            f"{path} does not say what was verified ({error!r})",
            hint="start again with --overwrite",
        ) from error


class Partial:
    """The rows that are done, and their one writer until it is closed.

    Raises InputDataError when it cannot be opened, or another writes to it.
    """

    def __init__(self, paths: ReverifyPaths) -> None:
        self.paths = paths
        self._file, self._made = _open_alone(paths.partial)

    def close(self) -> None:
        """Let others have it. Raises OSError when the disk does not take the last rows."""
        self._file.close()

    def give_up(self) -> None:
        """Let others have it; what could not be flushed is verified again."""
        with contextlib.suppress(OSError):
            self.close()

    def leave_as_found(self) -> None:
        """Close it; when there was none before, there is none after."""
        if self._made and is_file_at(self._file, self.paths.partial):
            self.paths.partial.unlink()
        self.close()

    def set_aside(self) -> bool:
        """Keep as `.bak` what earlier sessions have done, if there is any, and begin an empty one.

        Nobody gets between: who comes first to the new one has it, and the other is refused.
        """
        if self._made:
            return False
        with self._file:
            set_aside([self.paths.partial], BACKUP)
            self._file, self._made = _open_alone(self.paths.partial)
        return True

    def done(self) -> Iterator[bytes]:
        """The lines of earlier sessions, in order."""
        with self.paths.partial.open("rb") as file:
            yield from file

    def append(self, line: bytes) -> None:
        """The next row. Raises JournalFailed when the disk will not take it."""
        self._try(lambda file: file.write(line + b"\n"))

    def finish(self, origin: Origin, result: JsonObject, *, failures: bool, version: str) -> None:
        """Make the output of it. Raises JournalFailed when the disk will not take it."""
        self._try(sync)
        paths = self.paths
        if not is_file_at(self._file, paths.partial):
            raise JournalFailed(
                f"{paths.partial} was moved or replaced by another while it was written",
                hint="nothing was put in place; verify again, to an output of its own",
            )
        try:
            if failures:
                _split(paths)
            _write_manifest(paths, origin, result, version)
            if not failures:
                move(paths.partial, paths.output)
        except OSError as error:
            raise JournalFailed(f"{error.filename}: {error.strerror}", hint=_ROOM) from error
        paths.partial.unlink(missing_ok=True)

    def _try(self, write: Any) -> None:
        try:
            write(self._file)
        except OSError as error:
            raise JournalFailed(f"{self.paths.partial}: {error.strerror}", hint=_ROOM) from error


def _open_alone(path: Path) -> tuple[IO[bytes], bool]:
    """The file at `path`, locked, and whether there was nothing in its place before."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open_locked(path)
        return file, os.fstat(file.fileno()).st_size == 0
    except BlockingIOError:
        raise being_written(path) from None
    except OSError as error:
        raise InputDataError(f"{error.filename}: {error.strerror}") from error


_ROOM = "make room, then --resume: what is written is intact"


def is_failure(line: bytes) -> bool:
    """Whether a line of a partial output is a failure."""
    return line.startswith(_FAILURE)


def _split(paths: ReverifyPaths) -> None:
    """Result rows into the output, failures into theirs; both whole or absent."""
    with (
        paths.partial.open("rb") as lines,
        # Left in reverse: the failures are there before the output is.
        replacing(paths.output) as results,
        replacing(paths.failures) as failures,
    ):
        for line in lines:
            (failures if is_failure(line) else results).write(line)
        sync(results)  # before the first of the two takes its place


STOPPED = "stopped"


def record_stopped(output: Path, error: CallError) -> Outcome | None:
    """Write the row that `error` ended into the manifest of the re-verification to `output`.

    None when the error names no row.
    """
    row = error.evidence.row
    if row is None:
        return None
    path = ReverifyPaths(output).manifest
    manifest = read_manifest(path)
    stopped = {**manifest.get(STOPPED, {}), key_of_row(row): described(error)}
    write_json(path, {**manifest, STOPPED: stopped})
    return error.outcome


def stopped_rows(output: Path) -> Mapping[str, JsonObject]:
    """The failures that `record_stopped` has written, by `key_of_row`."""
    path = ReverifyPaths(output).manifest
    return read_manifest(path).get(STOPPED, {}) if path.exists() else {}


def key_of_row(row: RowIdentity) -> str:
    """`3:0`: rows of one task and rollout are one row."""
    return f"{row.task}:{row.rollout}"

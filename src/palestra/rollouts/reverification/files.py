"""The files of a re-verification.

During the run, `<output>.partial` contains one line per finished row, in input order: the new
result row, or a failure. It is one file with one writer, so after a kill it contains the first
rows. The last step turns it into the output and the failures file.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import orjson

from palestra.errors import CallError, InputDataError, KnownCause, Outcome, Phrase, RowIdentity
from palestra.rollouts.journal import JournalFailed, being_written, repair, write_json
from palestra.rollouts.manifest import Manifest, differences, without_folders
from palestra.rollouts.results import described
from palestra.rollouts.stale import StaleRun
from palestra.schema import (
    FAILURE_CLASS,
    ROLLOUT_INDEX,
    JsonDict,
    JsonObject,
    RunPaths,
    open_packed,
    read_jsonl,
)
from palestra.system import (
    is_file_at,
    move,
    on_failure,
    open_locked,
    replacing,
    set_aside,
    sync,
    unused,
)

FORMAT = 1
_FAILURE = b'{"' + FAILURE_CLASS.encode() + b'"'
"""The first bytes of a failure's line. Result rows never start with them."""
REVERIFY_SUFFIX: Final = "_reverify.json"
"""The ending of the manifest of a re-verification."""
BACKUP: Final = ".bak"
_OVERWRITE = "choose another output, or move the existing files to .bak with --overwrite"


@dataclass(frozen=True, slots=True)
class ReverifyPaths:
    """The paths of all files of one re-verification, derived from its output path."""

    output: Path

    @property
    def partial(self) -> Path:
        """The finished rows while the re-verification is incomplete."""
        return self.output.with_name(self.output.name + ".partial")

    @property
    def failures(self) -> Path:
        """The rows that could not be verified."""
        return self.output.with_name(f"{self.output.stem}_failures.jsonl")

    @property
    def manifest(self) -> Path:
        """The origin of the new rewards, and the result with the changes."""
        return self.output.with_name(f"{self.output.stem}{REVERIFY_SUFFIX}")

    @property
    def materialized_inputs(self) -> Path:
        """The run's own inputs, so that the output can be profiled, selected from and compared."""
        return RunPaths(self.output).materialized_inputs

    def all(self) -> tuple[Path, ...]:
        """Return all files that a re-verification writes."""
        return (
            self.output,
            self.partial,
            self.failures,
            self.manifest,
            self.materialized_inputs,
        )


def is_reverified(output: Path) -> bool:
    """Whether a file of rows is the output of a re-verification, and not the one of a run."""
    return ReverifyPaths(output).manifest.exists() and not RunPaths(output).manifest.exists()


def unused_reverified(output: Path) -> Path:
    """Return the output of a re-verification of the run at `output`, such that none of its files
    exists.
    """
    return unused(RunPaths(output).reverified, lambda path: ReverifyPaths(path).all())


def unsafe(output: Path) -> Path:
    """Return the output of a forced re-verification, whose environments did not say that they can
    verify again.
    """
    return output.with_name(f"unsafe_{output.name}")


@dataclass(frozen=True, slots=True)
class Origin:
    """What the new rewards depend on. A partial output is continued only with an equal origin."""

    rollouts: str
    """The digest of the file with the stored responses."""
    rows: int
    inputs: str | None
    """The digest of the file with the task rows; None without such a file."""
    verifiers: JsonObject
    """The settings and code of the resources servers."""
    judge: str
    """How the judge is used: `replayed` or `fresh`."""

    def as_json(self) -> JsonDict:
        """Return the origin after a round trip through JSON, so that it can be compared with a
        stored one.
        """
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        read_back: JsonDict = orjson.loads(orjson.dumps(fields, default=str))
        return read_back

    def changes_since(self, stored: JsonObject) -> list[str]:
        """Return the differences from a stored origin, one line each."""
        old, new = (
            {**origin, "verifiers": without_folders(origin.get("verifiers") or {})}
            for origin in (stored, self.as_json())
        )
        return differences(old, new)


@dataclass(frozen=True, slots=True)
class Begun:
    """A started re-verification. `partial`: the partial output, locked by this process."""

    partial: "Partial"
    notices: tuple[str, ...] = ()
    finished: JsonObject | None = None
    """The result, when an earlier session has already finished; else None."""


def check_places(
    paths: ReverifyPaths, sources: Collection[Path], *, overwrite: bool, resume: bool
) -> None:
    """Raise InputDataError: writing these files would overwrite existing data."""
    _refuse_sources(paths, sources)
    if overwrite and resume:
        raise InputDataError(
            Phrase("--resume continues, --overwrite starts again: give one of them")
        )
    if overwrite or (resume and paths.manifest.exists()):
        return
    if paths.partial.exists():
        raise InputDataError(
            f"{paths.partial} exists: an earlier re-verification did not end",
            hint=f"--resume continues it; {_OVERWRITE}",
        )
    for path in paths.all():
        if path.exists():
            raise InputDataError(
                f"{path} exists already", hint=_OVERWRITE, cause=KnownCause.OUTPUT_EXISTS
            )


def _refuse_sources(paths: ReverifyPaths, sources: Collection[Path]) -> None:
    """Raise InputDataError: a path is a folder, a source, or a file of the run of a source."""
    source_paths = {source.resolve() for source in sources}
    for path in paths.all():
        if path.is_dir():
            raise InputDataError(f"{path} is a folder", hint="choose another name for the output")
        if path.resolve() in source_paths:
            raise InputDataError(
                f"this would write {path}, which is its input", hint="choose another output"
            )
    for source in sources:
        if RunPaths(source).writes(paths.output):
            raise InputDataError(
                f"this would write {paths.output}, which is a file of the run {source}",
                hint="choose another output",
            )


@contextlib.contextmanager
def begin_reverification(
    paths: ReverifyPaths, origin: Origin, *, resume: bool, version: str
) -> Iterator[Begun]:
    """Lock the partial output, and either continue it or move the existing files aside and start
    again.

    Raises StaleRun: the existing files have another origin. InputDataError: another process writes
    them. In both cases nothing is changed.
    """
    partial = Partial(paths)
    with on_failure(partial.leave_as_found):
        output_begun = _begin_state(partial, origin, resume=resume, version=version)
    with on_failure(partial.give_up):
        yield output_begun
    partial.close()


def _begin_state(partial: "Partial", origin: Origin, *, resume: bool, version: str) -> Begun:
    paths = partial.paths
    if not (resume and paths.manifest.exists()):
        notices = _set_aside(partial)
        _write_manifest(paths, origin, None, version)
        return Begun(partial, notices)
    manifest = read_manifest(paths.manifest)
    changed = origin.changes_since(manifest["made_from"])
    if changed:
        raise StaleRun(
            f"{paths.output} was made from something else:\n  " + "\n  ".join(changed),
            hint="start again with --overwrite, or undo the changes",
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


def copy_inputs(
    candidates: Iterable[Sequence[Path]],
    target: Path,
    corrected: Callable[[JsonDict], JsonDict] | None = None,
) -> None:
    """Copy the first of these groups of files that has materialized inputs to `target`, whole.

    `corrected`: returns a row as it was verified, where its task was corrected since it was
    collected. Nothing is done when there is no such group, or when `target` exists. Raises
    JournalFailed: the disk refuses the copy.
    """
    sources = next(
        (paths for paths in candidates if paths and all(map(_is_materialized, paths))), ()
    )
    if not sources or target.exists():
        return
    try:
        with replacing(target) as copy:
            for source in sources:
                with open_packed(source) as rows:
                    for row in rows:  # the last one may lack its end of line
                        line = row if corrected is None else _corrected(row, corrected)
                        copy.write(line if line.endswith(b"\n") else line + b"\n")
    except OSError as error:
        raise JournalFailed(f"{error.filename}: {error.strerror}", hint=_ROOM) from error


def _corrected(line: bytes, corrected: Callable[[JsonDict], JsonDict]) -> bytes:
    """Return the line of a corrected row; `line` itself where nothing changes."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return line
    new_row = corrected(row)
    return line if new_row == row else orjson.dumps(new_row)


def _is_materialized(path: Path) -> bool:
    """Whether the rows of a file are those of single rollouts, instead of tasks."""
    if not path.is_file():
        return False
    first = next(read_jsonl(path), None)
    if first is None or first.error:
        return False
    return ROLLOUT_INDEX in first.row and "response" not in first.row


def read_manifest(path: Path) -> JsonDict:
    """Read the manifest of a re-verification. Raises InputDataError: the file is missing or
    invalid.
    """
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
            f"{path} cannot be read as the record of what was verified ({error!r})",
            hint="start again with --overwrite",
        ) from error


def manifest_of_verifiers(output: Path) -> Manifest | None:
    """Return what the re-verification that wrote `output` records of its servers; None when `output`
    is not that of a re-verification, or its manifest cannot be read.
    """
    path = ReverifyPaths(output).manifest
    try:
        fields = read_manifest(path)
        verifiers = dict(fields["made_from"]["verifiers"])
    except (InputDataError, KeyError, TypeError, ValueError):
        return None
    return Manifest("", verifiers, 0, 0, str(fields.get("palestra_version") or ""))


def rows_to_verify(output: Path) -> int | None:
    """Return how many rows the re-verification had that wrote `output`; None when `output` is not
    that of a re-verification, 0 when its manifest does not say. Raises InputDataError: its manifest
    is invalid.
    """
    path = ReverifyPaths(output).manifest
    if not path.exists():
        return None
    origin = read_manifest(path)["made_from"]
    rows = origin.get("rows") if isinstance(origin, Mapping) else None
    return rows if isinstance(rows, int) else 0


class Partial:
    """The partial output: the finished rows, with a single writer until it is closed.

    Raises InputDataError: the file cannot be opened, or another process writes to it.
    """

    def __init__(self, paths: ReverifyPaths) -> None:
        self.paths = paths
        self._file, self._made = _open_alone(paths.partial)

    def close(self) -> None:
        """Close and unlock the file. Raises OSError: the disk refuses the last rows."""
        self._file.close()

    def give_up(self) -> None:
        """Close and unlock the file, ignoring disk errors. Rows that could not be flushed are
        verified again.
        """
        with contextlib.suppress(OSError):
            self.close()

    def leave_as_found(self) -> None:
        """Close the file, and delete it if this process created it."""
        if self._made and is_file_at(self._file, self.paths.partial):
            self.paths.partial.unlink()
        self.close()

    def set_aside(self) -> bool:
        """Rename the rows of earlier sessions to `.bak` and start an empty file. Return whether
        there were any.

        The new file is locked at once; if another process locks it first, this call raises
        InputDataError.
        """
        if self._made:
            return False
        with self._file:
            set_aside([self.paths.partial], BACKUP)
            self._file, self._made = _open_alone(self.paths.partial)
        return True

    def done(self) -> Iterator[bytes]:
        """Yield the lines that earlier sessions wrote, in order."""
        with self.paths.partial.open("rb") as file:
            yield from file

    def append(self, line: bytes) -> None:
        """Write the next row. Raises JournalFailed: the disk refuses it."""
        self._try(lambda file: file.write(line + b"\n"))

    def finish(self, origin: Origin, result: JsonObject, *, failures: bool, version: str) -> None:
        """Turn the partial output into the final files. Raises JournalFailed: the disk refuses
        them.
        """
        self._try(sync)
        paths = self.paths
        if not is_file_at(self._file, paths.partial):
            raise JournalFailed(
                f"{paths.partial} was moved or replaced by another process while it was written",
                hint="no output was written; verify again, to another output",
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
    """Open and lock the file at `path`. Return it, and whether it was missing or empty before."""
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
    """Write the result rows to the output and the failures to the failures file; each file is
    complete or absent.
    """
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
    """Write the failure of the row that `error` names into the manifest of the re-verification.
    Return its outcome.

    Return None when the error names no row.
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
    """Return the failures that `record_stopped` wrote, keyed by `key_of_row`."""
    path = ReverifyPaths(output).manifest
    return read_manifest(path).get(STOPPED, {}) if path.exists() else {}


def key_of_row(row: RowIdentity) -> str:
    """Return the row's key, such as `3:0`: task and rollout."""
    return f"{row.task}:{row.rollout}"

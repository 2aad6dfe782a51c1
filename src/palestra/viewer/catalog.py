"""The runs that the viewer shows: their indexes, kept up to date by one thread."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Final, final

from palestra.analysis import (
    ReportValues,
    RunFrame,
    RunHead,
    RunSummary,
    advice_about,
    load_run,
    report_values,
    run_head,
    summarize,
)
from palestra.errors import ConfigError, InputDataError, PalestraError
from palestra.records import RunEntry, RunState, run_entry
from palestra.rollouts import Announcement, Manifest, announcements, ask_collection, read_manifest
from palestra.schema import JsonDict, RunPaths, with_compressed
from palestra.viewer.discovery import ClusterPlace, Places, RunPlace
from palestra.viewer.grouping import group_error
from palestra.viewer.index import (
    USUAL_BOUNDS,
    Index,
    IndexBounds,
    IndexProgress,
    IndexSnapshot,
    RunChanged,
    open_index,
)
from palestra.viewer.transcript_cache import TranscriptCache

Signature = tuple[tuple[int, int] | None, ...]
"""Size and time of change of each file of a run."""
RENEW_LIVE_S: Final = 10.0
"""The least time between two overviews of a live run."""
FOLLOWING_S: Final = 0.05
"""How long a command waits for the viewer that writes the index, before it looks again."""
GROWING_S: Final = 10.0
"""A file that was written within this time may be in the middle of a line."""
POLL_S: Final = 1.0
LOOK_EVERY_S: Final = 5.0
"""How often the files of all runs are looked at while lines are computed: with a thousand runs this
is more work than a line.
"""
ASK_EVERY_S: Final = 1.0
REFRESH_S: Final = 0.5
WATCHED_S: Final = 60.0
"""A run that nobody has looked at for so long is not kept up to date."""


class NoSuchRun(InputDataError):
    """The request names a run, task, rollout or part that is not there."""


@dataclass(frozen=True, slots=True)
class LiveReport:
    """What a running collection answered. `asked_at`: on the monotonic clock."""

    report: JsonDict
    started: float
    asked_at: float

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.asked_at


@final
class Overview:
    """The statistics of one moment of a run, each computed once, when it is first needed.

    `made_at`: in seconds since the epoch.
    """

    def __init__(self, snapshot: IndexSnapshot, made_at: float) -> None:
        self.snapshot, self.made_at = snapshot, made_at
        self._lock = threading.RLock()
        self._summary: RunSummary | None = None
        self._values: ReportValues | None = None

    def frame(self) -> RunFrame:
        """Make the frame of the run. It is not kept: that of a large run takes much memory."""
        return self.snapshot.frame()

    @property
    def summary(self) -> RunSummary:
        """The main numbers of the run, overall and by agent and family."""
        with self._lock:
            if self._summary is None:
                self._summary = summarize(self.frame())
            return self._summary

    @property
    def values(self) -> ReportValues:
        """What the report says of the run."""
        with self._lock:
            if self._values is None:
                self._values = report_values(self.frame(), self.summary)
            return self._values


@final
class OpenRun:
    """One run and its index."""

    def __init__(
        self,
        run_place: RunPlace,
        group_by: str | None,
        cache: Path | None,
        conversations: TranscriptCache | None = None,
        *,
        bounds: IndexBounds = USUAL_BOUNDS,
    ) -> None:
        """Open it. `conversations`: shared by all runs of a viewer. `bounds`: of the index."""
        self.place = run_place
        self.group_by = group_by
        self._index: Index = open_index(
            run_place.outputs, group_by=group_by, cache=cache, bounds=bounds
        )
        self._lock = threading.Lock()
        self._overview_lock = threading.Lock()  # not the index's: a page waits for no block
        self._overview: Overview | None = None
        self.conversations = conversations or TranscriptCache()
        self.watched_at = -inf
        """When a page last asked for the run, on the monotonic clock."""
        self.problem = ""
        """Why the files cannot be read now; empty when they can."""

    @property
    def paths(self) -> RunPaths:
        """The files beside the first output."""
        return RunPaths(self.place.path)

    @property
    def progress(self) -> IndexProgress:
        return self._index.progress

    @property
    def is_complete(self) -> bool:
        """Whether every whole line of the files is indexed and in the snapshot."""
        progress = self.progress
        return not (progress.has_more or progress.is_full) and self._index.is_current

    @property
    def snapshot(self) -> IndexSnapshot:
        return self._index.snapshot

    @property
    def notices(self) -> Sequence[str]:
        """What the tables leave out or mark."""
        return [*self.snapshot.notices, *filter(None, [self._left_out()])]

    @property
    def group_error(self) -> ConfigError | None:
        """The error that there is nothing to group by, with the fields that there are. None while
        rows are not indexed.
        """
        table = self.snapshot.rollouts
        if not (self.group_by and self.is_complete and len(table)) or table.text_counts("family"):
            return None
        return group_error(self.place, self.group_by)

    def _left_out(self) -> str:
        """Return what of the files is not indexed though nothing more can be read now."""
        progress = self.progress
        unread = progress.bytes_total - progress.bytes_indexed
        if progress.is_full:
            return (
                f"only {progress.bytes_indexed:,} of {progress.bytes_total:,} bytes are indexed: "
                f"{progress.in_memory}"
            )
        if progress.has_more or unread <= 0 or self._is_growing():
            return ""
        return (
            f"{unread:,} bytes after the last line break are left out: a run that still writes them "
            "ends the line; else add a line break"
        )

    def _is_growing(self) -> bool:
        """Whether a file was written a moment ago."""
        stats = [_stat(path) for path in self.place.outputs]
        latest = max((stat[1] for stat in stats if stat is not None), default=0)
        return time.time() - latest / 1e9 < GROWING_S

    @property
    def is_behind(self) -> bool:
        """Whether the snapshot lacks rows that the files hold, and will have them."""
        return not self.problem and (self.progress.has_more or not self._index.is_current)

    def refresh(self, budget_s: float = REFRESH_S) -> None:
        """Read what was appended. Only one thread at a time does so."""
        with self._lock:
            try:
                self._index.refresh(budget_s)
                self.problem = ""
            except (RunChanged, PalestraError) as error:
                self.problem = error.message
            except OSError as error:
                self.problem = f"{error.filename or self.place.path}: {error.strerror}"

    def wait(self, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Refresh until everything is indexed, or `is_stopped` returns True."""
        self.refresh()
        while self.progress.has_more and not (self.problem or is_stopped()):
            progress_before = self.progress
            self.refresh()
            if self.progress == progress_before:  # another viewer writes the index
                time.sleep(FOLLOWING_S)
        self.refresh(inf)  # a snapshot of all that was read

    def overview(self, *, least_age_s: float = RENEW_LIVE_S) -> Overview:
        """Return the statistics, of now or, while the run changes, at most `least_age_s` old."""
        with self._overview_lock:
            last, snapshot = self._overview, self.snapshot
            is_current = last is not None and last.snapshot.version == snapshot.version
            # statistics from before the first row was read are of no use to the page
            is_of_rows = last is not None and len(last.snapshot.rollouts) > 0
            is_recent = last is not None and time.time() - last.made_at < least_age_s
            if last is None or not (is_current or (is_of_rows and is_recent)):
                last = self._overview = Overview(snapshot, time.time())
            return last

    def head(self) -> RunHead:
        """Return what the run is, from its manifest."""
        return run_head(self.place.outputs)

    def advice(self) -> Callable[[str], str]:
        """Return what completes advice about the run, for the users of the program that collected it."""
        return advice_about(self.place.outputs)

    @property
    def title(self) -> str:
        """The name of the run, which tells it from others, and what it is: `a · sums · tiny · date`."""
        return " · ".join(filter(None, (self.place.name, self.head().title)))

    def manifest(self) -> Manifest | None:
        """Return the manifest; None without one that can be read."""
        with suppress(InputDataError):
            return read_manifest(self.paths.manifest)
        return None

    def entry(self) -> RunEntry:
        """Return the line of the run, as `palestra runs` prints it, from the index. Without a
        manifest, and with rows that cannot be joined, it has what the rows hold.
        """
        entry = run_entry(self.place.path, load=self._summary_of)
        is_recorded = with_compressed(self.paths.manifest) is not None
        return entry if is_recorded or not entry.problem else _counted_rows(entry, self.snapshot)

    def _summary_of(self, outputs: Sequence[Path]) -> RunSummary:
        if {path.absolute() for path in outputs} <= set(self.place.outputs):
            return self.overview().summary
        return summarize(load_run(None, list(outputs), allow_partial=True))

    def close(self) -> None:
        """Give up the index."""
        with self._lock:
            self._index.close()


@final
class Catalog:
    """All runs of one viewer. Use as a context manager: a thread keeps visited runs up to date."""

    def __init__(
        self,
        run_places: Places,
        *,
        group_by: str | None = None,
        cache: Path | None = None,
        find: Callable[[], Places] | None = None,
    ) -> None:
        """Create the catalog. `find`: looks for runs again, since runs begin while it is open."""
        self._places = {run_place.id: run_place for run_place in run_places.runs}
        self._clusters = {run_place.id: run_place for run_place in run_places.clusters}
        self._find = find
        self._found_at = time.monotonic()
        self._group_by, self._cache = group_by, cache
        self._conversations = TranscriptCache()
        self._open: dict[str, OpenRun] = {}
        self._entries: dict[str, _KnownEntry] = {}
        self._live: dict[Path, LiveReport] = {}
        self._asked_at = -ASK_EVERY_S
        self._due: list[tuple[RunPlace, Signature]] = []
        self._looked_at = -inf
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._work, name="viewer indexes", daemon=True)

    def __enter__(self) -> "Catalog":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._wake.set()
        self._thread.join(5.0)
        for run in self._open.values():
            run.close()

    @property
    def places(self) -> list[RunPlace]:
        """The runs, those that have begun since the start among them."""
        now = time.monotonic()
        if self._find is not None and now - self._found_at > POLL_S * 5:
            self._found_at = now
            with suppress(PalestraError):
                run_places = self._find()
                self._places |= {run_place.id: run_place for run_place in run_places.runs}
                self._clusters |= {run_place.id: run_place for run_place in run_places.clusters}
        return list(self._places.values())

    @property
    def clusters(self) -> list[ClusterPlace]:
        return list(self._clusters.values())

    def cluster(self, cluster_id: str) -> ClusterPlace:
        """Return a cluster run. Raises NoSuchRun."""
        run_place = self._clusters.get(cluster_id)
        if run_place is None:
            raise NoSuchRun(f"there is no cluster run {cluster_id[:40]!r}")
        return run_place

    def run(self, run_id: str) -> OpenRun:
        """Return a run, opened; its index is kept up to date from now on. Raises NoSuchRun."""
        run_place = self._places.get(run_id)
        if run_place is None:
            raise NoSuchRun(
                f"there is no run {run_id[:40]!r}", hint="the runs page lists those that there are"
            )
        run = self._opened(run_place, watched_at=time.monotonic())
        self._wake.set()
        return run

    def _opened(self, run_place: RunPlace, *, watched_at: float) -> OpenRun:
        """Return a run, opened once: its index has one writer."""
        with self._lock:
            run = self._open.get(run_place.id)
            if run is None:
                run = OpenRun(run_place, self._group_by, self._cache, self._conversations)
                self._open[run_place.id] = run
            run.watched_at = max(run.watched_at, watched_at)
            return run

    # Lines of the list

    def entry(self, run_place: RunPlace) -> RunEntry | None:
        """Return the line of a run; None while it is not known yet."""
        known_entry = self._entries.get(run_place.id)
        return None if known_entry is None else known_entry.entry

    def live(self, outputs: Sequence[Path]) -> LiveReport | None:
        """Return what the collection that writes one of the outputs said last; None without one."""
        self._ask()
        return next((self._live[path] for path in outputs if path in self._live), None)

    def _ask(self) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._asked_at < ASK_EVERY_S:
                return
            self._asked_at = now
        running = {Path(where.output).absolute(): where for where in announcements()}
        answers = {path: _answer(where) for path, where in running.items()}
        with self._lock:
            # one that does not answer in time keeps its last numbers, with their age
            last = {path: report for path, report in self._live.items() if path in running}
            self._live = last | {path: r for path, r in answers.items() if r is not None}

    # On the thread

    def _work(self) -> None:
        while not self._ending.is_set():
            if not (self._refresh_watched() or self._renew_one_entry()):
                self._wake.wait(POLL_S)
            self._wake.clear()

    def _refresh_watched(self) -> bool:
        """Refresh the runs that are looked at. Return whether one has more to read."""
        now = time.monotonic()
        with self._lock:
            watched = [r for r in self._open.values() if now - r.watched_at < WATCHED_S]
        is_behind = False
        for run in watched:
            run.refresh()
            is_behind |= run.progress.has_more and run.progress.is_writer and not run.problem
        return is_behind

    def _renew_one_entry(self) -> bool:
        """Compute the line of one run whose files have changed, or read on for it. Return whether
        there is more to read.
        """
        if not self._due or time.monotonic() - self._looked_at > LOOK_EVERY_S:
            self._due = self._changed_runs()
            self._looked_at = time.monotonic()
        if not self._due:
            return False
        run_place, signature = self._due[-1]
        known_entry = self._entries.get(run_place.id)
        run = self._opened(run_place, watched_at=-inf)
        try:
            if self._read_on(run):
                return True
            entry = run.entry()
        except Exception as error:  # the other runs stay up to date
            entry = _unreadable(run_place, error) if known_entry is None else known_entry.entry
        self._due.pop()
        if run.progress.has_more:  # another viewer writes the index: look again soon
            signature = ()
        self._entries[run_place.id] = _KnownEntry(signature, entry, time.monotonic())
        self._close_unwatched(run)
        self._wake.set()
        return False

    def _changed_runs(self) -> list[tuple[RunPlace, Signature]]:
        """Return the runs whose line is to be computed, the smallest last: it is computed first, so
        that a large run lets no other wait.
        """
        changed = []
        for run_place in self.places:
            signature = _signature(run_place)
            known_entry = self._entries.get(run_place.id)
            if known_entry is None or known_entry.is_due(signature):
                changed.append((run_place, signature))
        return sorted(changed, key=lambda item: -sum(stat[0] for stat in item[1] if stat))

    def _read_on(self, run: OpenRun) -> bool:
        """Read a run for a moment, so that those that are looked at do not wait for it. Return
        whether there is more to read.
        """
        run.refresh()
        if run.progress.has_more and run.progress.is_writer and not run.problem:
            return True
        run.refresh(inf)  # a snapshot of all that was read
        return False

    def _close_unwatched(self, run: OpenRun) -> None:
        with self._lock:
            if run.watched_at == -inf:
                del self._open[run.place.id]
                run.close()


@dataclass(frozen=True, slots=True)
class _KnownEntry:
    """A line of the list, and what the files were like when it was computed."""

    signature: Signature
    entry: RunEntry
    made_at: float

    def is_due(self, signature: Signature) -> bool:
        """Whether the line is to be computed again. Lines of live runs wait."""
        waits = time.monotonic() - self.made_at < RENEW_LIVE_S
        return self.signature != signature and not waits


def _signature(run_place: RunPlace) -> Signature:
    """Return what changes whenever a file of the run does."""
    files = [file for path in run_place.outputs for file in RunPaths(path).recorded()]
    return tuple(_stat(path) for path in files)


def _stat(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns


def _counted_rows(entry: RunEntry, snapshot: IndexSnapshot) -> RunEntry:
    """Return the line of a run with the counts of its rows, each of which counts as requested."""
    table = snapshot.rollouts
    scored = table.select("outcome:scored")
    unended = len(table.select('outcome:"not ended"'))
    rewards = table.numbers("reward")[scored]
    return replace(
        entry,
        state=RunState.STOPPED if unended or not len(table) else RunState.DONE,
        requested=len(table),
        scored=len(scored),
        failed=len(table) - len(scored) - unended,
        mean_reward=float(rewards.mean()) if len(rewards) else None,
    )


def _unreadable(run_place: RunPlace, error: Exception) -> RunEntry:
    """Return the line of a run whose files cannot be read."""
    moment = datetime.fromtimestamp(0, UTC)
    reason = (
        error.message if isinstance(error, PalestraError) else f"{type(error).__name__}: {error}"
    )
    problem = f"its files cannot be read: {reason}"
    return RunEntry(run_place.path, "", "", RunState.STOPPED, 0, 0, 0, None, None, moment, problem)


def _answer(where: Announcement) -> LiveReport | None:
    report = ask_collection(where)
    return None if report is None else LiveReport(report, where.started, time.monotonic())

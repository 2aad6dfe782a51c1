"""Run one collection from start to finish."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from palestra.engine import Accounting, ConcurrencyLimit, JobRoom
from palestra.errors import CallError, PalestraError, RunFailed
from palestra.rollouts.aggregate import aggregate
from palestra.rollouts.collect import CollectionLimits, Collector, Observer, Progress
from palestra.rollouts.journal import Journal, JournalFailed
from palestra.rollouts.manifest import read_manifest
from palestra.rollouts.prepare import PreparedRun, discard, overtaken
from palestra.rollouts.results import reverify_command
from palestra.schema import JsonDict
from palestra.settings import AUTO, CollectSettings
from palestra.transport import ServerClient

"""Of the manifest's digest: enough to tell the runs that one fleet serves from each other."""


class Drained(RunFailed):
    """The collection stopped starting rollouts on request. Ended rollouts are recorded, and the run
    can be resumed.
    """

    exit_code = 75  # EX_TEMPFAIL of sysexits.h: the same again goes on from here


@dataclass(frozen=True, slots=True)
class Collected:
    """A collection in which every rollout has ended, scored or not."""

    accounting: Accounting
    metrics: tuple[JsonDict, ...] = ()
    aggregation_problem: str = ""
    """The reason why the aggregation failed; empty without a failure."""

    def covered(self, minimum: float) -> bool:
        """Whether at least the share `minimum` of the requested rollouts was scored."""
        return self.accounting.coverage >= minimum


async def run(
    prepared: PreparedRun,
    settings: CollectSettings,
    client: ServerClient,
    *,
    on_start: Callable[[Progress], None] | None = None,
    observers: Sequence[Observer] = (),
    most_rollouts: int | None = None,
    draining: Callable[[], bool] | None = None,
) -> Collected:
    """Run the remaining rollouts of `prepared`, which has begun. Then check the accounting and
    aggregate the metrics.

    `most_rollouts`: the upper bound for an adaptive concurrency. `draining`: returns whether to
    start no further rollouts; if rollouts then remain, Drained is raised.

    Raises the error that ended the collection early (a rejected key, a full disk, a dead server).
    Recorded rollouts are kept, and the run can be resumed. If nothing was recorded, all files of
    the run are removed.
    """
    accounting = prepared.accounting
    limits = CollectionLimits(
        in_flight=settings.bound,
        rollout_timeout_s=settings.rollout_timeout,
        max_attempts=settings.max_attempts,
        attempt_pause_s=settings.attempt_pause_s,
        patience_s=settings.patience,
    )
    with Journal(prepared.paths) as journal:
        _confirm(prepared)
        collector = Collector(
            client,
            journal,
            accounting,
            limits=limits,
            run_id=prepared.run_id,
            observers=observers,
            room=_room(prepared, settings, client, most_rollouts),
            verified_again=reverify_command(settings),
        )
        if on_start is not None:
            on_start(collector.progress)
        try:
            rows: Iterator[JsonDict] = prepared.rows()
            if draining is not None:
                rows = itertools.takewhile(lambda _: not draining(), rows)
            await collector.collect(rows, count=prepared.remaining, failed_before=prepared.attempts)
            if draining is not None and draining():
                _check_nothing_left(accounting)
        except BaseException as error:  # also when stopped: the files must be left in order
            # While the journal is ours, and only then, are the files.
            _leave_resumable(prepared)
            raise first_cause(error) from None
    accounting.check()
    _write_counts(prepared)
    if settings.disable_aggregation or not accounting.scored:
        return Collected(accounting, (), "")
    return await _aggregated(prepared, settings, client)


async def _aggregated(
    prepared: PreparedRun, settings: CollectSettings, client: ServerClient
) -> Collected:
    """Return the collection with its environments' metrics, or with the reason why there are none."""
    try:
        # A server that hangs has cost its rollouts their deadline; it must not cost more here.
        metrics = await aggregate(
            client,
            prepared.paths.output,
            prepared.paths.aggregate_metrics,
            timeout_s=settings.rollout_timeout,
        )
    except CallError as error:
        return Collected(prepared.accounting, (), client.mask(error.message))
    except TimeoutError:
        problem = f"the environment did not answer within {settings.rollout_timeout:g} s"
        return Collected(prepared.accounting, (), problem)
    return Collected(prepared.accounting, tuple(metrics), "")


def _check_nothing_left(accounting: Accounting) -> None:
    """Raise Drained: some rollouts were not started."""
    ended_count = accounting.scored + accounting.failed
    if ended_count < accounting.requested:
        raise Drained(
            f"stopped starting rollouts, as asked: {ended_count} of {accounting.requested} have ended",
            hint="run the same command with --resume to continue",
        )


def _room(
    prepared: PreparedRun,
    settings: CollectSettings,
    client: ServerClient,
    most_in_flight: int | None,
) -> JobRoom | None:
    if settings.num_samples_in_parallel != AUTO:
        return None
    limit = ConcurrencyLimit(
        min(prepared.remaining, most_in_flight or prepared.remaining), now=time.monotonic()
    )
    return JobRoom(limit, client.retries)


def first_cause(error: BaseException) -> BaseException:
    """Return the first PalestraError inside nested exception groups, else the first error of any
    kind.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [first_cause(inner) for inner in error.exceptions]
    ours = [leaf for leaf in leaves if isinstance(leaf, PalestraError)]
    return (ours or leaves)[0]


def _confirm(prepared: PreparedRun) -> None:
    """Raise InputDataError: another run replaced the prepared one before this process locked the
    journal.
    """
    if read_manifest(prepared.paths.manifest).digest != prepared.manifest.digest:
        raise overtaken(prepared.paths)


def _leave_resumable(prepared: PreparedRun) -> None:
    if discard(prepared):
        return
    # A disk that takes nothing more is why we are here; the counts can be made anew.
    with contextlib.suppress(JournalFailed):
        _write_counts(prepared)


def _write_counts(prepared: PreparedRun) -> None:
    counts = {outcome.value: n for outcome, n in sorted(prepared.accounting.ended.items())}
    manifest = replace(prepared.manifest, ended_at=round(time.time(), 3))
    manifest.write(prepared.paths.manifest, ended_counts=counts)

"""One collection from start to finish."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from palestra.errors import CallError, PalestraError
from palestra.rollouts.accounting import Accounting
from palestra.rollouts.aggregate import aggregate
from palestra.rollouts.collect import Collector, Limits, Progress
from palestra.rollouts.journal import Journal, JournalFailed
from palestra.rollouts.prepare import PreparedRun, discard
from palestra.rollouts.settings import CollectSettings
from palestra.transport import ServerClient


@dataclass(frozen=True, slots=True)
class Collected:
    """A collection that reached its end, whether or not every rollout was scored."""

    accounting: Accounting
    metrics: tuple[dict[str, Any], ...] = ()
    aggregation_problem: str = ""
    """Why there are no metrics, when asking for them failed."""

    def covered(self, minimum: float) -> bool:
        """Whether at least that share of the requested rollouts was scored."""
        return self.accounting.coverage >= minimum


async def run(
    prepared: PreparedRun,
    settings: CollectSettings,
    client: ServerClient,
    *,
    on_start: Callable[[Progress], None] | None = None,
) -> Collected:
    """Run what remains of `prepared`, account for it, and aggregate.

    Raises what ended the collection early (a rejected key, a full disk, a dead server); what
    was recorded until then stays and can be resumed. Nothing recorded leaves no files.
    """
    accounting = prepared.accounting
    limits = Limits(
        in_flight=settings.num_samples_in_parallel,
        rollout_timeout_s=settings.rollout_timeout,
        max_attempts=settings.max_attempts,
        attempt_pause_s=settings.attempt_pause_s,
    )
    try:
        with Journal(prepared.paths) as journal:
            collector = Collector(client, journal, accounting, limits=limits)
            if on_start is not None:
                on_start(collector.progress)
            await collector.collect(
                prepared.rows(), count=prepared.remaining, failed_before=prepared.attempts
            )
    except BaseException as error:  # also when it was stopped: the files must be left in order
        _leave_resumable(prepared)
        raise first_cause(error) from None
    accounting.check()
    _write_counts(prepared)
    metrics: list[dict[str, Any]] = []
    problem = ""
    if not settings.disable_aggregation and accounting.scored:
        try:
            metrics = await aggregate(
                client, prepared.paths.output, prepared.paths.aggregate_metrics
            )
        except CallError as error:
            problem = client.mask(error.message)
        except TimeoutError:
            problem = "the environment did not answer in time"
    return Collected(accounting, tuple(metrics), problem)


def first_cause(error: BaseException) -> BaseException:
    """The first failure of ours inside exception groups, else the first of any kind."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [first_cause(inner) for inner in error.exceptions]
    ours = [leaf for leaf in leaves if isinstance(leaf, PalestraError)]
    return (ours or leaves)[0]


def _leave_resumable(prepared: PreparedRun) -> None:
    if discard(prepared):
        return
    # A disk that takes nothing more is why we are here; the counts can be made anew.
    with contextlib.suppress(JournalFailed):
        _write_counts(prepared)


def _write_counts(prepared: PreparedRun) -> None:
    counts = {outcome.value: n for outcome, n in sorted(prepared.accounting.ended.items())}
    prepared.manifest.write(prepared.paths.manifest, ended=counts)

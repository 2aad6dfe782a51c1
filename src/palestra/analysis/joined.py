"""Makes the frame of a run from rows that are joined and in key order. Does no I/O."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from palestra.analysis.frame import (
    NO_OUTCOME,
    SCORED,
    SCORED_CODE,
    AgentName,
    Endings,
    FailedRequests,
    RequestedRollouts,
    RequestLabels,
    RowPositions,
    RunFrame,
)
from palestra.analysis.manifests import MissingShards
from palestra.analysis.tables import FailedAttempt, RowPlace
from palestra.metrics import BoolArray, Columns, IntArray, Keys, Rollouts, TaskIndex
from palestra.schema import Remedy, Unscored, the_command


@dataclass(frozen=True, slots=True)
class JoinedRun:
    """The rows of a run in key order: of its requests, and of those that were scored.

    `requests`: their keys; `requests.task` are positions in `tasks`, which are in task order.
    `failures`: the last failed attempt of each request with one, by the request's position.
    `unmatched_failures`: how many failed keys no request has.
    """

    tasks: Sequence[TaskIndex]
    requests: Keys
    request_places: RowPositions
    scored: BoolArray
    columns: Columns
    rollout_places: RowPositions
    endings: Endings
    agents: RequestLabels[AgentName]
    families: RequestLabels[str] | None
    failures: Mapping[int, FailedAttempt]
    failure_files: Sequence[Path]
    unmatched_failures: int
    notices: tuple[str, ...]
    missing_shards: MissingShards | None


def joined_frame(joined: JoinedRun) -> RunFrame:
    """Return the frame of a run."""
    # a failure is an outcome only for a request without a scored attempt
    failures = {at: joined.failures[at] for at in sorted(joined.failures) if not joined.scored[at]}
    outcome, names = _outcomes(joined.scored, failures)
    missing = joined.missing_shards
    never_ended = int(np.sum(outcome == NO_OUTCOME)) + (missing.rollouts if missing else 0)
    scored = joined.requests
    if not joined.scored.all():
        scored = joined.requests.take(np.flatnonzero(joined.scored))
    return RunFrame(
        requests=RequestedRollouts(
            joined.tasks, joined.requests, joined.request_places, outcome, names
        ),
        rollouts=Rollouts.of_sorted(joined.tasks, scored, joined.columns),
        agents=joined.agents,
        rollout_places=joined.rollout_places,
        endings=joined.endings,
        families=joined.families,
        notices=(
            *joined.notices,
            *_unmatched(joined.unmatched_failures),
            *([str(missing)] if missing else ()),
        ),
        missing_shards=missing,
        unscored=_unscored(failures, never_ended=never_ended),
        failed=_failed(failures, joined.failure_files),
    )


def _outcomes(
    scored: BoolArray, failures: Mapping[int, FailedAttempt]
) -> tuple[IntArray, tuple[str, ...]]:
    """Return the outcome of each request, and the names of the outcomes."""
    outcome = np.where(scored, SCORED_CODE, NO_OUTCOME)
    classes = {failure.failure_class for failure in failures.values()}
    names = (SCORED, *sorted(classes - {SCORED}))
    codes = {name: code for code, name in enumerate(names)}
    for position, failure in failures.items():
        outcome[position] = codes[failure.failure_class]
    return outcome, names


def _unscored(failures: Mapping[int, FailedAttempt], *, never_ended: int) -> Unscored:
    remedies = Counter(failure.remedy for failure in failures.values())
    remedies[Remedy.RESUME] += never_ended
    recorded = (failure.reverify for failure in failures.values() if failure.answered)
    return Unscored(remedies, the_command(set(filter(None, recorded))))


def _unmatched(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return (f"{count} keys of the failures file have no materialized row and do not count",)


def _failed(failures: Mapping[int, FailedAttempt], files: Sequence[Path]) -> FailedRequests:
    """Return the failed requests. `failures`: by position in the requests, ascending."""
    attempts = list(failures.values())
    answer_places = [attempt.answer_place or RowPlace(0, -1) for attempt in attempts]
    return FailedRequests(
        np.fromiter(failures, np.int64, len(failures)),
        _row_positions([attempt.place for attempt in attempts], files),
        _row_positions(answer_places, files),
        [attempt.remedy for attempt in attempts],
    )


def _row_positions(row_places: Sequence[RowPlace], files: Sequence[Path]) -> RowPositions:
    columns = np.array(row_places, dtype=np.int64).reshape(-1, 2)
    return RowPositions(files, columns[:, 0], columns[:, 1])

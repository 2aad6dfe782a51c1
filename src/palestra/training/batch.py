"""The accounting of one submission: the requested rollouts, how each ended, and the errors to
raise.

This module does no I/O. Each rollout ends once, and its outcome waits until it is taken. In the
meantime a policy may change the outcome: its group was dropped, or its weights have become too old.
"""

import asyncio
import heapq
import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, final

from msgspec.structs import replace

from palestra.engine import JobStage
from palestra.errors import Layer
from palestra.training.errors import BatchFailed, Cause, IncompleteRollouts, NoTokenIds
from palestra.training.failing import failed
from palestra.training.groups import Group
from palestra.training.jobs import Arrived, TrainingJob
from palestra.training.outcomes import Completed, Failed, FailureClass, Outcome, Summary
from palestra.training.policies import OnIncomplete, Outage
from palestra.training.requests import Key
from palestra.training.settings import ClientSettings
from palestra.training.staleness import continued, is_stale, stale
from palestra.training.tokens import INCOMPLETE_CAPTURE

COMPLETED: Final = "completed"
_WHOLE_GROUPS: Final = frozenset({OnIncomplete.RAISE, OnIncomplete.DROP_GROUP})
_ROUNDING: Final = 1e-9
_SEVERAL: Final = 2
INTENDED: Final = frozenset({FailureClass.CANCELLED, FailureClass.STALE})
"""Failures that the trainer caused: by cancelling, or by its limit on staleness."""


@final
class Batch:
    """One submission. `jobs` are in the order of the requests."""

    def __init__(self, jobs: Iterable[TrainingJob], settings: ClientSettings) -> None:
        self._settings = settings
        self.policies = settings.policies
        self.jobs: dict[Key, TrainingJob] = {job.request.key: job for job in jobs}
        self.members: dict[int | str, list[Key]] = defaultdict(list)
        for job in self.jobs.values():
            self.members[job.request.group].append(job.request.key)
        self._ended: dict[Key, str] = {}
        """Key -> `completed`, or the class of its failure."""
        self._counts: Counter[str] = Counter()
        """The number of rollouts by how they ended."""
        self._masked: set[Key] = set()
        self._without_ids = ""
        """Why token ids are not all there, of the first rollout of which that is so."""
        self.has_ids = False
        """Whether any rollout brought token ids."""
        self._truncated = 0
        self.retried = 0
        self.arrived: deque[Arrived] = deque()
        self.waiting_bytes = 0
        self._dropped: dict[int | str, str] = {}
        """Group -> why it was dropped."""
        self._lost: Counter[int | str] = Counter()
        """Failed members that nobody asked to fail, by group."""
        self._missing: set[Key] = set()
        """Rollouts that failed though nobody asked them to, and those dropped with their group."""
        self._outages: dict[Key, Outage] = {}
        """Rollouts that an outage ended."""
        self._first_failure: Failed | None = None
        self.error: BatchFailed | None = None
        self._cancelled_by_trainer = 0

    # What happens to rollouts

    def settle(self, outcome: Outcome, size: int = 0, outage: Outage | None = None) -> bool:
        """Record the outcome of a rollout. Return False when it already had one; the new one is
        then ignored.

        `outage`: the outage that ended the rollout, if any.
        """
        if outcome.key in self._ended:
            return False
        if outage is not None:
            self._outages[outcome.key] = outage
        if isinstance(outcome, Failed):
            agent = outcome.agent or self.jobs[outcome.key].agent
            outcome = replace(outcome, agent=agent)
        self._record(outcome)
        self.arrived.append(Arrived(outcome, size))
        self.waiting_bytes += size
        return True

    def _record(self, outcome: Outcome) -> None:
        key = outcome.key
        if key in self._ended:
            self._counts[self._ended[key]] -= 1
        self._ended[key] = COMPLETED if isinstance(outcome, Completed) else outcome.failure.value
        self._counts[self._ended[key]] += 1
        if isinstance(outcome, Completed):
            self._truncated += outcome.truncated
            self._note_ids(outcome)
            if outcome.masked:
                self._masked.add(key)
            return
        if outcome.failure not in INTENDED:
            self._first_failure = self._first_failure or outcome
            self._lost[outcome.group_id] += 1
            self._missing.add(key)

    def _note_ids(self, outcome: Completed) -> None:
        self.has_ids = self.has_ids or bool(outcome.chains)
        if outcome.mask_reason.startswith(INCOMPLETE_CAPTURE):
            self._without_ids = self._without_ids or outcome.mask_reason

    def has_ended(self, job: TrainingJob) -> bool:
        """Whether a rollout has its outcome, even if its asyncio task still runs."""
        return job.request.key in self._ended

    def leftover(self) -> list[Outcome]:
        """Return the outcomes that nobody has taken, and remove them."""
        waiting = [arrival.outcome for arrival in self.arrived]
        self.arrived.clear()
        self.waiting_bytes = 0
        return waiting

    @property
    def pending(self) -> int:
        """The number of rollouts that have not ended."""
        return len(self.jobs) - len(self._ended)

    @property
    def completed(self) -> int:
        """The number of rollouts with a reward."""
        return self._counts[COMPLETED]

    def unfinished(self, keys: Iterable[Key] | None = None) -> list[TrainingJob]:
        """Return the jobs that have not ended, in the order of their requests. `keys`: only these."""
        if keys is None:
            return [job for job in self.jobs.values() if job.request.key not in self._ended]
        jobs = [self.jobs[key] for key in keys if key not in self._ended]
        return sorted(jobs, key=lambda job: job.number)

    # Policies

    def policy_for(self, outcome: Failed) -> OnIncomplete:
        """Return the policy that applies to a failure."""
        outage = self._outages.get(outcome.key)
        if outage is not None:
            return self.policies.for_outage(outage)
        return self.policies.for_failure(outcome.failure)

    @property
    def too_few(self) -> bool:
        """Whether fewer rollouts than `min_fraction` of the batch can still complete."""
        returnable = len(self.jobs) - len(self._missing)
        return bool(self._missing) and returnable < self._least

    @property
    def _least(self) -> int:
        """The smallest number of rollouts that must come back."""
        return math.ceil(self._settings.min_fraction * len(self.jobs) - _ROUNDING)

    def hopeless_group(self, group: int | str) -> bool:
        """Whether a group has lost members and can no longer have as many as it needs."""
        size = len(self.members[group])
        return self._lost[group] > 0 and size - self._lost[group] < self._needed(size)

    def _needed(self, size: int) -> float:
        """Return how many members a group of `size` needs when some have failed."""
        share = self._settings.min_group_fraction
        return size if share is None else share * size

    def drop_group(self, group: int | str, why: str) -> list[TrainingJob]:
        """Drop a group. Return its jobs that have not ended."""
        self._dropped[group] = why
        if self._lost[group]:
            self._missing.update(self.members[group])
        members = (self.jobs[key] for key in self.members[group])
        return [job for job in members if job.request.key not in self._ended]

    def take(self, weights: int | None) -> Outcome | None:
        """Return the next waiting outcome; None when none waits. `weights`: the current version."""
        if not self.arrived:
            return None
        waiting = self.arrived.popleft()
        self.waiting_bytes -= waiting.size
        return self.looked_at(waiting.outcome, weights)

    def looked_at(self, outcome: Outcome, weights: int | None) -> Outcome:
        """Return the outcome, or a failure in its place if it is no longer wanted. Update the
        accounting then.

        An outcome may have become unwanted while it waited: its group was dropped, or its weights
        are too old now.
        """
        if not isinstance(outcome, Completed):
            return outcome
        instead = self._not_wanted(outcome, weights)
        if instead is None:
            return self._continued(outcome, weights)
        self._masked.discard(outcome.key)
        self._truncated -= outcome.truncated
        self._record(instead)
        return instead

    def _continued(self, outcome: Completed, weights: int | None) -> Completed:
        """Return a rollout, with the turns marked that are too old when the policy is `continue`."""
        marked = continued(outcome, weights, self._settings)
        if marked.masked:
            self._masked.add(outcome.key)
        return marked

    def all_of(self, outcomes: dict[Key, Outcome], weights: int | None) -> list[Outcome]:
        """Return all outcomes as they are now, in the order of the requests.

        Drops each group that is too small because of failures whose policy is `drop_group`.
        """
        now = {key: self.looked_at(outcome, weights) for key, outcome in outcomes.items()}
        lost: dict[int | str, list[Failed]] = defaultdict(list)
        for outcome in now.values():
            if isinstance(outcome, Failed):
                lost[outcome.group_id].append(outcome)
        for group, failures in lost.items():
            members = self.members[group]
            breaking = [
                failure
                for failure in failures
                if self.policy_for(failure) is OnIncomplete.DROP_GROUP
            ]
            if not breaking or len(members) - len(failures) >= self._needed(len(members)):
                continue
            if group not in self._dropped:
                self.drop_group(group, f"rollout {breaking[0].key} is missing")
            now |= {key: self.looked_at(now[key], weights) for key in members}
        return [now[key] for key in self.jobs]

    def _not_wanted(self, outcome: Completed, weights: int | None) -> Failed | None:
        if outcome.group_id in self._dropped:
            failure = FailureClass.CANCELLED
            why = f"its group was dropped: {self._dropped[outcome.group_id]}"
        elif is_stale(outcome, weights, self._settings):
            failure = FailureClass.STALE
            why = stale(outcome.oldest_weights, weights, self._settings.max_staleness)
        else:
            return None
        request = self.jobs[outcome.key].request
        instead = failed(request, failure, why, attempts=outcome.attempt)
        return replace(instead, agent=outcome.agent)

    def group_of(
        self, group: int | str, outcomes: dict[Key, Outcome], weights: int | None
    ) -> Group | None:
        """Return a group whose members have all ended, as its policy requires; None when it is not
        handed out.

        `outcomes`: the members' outcomes as they were taken.
        """
        ordered = [self.looked_at(outcomes[key], weights) for key in self.members[group]]
        completed = Group(group, ordered).completed
        if group in self._dropped:
            return None
        if not self._enough(ordered, len(completed)):
            # Its completed members are not handed out, so the books do not count them.
            self.drop_group(group, f"{len(completed)} of {len(ordered)} rollouts of it are left")
            for outcome in completed:
                self.looked_at(outcome, weights)
            return None
        members = [outcome for outcome in ordered if self._in_group(outcome)]
        return Group(group, members, left_out=len(ordered) - len(members))

    def _enough(self, members: list[Outcome], completed: int) -> bool:
        """Whether a group has enough members to be handed out."""
        if self._settings.min_group_fraction is not None:
            return completed >= self._needed(len(members))
        return completed > 0 and not any(
            isinstance(member, Failed) and self.policy_for(member) in _WHOLE_GROUPS
            for member in members
        )

    def _in_group(self, outcome: Outcome) -> bool:
        """Whether an outcome belongs to the group that the trainer gets: it is completed, or masked."""
        return isinstance(outcome, Completed) or self.policy_for(outcome) is OnIncomplete.MASK

    # What is said

    def incomplete(
        self,
        cause: Cause | None = None,
        log_tails: dict[str, tuple[str, ...]] | None = None,
        *,
        failure: Failed | None = None,
        short: bool = False,
    ) -> IncompleteRollouts:
        """Return the error that lists the rollouts that are missing now.

        Without a `cause` the cause is `failure`, and without both the first failure. `short`: the
        error is raised because fewer rollouts can come back than `min_fraction` requires.
        """
        missing = tuple(key for key in self.jobs if self._ended.get(key) != COMPLETED)
        kinds = Counter(self._ended.get(key, "unfinished") for key in missing)
        first = failure or self._first_failure
        tails = dict(log_tails or {})
        if cause is None:
            cause = cause_of(first)
            if first is not None and first.evidence.log_tail:
                tails[first.evidence.where or "its server"] = tuple(first.evidence.log_tail)
        return IncompleteRollouts(
            requested=len(self.jobs),
            least=self._least if short else None,
            received=self.completed,
            missing=missing,
            cause=cause,
            failures=dict(kinds),
            log_tails=tails,
        )

    def blind(self, *, seen_before: bool) -> NoTokenIds | None:
        """Return the error for a batch that has ended without any token ids although they were
        requested.

        `seen_before`: other batches had token ids, so one rollout without them is no error.
        """
        if not self._without_ids or self.has_ids or (seen_before and self.completed < _SEVERAL):
            return None
        return NoTokenIds(self.completed, self._without_ids)

    def cancelled(self, count: int) -> None:
        """Count rollouts that the trainer has cancelled."""
        self._cancelled_by_trainer += count

    @property
    def came_to_nothing(self) -> bool:
        """Whether all rollouts have ended, none with a reward, and not all were cancelled by the
        trainer.
        """
        return self.wanted > 0 and not self.pending and not self.completed

    @property
    def wanted(self) -> int:
        """The number of rollouts that the trainer requested and did not cancel."""
        return len(self.jobs) - self._cancelled_by_trainer

    def summary(self) -> Summary:
        """Return the counts of the batch."""
        failed_counts = {
            kind: count for kind, count in self._counts.items() if count and kind != COMPLETED
        }
        return Summary(
            requested=len(self.jobs),
            completed=self.completed,
            failed=failed_counts,
            pending=self.pending,
            masked=len(self._masked),
            truncated=self._truncated,
            retried=self.retried,
        )


def cause_of(first: Failed | None) -> Cause:
    """Return the cause that the first failure of a batch gives."""
    if first is None:
        return Cause(sentence="no rollout was left to train on")
    return Cause(
        sentence=f"rollout {first.key} failed ({first.failure.value}, {first.layer}) in attempt "
        f"{first.attempts}: {first.message}",
        setting=first.evidence.hint,
    )


@dataclass(slots=True, eq=False)
class Lane:
    """One batch while the pool runs it."""

    batch: Batch
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a rollout has ended or the batch has failed."""
    running: int = 0
    """The number of jobs whose task has not ended, with or without an outcome."""
    queue: list[TrainingJob] = field(default_factory=list)
    """A heap; jobs that have already ended are removed when they reach the top."""
    timers: list[asyncio.TimerHandle] = field(default_factory=list)

    def head(self) -> TrainingJob | None:
        """Return the next job to start; None without one."""
        while self.queue and self.queue[0].state is not JobStage.QUEUED:
            heapq.heappop(self.queue)
        return self.queue[0] if self.queue else None


@dataclass(frozen=True, slots=True)
class Halt:
    """Why no rollout can come back: permanently when servers died, temporarily when one is stuck."""

    outage: Outage
    layer: Layer
    cause: Cause
    log_tails: dict[str, tuple[str, ...]] = field(default_factory=dict)

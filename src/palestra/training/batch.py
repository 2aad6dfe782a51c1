"""The books of one submission: which rollouts were asked for, how each ended, what is to be said.

No I/O here. Each rollout ends once; an outcome waits until it is taken, and what a policy decides
meanwhile (its group was dropped, its weights have become too old) changes what is taken.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from typing import Final, final

from palestra.training.errors import BatchFailed, Cause, IncompleteRollouts, NoTokenIds
from palestra.training.failing import failed
from palestra.training.flights import Arrived, State, Ticket
from palestra.training.outcomes import Completed, Failed, FailureClass, Group, Outcome, Summary
from palestra.training.requests import Key
from palestra.training.settings import ClientSettings, OnIncomplete, OnStale
from palestra.training.tokens import INCOMPLETE_CAPTURE

COMPLETED: Final = "completed"
_SEVERAL: Final = 2
INTENDED: Final = frozenset({FailureClass.CANCELLED, FailureClass.STALE})
"""Failures that the trainer asked for: by cancelling, or by its limit on staleness."""


@final
class Batch:
    """One submission. `tickets` are in the order of the requests."""

    def __init__(self, tickets: Iterable[Ticket], settings: ClientSettings) -> None:
        self._settings = settings
        self.tickets: dict[Key, Ticket] = {ticket.key: ticket for ticket in tickets}
        self.members: dict[int | str, list[Key]] = defaultdict(list)
        for ticket in self.tickets.values():
            self.members[ticket.request.group].append(ticket.key)
        self._ended: dict[Key, str] = {}
        """Key -> `completed`, or the class of its failure."""
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
        self._first_failure: Failed | None = None
        self.error: BatchFailed | None = None
        self._cancelled_by_trainer = 0

    # What happens to rollouts

    def settle(self, outcome: Outcome, size: int = 0) -> bool:
        """A rollout has ended; False when it had already, and this does not count."""
        ticket = self.tickets[outcome.key]
        if ticket.state is State.ENDED:
            return False
        ticket.state = State.ENDED
        self._record(outcome)
        self.arrived.append(Arrived(outcome, size))
        self.waiting_bytes += size
        return True

    def _record(self, outcome: Outcome) -> None:
        key = outcome.key
        if isinstance(outcome, Completed):
            self._ended[key] = COMPLETED
            self._truncated += outcome.truncated
            self._note_ids(outcome)
            if outcome.masked:
                self._masked.add(key)
            return
        self._ended[key] = outcome.failure.value
        if outcome.failure not in INTENDED:
            self._first_failure = self._first_failure or outcome
            self._lost[outcome.group_id] += 1

    def _note_ids(self, outcome: Completed) -> None:
        self.has_ids = self.has_ids or bool(outcome.chains)
        if outcome.mask_reason.startswith(INCOMPLETE_CAPTURE):
            self._without_ids = self._without_ids or outcome.mask_reason

    @property
    def pending(self) -> int:
        """Rollouts that have not ended."""
        return len(self.tickets) - len(self._ended)

    @property
    def completed(self) -> int:
        """Rollouts with a reward."""
        return sum(kind == COMPLETED for kind in self._ended.values())

    def unfinished(self) -> list[Ticket]:
        """Those that have not ended, in the order of their requests."""
        return [ticket for ticket in self.tickets.values() if ticket.state is not State.ENDED]

    # Policies

    def hopeless_group(self, group: int | str) -> bool:
        """Whether a group can no longer reach the share of completed members that it needs."""
        size = len(self.members[group])
        return size - self._lost[group] < self._needed(size)

    def _needed(self, size: int) -> float:
        share = self._settings.min_group_fraction
        if share is not None:
            return share * size
        whole = self._settings.on_incomplete in {OnIncomplete.RAISE, OnIncomplete.DROP_GROUP}
        return size if whole else 1

    def drop_group(self, group: int | str, why: str) -> list[Ticket]:
        """Nothing of this group is wanted any more; those of it that have not ended."""
        self._dropped[group] = why
        members = (self.tickets[key] for key in self.members[group])
        return [ticket for ticket in members if ticket.state is not State.ENDED]

    def take(self, weights: int | None) -> Outcome | None:
        """The next outcome to be handed out; None when none waits. `weights`: the version now."""
        if not self.arrived:
            return None
        waiting = self.arrived.popleft()
        self.waiting_bytes -= waiting.size
        return self.looked_at(waiting.outcome, weights)

    def looked_at(self, outcome: Outcome, weights: int | None) -> Outcome:
        """The outcome as it is to be handed out now, the books put right where it is another one.

        What has been held since it was taken is looked at again: its group may have been dropped
        meanwhile, its weights may have become too old.
        """
        if not isinstance(outcome, Completed):
            return outcome
        instead = self._not_wanted(outcome, weights)
        if instead is None:
            return outcome
        self._masked.discard(outcome.key)
        self._truncated -= outcome.truncated
        self._record(instead)
        return instead

    def all_of(self, found: dict[Key, Outcome], weights: int | None) -> list[Outcome]:
        """Every outcome, in the order of the requests, as they are to be handed out now.

        With `drop_group` nothing is left of a group that lacks members, for whatever reason.
        """
        now = {key: self.looked_at(outcome, weights) for key, outcome in found.items()}
        if self._settings.on_incomplete is OnIncomplete.DROP_GROUP:
            for group, members in self.members.items():
                lost = [key for key in members if not isinstance(now[key], Completed)]
                if len(members) - len(lost) >= self._needed(len(members)):
                    continue
                self._dropped.setdefault(group, f"rollout {lost[0]} is missing")
                now |= {key: self.looked_at(now[key], weights) for key in members}
        return [now[key] for key in self.tickets]

    def _not_wanted(self, outcome: Completed, weights: int | None) -> Failed | None:
        request = self.tickets[outcome.key].request
        if outcome.group_id in self._dropped:
            return failed(
                request,
                FailureClass.CANCELLED,
                f"its group was dropped: {self._dropped[outcome.group_id]}",
                attempts=outcome.attempt,
            )
        if self._settings.on_stale is not OnStale.KEEP and too_old(
            outcome.oldest_weights, weights, self._settings.max_staleness
        ):
            return failed(
                request,
                FailureClass.STALE,
                stale(outcome.oldest_weights, weights, self._settings.max_staleness),
                attempts=outcome.attempt,
            )
        return None

    def group_of(
        self, group: int | str, outcomes: dict[Key, Outcome], weights: int | None
    ) -> Group | None:
        """A group whose members have all ended, as the policy hands it out; None when it does not.

        `outcomes`: those of its members, since they were taken.
        """
        ordered = [self.looked_at(outcomes[key], weights) for key in self.members[group]]
        whole = Group(group, ordered)
        found = whole.completed
        if group in self._dropped:
            return None
        if len(found) < self._needed(len(ordered)):
            # Its completed members are not handed out, so the books do not count them.
            self._dropped[group] = f"{len(found)} of {len(ordered)} rollouts of it are left"
            for outcome in found:
                self.looked_at(outcome, weights)
            return None
        if self._settings.on_incomplete is OnIncomplete.MASK:
            return whole
        return Group(group, list(found))

    # What is said

    def incomplete(
        self, cause: Cause | None = None, log_tails: dict[str, tuple[str, ...]] | None = None
    ) -> IncompleteRollouts:
        """The error that says what is missing now. Without a `cause` it is the first failure's."""
        missing = tuple(key for key in self.tickets if self._ended.get(key) != COMPLETED)
        kinds = Counter(self._ended.get(key, "unfinished") for key in missing)
        first = self._first_failure
        tails = dict(log_tails or {})
        if cause is None:
            cause = _cause_of(first)
            if first is not None and first.evidence.log_tail:
                tails[first.evidence.where or "its server"] = tuple(first.evidence.log_tail)
        return IncompleteRollouts(
            requested=len(self.tickets),
            received=self.completed,
            missing=missing,
            cause=cause,
            failures=dict(kinds),
            log_tails=tails,
        )

    def blind(self, *, seen_before: bool) -> NoTokenIds | None:
        """The error of a batch that has ended with no token ids in it, though they were asked for.

        `seen_before`: other batches had some, so that one lost rollout alone is only that.
        """
        if not self._without_ids or self.has_ids or (seen_before and self.completed < _SEVERAL):
            return None
        return NoTokenIds(self.completed, self._without_ids)

    def cancelled(self, count: int) -> None:
        """The trainer did not want so many."""
        self._cancelled_by_trainer += count

    @property
    def came_to_nothing(self) -> bool:
        """Whether nothing came back of what was asked for, and not because it was cancelled."""
        return self.wanted > 0 and not self.pending and not self.completed

    @property
    def wanted(self) -> int:
        """Rollouts that were asked for and not cancelled by who asked."""
        return len(self.tickets) - self._cancelled_by_trainer

    def summary(self) -> Summary:
        """The books."""
        kinds = Counter(self._ended.values())
        completed = kinds.pop(COMPLETED, 0)
        return Summary(
            requested=len(self.tickets),
            completed=completed,
            failed=dict(kinds),
            pending=self.pending,
            masked=len(self._masked),
            truncated=self._truncated,
            retried=self.retried,
        )


def too_old(sampled: int | None, now: int | None, most: int | None) -> bool:
    """Whether tokens of version `sampled` are older than `most` versions."""
    return None not in (sampled, now, most) and now - sampled > most  # type: ignore[operator]  # none of them is None


def stale(sampled: int | None, now: int | None, most: int | None) -> str:
    """The sentence for it."""
    return (
        f"its oldest tokens are of weight version {sampled}, and the weights are at {now}: "
        f"more than max_staleness={most} apart"
    )


def _cause_of(first: Failed | None) -> Cause:
    if first is None:
        return Cause(sentence="no rollout was left to train on")
    return Cause(
        sentence=f"rollout {first.key} failed ({first.failure.value}, {first.layer}) in attempt "
        f"{first.attempts}: {first.message}",
        setting=first.evidence.hint,
    )

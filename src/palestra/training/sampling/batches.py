"""`GroupBatch`: groups that are sampled by a rule, on any client.

async with over_sample(client, requests, OverSampling(needed=7)) as batch:
    async for group in batch:
        train_on(group)
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self, final

from palestra.training.batch import COMPLETED, INTENDED, cause_of
from palestra.training.batch_metrics import BatchMeter, metrics_line
from palestra.training.checks import instance_of, require
from palestra.training.contract import RolloutSource, Submission
from palestra.training.errors import BatchFailed, Cause, IncompleteRollouts
from palestra.training.groups import Group
from palestra.training.outcomes import Completed, FailureClass, Outcome
from palestra.training.policies import OnIncomplete
from palestra.training.requests import Key, RolloutRequest, requests_in
from palestra.training.sampling.drawing import Drawing, DrawnGroup
from palestra.training.sampling.queues import FreshGroups
from palestra.training.sampling.rules import (
    FAILURES_SEEN,
    DynamicSampling,
    OverSampling,
    SamplingReport,
)
from palestra.training.staleness import continued, is_stale

logger = logging.getLogger("palestra.training")


def over_sample(
    source: RolloutSource,
    requests: Iterable[RolloutRequest],
    rule: OverSampling,
    *,
    deadline_s: float | None = None,
) -> "GroupBatch":
    """Sample the groups of these requests, `rule.needed` members each.

    Raises ConfigError: the rule is invalid. Raises InputDataError: a group has too few members.
    `deadline_s`: the time in which all of them must end.
    """
    require("the rule", rule, instance_of(OverSampling, "an OverSampling(needed=7)"))
    return GroupBatch(source, rule.checked(), requests_in(requests), deadline_s=deadline_s)


def dynamic_sample(
    source: RolloutSource,
    queue: Iterator[Sequence[RolloutRequest]],
    rule: DynamicSampling,
    *,
    deadline_s: float | None = None,
) -> "GroupBatch":
    """Sample `rule.groups` groups whose rewards differ, from a queue with one group for each task.

    What the batch does not use stays in the queue, for the next batch. Raises ConfigError: the rule
    is invalid. Raises InputDataError: the queue has too few groups, or a group too few members.
    `deadline_s`: the time in which each group must end, from its start.
    """
    require("the rule", rule, instance_of(DynamicSampling, "a DynamicSampling(groups=64, …)"))
    fresh = FreshGroups(iter(queue), rule.checked())
    first = [request for group in fresh.first() for request in group]
    return GroupBatch(source, rule.members, first, fresh, deadline_s=deadline_s)


@final
class GroupBatch:
    """A batch of groups. Use it with `async with`, and iterate over it once: each group is yielded
    as soon as it is decided.

    Raises IncompleteRollouts: a group has too few members left and the policy is `raise`, or no
    group was returned. Raises NotEnoughSpread: dynamic sampling cannot return as many groups as
    requested.
    """

    def __init__(
        self,
        source: RolloutSource,
        rule: OverSampling,
        requests: Sequence[RolloutRequest],
        fresh: FreshGroups | None = None,
        *,
        deadline_s: float | None = None,
    ) -> None:
        self._source = source
        self._rule = rule
        self._fresh = fresh
        self._deadline_s = deadline_s
        self._first = _Part(Drawing(requests, rule), requests)
        self._parts: list[_Part] = []
        self._running = 0
        """The number of parts that have not ended."""
        self._results: asyncio.Queue[DrawnGroup | Exception | None] = asyncio.Queue()
        """The groups to return, and errors; None wakes whoever waits when a part has ended."""
        self._counts: Counter[str] = Counter()
        self._returned: set[int | str] = set()
        self._meter = BatchMeter()
        self._ended: dict[Key, str] = {}
        """Key -> `completed`, or the class of its failure."""

    async def __aenter__(self) -> Self:
        self._start(self._first)
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Cancel the rollouts that have not ended, and wait for their end."""
        del raised
        await self.aclose()

    async def __aiter__(self) -> AsyncIterator[Group]:
        """Yield each group as soon as it is decided."""
        if not self._parts:
            raise RuntimeError("the batch has not been entered: `async with over_sample(…)`")
        while (result := await self._next_result()) is not None:
            if isinstance(result, Exception):
                raise self._with_outcomes(result)
            group = self._handed_out(result)
            if group is not None:
                yield group
        self._check_end()
        logger.info("%s", metrics_line(self.metrics()))

    async def _next_result(self) -> "DrawnGroup | Exception | None":
        """Return the next group or error; None when all parts have ended and none waits."""
        while self._running or not self._results.empty():
            result = await self._results.get()
            if result is not None:
                return result
        return None

    def _handed_out(self, drawn: DrawnGroup) -> Group | None:
        """Return a group as it is now; None when a member has become too old while it waited. A
        fresh group may start in its place.
        """
        group, now, settings = drawn.result, self._source.weight_version, self._source.settings
        if group is None:
            return None
        old = [member for member in group.completed if is_stale(member, now, settings)]
        if old:
            self._ended |= {member.key: FailureClass.STALE.value for member in old}
            self._counts["stale_groups"] += 1
            self._replace(drawn)
            return None
        self._counts["returned_groups"] += 1
        self._returned.add(group.group_id)
        members = [continued(member, now, settings) for member in group.completed]
        return Group(group.group_id, [*members])

    async def gather(self) -> list[Group]:
        """Return all groups, in the order of their requests."""
        groups = {group.group_id: group async for group in self}
        order = [name for part in self._parts for name in part.drawing.groups]
        return [groups[name] for name in order if name in groups]

    async def aclose(self) -> None:
        """Cancel the rollouts that have not ended, and wait for their end."""
        tasks = [part.task for part in self._parts if part.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def report(self) -> SamplingReport:
        """What was sampled so far."""
        counts = sum((part.drawing.counts for part in self._parts), Counter(self._counts))
        groups = sum(len(part.drawing.groups) for part in self._parts)
        return SamplingReport(needed=self._rule.needed, submitted_groups=groups, **counts)

    def metrics(self, *, weight_version: int | None = None) -> dict[str, float]:
        """Return the batch in numbers: those of `batch_metrics` for every rollout that has ended,
        returned or not, and `sampling/NAME` for the report.
        """
        return self._meter.metrics(weight_version=weight_version) | self.report.metrics()

    # One submission

    def _start(self, part: "_Part") -> None:
        submission = self._source.submit(
            part.requests,
            deadline_s=self._deadline_s,
            on_incomplete=FAILURES_SEEN,
            min_fraction=0.0,
        )
        self._parts.append(part)
        self._running += 1
        part.task = asyncio.create_task(self._run(part, submission), name="group sampling")

    async def _run(self, part: "_Part", submission: Submission) -> None:
        """Take the outcomes of a submission, and decide its groups."""
        try:
            async with submission:
                while (outcome := await _next_of(submission, part.drawing)) is not None:
                    self._take(part, submission, outcome)
        except Exception as error:  # raised to whoever iterates
            self._results.put_nowait(error)
        finally:
            self._running -= 1
            self._results.put_nowait(None)

    def _take(self, part: "_Part", submission: Submission, outcome: Outcome) -> None:
        self._meter.add(outcome)
        self._ended[outcome.key] = (
            COMPLETED if isinstance(outcome, Completed) else outcome.failure.value
        )
        for group in part.drawing.end(outcome):
            running = group.running
            if running:
                self._counts["cancelled"] += len(running)
                submission.cancel(running)
            self._decided(group)

    def _decided(self, group: DrawnGroup) -> None:
        """Return a group, or start a fresh one in its place."""
        if group.result is None:
            self._raise_if_missing(group)
        elif self._fresh is None or self._fresh.has_spread(group.result):
            self._results.put_nowait(group)
            return
        else:
            self._counts["without_spread"] += 1
        self._replace(group)

    def _replace(self, group: DrawnGroup) -> None:
        """Forget a group that is not returned, and start a fresh one in its place if there is one."""
        group.outcomes.clear()
        requests = None if self._fresh is None else self._fresh.next()
        if requests is not None:
            self._counts["fresh_groups"] += 1
            self._start(_Part(Drawing(requests, self._rule), requests))

    # Errors

    def _raise_if_missing(self, group: DrawnGroup) -> None:
        """Raise IncompleteRollouts when the policy for a failure of the group is `raise`."""
        for failure in group.failures:
            policy = self._rule.policies.for_failure(failure.failure)
            if failure.failure not in INTENDED and policy is OnIncomplete.RAISE:
                raise self._incomplete(cause_of(failure))

    def _incomplete(self, cause: Cause) -> IncompleteRollouts:
        keys = [request.key for part in self._parts for request in part.requests]
        missing = tuple(key for key in keys if self._ended.get(key) != COMPLETED)
        return IncompleteRollouts(
            requested=len(keys),
            received=len(keys) - len(missing),
            missing=missing,
            cause=cause,
            failures=dict(Counter(self._ended.get(key, "unfinished") for key in missing)),
        )

    def _with_outcomes(self, error: Exception) -> Exception:
        """Return the error, with the outcomes of the groups that were not returned."""
        if isinstance(error, BatchFailed):
            outcomes = {
                outcome.key: outcome for outcome in (*self._not_returned(), *error.outcomes)
            }
            error.outcomes = tuple(outcomes.values())
        return error

    def _not_returned(self) -> Iterator[Outcome]:
        for part in self._parts:
            for name, group in part.drawing.groups.items():
                if name not in self._returned:
                    yield from group.outcomes.values()

    def _check_end(self) -> None:
        """Raise the error of a batch that has returned too little."""
        returned = len(self._returned)
        if self._fresh is not None and returned < self._fresh.rule.groups:
            raise self._fresh.too_few(returned)
        if not returned:
            raise self._incomplete(Cause(sentence="no group has enough members left"))


async def _next_of(submission: Submission, drawing: Drawing) -> Outcome | None:
    """Return the next outcome of a submission; None after the last."""
    try:
        return await submission.next()
    except IncompleteRollouts:
        # After the last group was decided, it only repeats that nothing was completed.
        if drawing.is_decided:
            return None
        raise


@dataclass(slots=True, eq=False)
class _Part:
    """One submission of a batch."""

    drawing: Drawing
    requests: Sequence[RolloutRequest]
    task: asyncio.Task[None] | None = None

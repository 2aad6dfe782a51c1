"""Decides which members of each group are returned. This module does no I/O."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, final

from palestra.errors import InputDataError
from palestra.training.groups import Group
from palestra.training.outcomes import Completed, Failed, Outcome
from palestra.training.requests import Key, RolloutRequest
from palestra.training.sampling.rules import OverSampling

_ROUNDING: Final = 1e-9


@final
class DrawnGroup:
    """The members of one group, in the order that was drawn for them."""

    def __init__(self, group_id: int | str, keys: Sequence[Key], rule: OverSampling) -> None:
        self.group_id = group_id
        self._keys = keys
        self._needed = rule.needed
        self.order = list(keys)
        # Not by `hash`, which differs from process to process.
        random.Random(f"{rule.seed}/{group_id!r}").shuffle(self.order)
        self.outcomes: dict[Key, Outcome] = {}
        """The outcomes so far; none are added once the group is decided."""
        self.result: Group | None = None
        """The group of the chosen members, once it is decided; None when too few are left."""
        self.is_decided = False

    @property
    def failures(self) -> list[Failed]:
        """The members that failed, in the order that was drawn."""
        outcomes = map(self.outcomes.get, self.order)
        return [outcome for outcome in outcomes if isinstance(outcome, Failed)]

    @property
    def members(self) -> list[Key]:
        """The first `needed` members that have not failed: fewer when too few are left."""
        alive = [key for key in self.order if not isinstance(self.outcomes.get(key), Failed)]
        return alive[: self._needed]

    @property
    def awaited(self) -> list[Key]:
        """The members that have not ended."""
        return [key for key in self.members if key not in self.outcomes]

    @property
    def finished(self) -> list[Key]:
        """The first `needed` of all completed members, spares included."""
        return [key for key in self.order if isinstance(self.outcomes.get(key), Completed)][
            : self._needed
        ]

    @property
    def running(self) -> list[Key]:
        """The members and spares that have not ended."""
        return [key for key in self.order if key not in self.outcomes]

    @property
    def is_short(self) -> bool:
        """Whether fewer members than needed are left."""
        return len(self.members) < self._needed

    def decide(self) -> None:
        """Choose the members of the group."""
        self.is_decided = True
        if not self.is_short:
            chosen = set(self.finished)
            members = [self.outcomes[key] for key in self._keys if key in chosen]
            self.result = Group(self.group_id, members)


@final
class Drawing:
    """The groups of one submission. `counts`: fields of a `SamplingReport`.

    Raises InputDataError: a group has fewer members than needed.
    """

    def __init__(self, requests: Iterable[RolloutRequest], rule: OverSampling) -> None:
        keys: dict[int | str, list[Key]] = {}
        for request in requests:
            keys.setdefault(request.group, []).append(request.key)
        _check_sizes(keys, rule.needed)
        self.groups = {name: DrawnGroup(name, members, rule) for name, members in keys.items()}
        self._group_of = {key: name for name, members in keys.items() for key in members}
        self._slow_left = int(rule.max_slow_fraction * rule.needed * len(keys) + _ROUNDING)
        self._undecided = dict(self.groups)
        self._slow_begun = False
        """Whether the members that are awaited are so few that groups no longer wait for them."""
        self._awaited = rule.needed * len(keys)
        self.counts: Counter[str] = Counter()

    @property
    def is_decided(self) -> bool:
        """Whether every group is decided."""
        return not self._undecided

    def end(self, outcome: Outcome) -> list[DrawnGroup]:
        """Record an outcome. Return the groups that are decided by it."""
        group = self.groups[self._group_of[outcome.key]]
        if group.is_decided:
            self.counts["unused_spares"] += isinstance(outcome, Completed)
            return []
        before = len(group.awaited)
        group.outcomes[outcome.key] = outcome
        self._awaited += len(group.awaited) - before
        decided = [group] if group.is_short or not group.awaited else []
        for item in decided:
            self._decide(item)
        return decided + self._decide_slow(group)

    def _decide_slow(self, changed: DrawnGroup) -> list[DrawnGroup]:
        """Decide the groups whose last members are slow, and return them. `changed`: the group of
        the last outcome.
        """
        if not 0 < self._awaited <= self._slow_left:
            return []
        # Once begun it stays so: what is awaited only falls, and with `_slow_left` by as much.
        groups = [changed] if self._slow_begun else list(self._undecided.values())
        self._slow_begun = True
        enough = [
            group
            for group in groups
            if not group.is_decided and len(group.finished) == len(group.members)
        ]
        for group in enough:
            slow = len(group.awaited)
            self._slow_left -= slow
            self.counts["replaced_slow"] += slow
            self._decide(group)
        return enough

    def _decide(self, group: DrawnGroup) -> None:
        group.decide()
        self._awaited -= len(group.awaited)
        del self._undecided[group.group_id]
        if group.is_short:
            self.counts["short_groups"] += 1
            return
        completed = sum(isinstance(outcome, Completed) for outcome in group.outcomes.values())
        self.counts["unused_spares"] += completed - len(group.finished)
        first = group.order[: len(group.members)]
        failed = sum(isinstance(group.outcomes.get(key), Failed) for key in first)
        self.counts["replaced_failed"] += failed


def _check_sizes(keys: dict[int | str, list[Key]], needed: int) -> None:
    small = {name: len(members) for name, members in keys.items() if len(members) < needed}
    if not small:
        return
    total = sum(map(len, keys.values()))
    if total < needed:
        raise InputDataError(
            f"a group needs {needed} members, and the batch has {total} rollouts in all"
        )
    name, count = next(iter(small.items()))
    raise InputDataError(
        f"{len(small)} groups have fewer than the {needed} members that are needed; "
        f"{name!r} has {count}",
        hint=f"request at least {needed} rollouts for each group; those beyond are its spares",
    )

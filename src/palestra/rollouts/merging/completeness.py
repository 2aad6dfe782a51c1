"""Describe how much of a run its shards contain, and what is missing."""

from dataclasses import dataclass

from palestra.errors import Layer, RunFailed
from palestra.rollouts.merging.sources import MOST_NAMED
from palestra.schema import RolloutKey


class MergeIncomplete(RunFailed):
    """Some requested rollouts are in no shard. Nothing was written."""

    layer = Layer.DATA


@dataclass(frozen=True, slots=True)
class Completeness:
    """How much of a run its shards contain. A rollout has ended when it is scored or has failed for
    good.
    """

    requested: int
    ended: int
    tasks: int
    complete_tasks: int
    partial_tasks: int
    first_open: tuple[RolloutKey, ...] = ()
    """The first few rollouts that were materialized but have not ended."""
    open_rollouts: int = 0
    unknown_rollouts: int = 0
    """The number of the run's rollouts that no shard has materialized."""
    parts: int = 0
    missing_parts: tuple[int, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every rollout has ended."""
        return self.ended == self.requested

    def __str__(self) -> str:
        share = 100 * self.ended / self.requested if self.requested else 100.0
        absent = self.tasks - self.complete_tasks - self.partial_tasks
        return (
            f"rollouts: {self.ended} of {self.requested} have ended ({share:.1f} %); "
            f"tasks: {self.complete_tasks} complete, {self.partial_tasks} partial, {absent} absent"
        )

    def gaps(self) -> list[str]:
        """Return one sentence for each kind of missing data."""
        gaps = []
        if self.missing_parts:
            part_list = ", ".join(map(str, self.missing_parts[:MOST_NAMED]))
            hidden_count = len(self.missing_parts) - MOST_NAMED
            gaps.append(
                f"of {self.parts} shards these are missing: {part_list}{_further(hidden_count)}"
            )
        if self.unknown_rollouts:
            gaps.append(f"{self.unknown_rollouts} rollouts are in no shard that was given")
        if self.open_rollouts:
            part_list = ", ".join(map(str, self.first_open))
            hidden_count = self.open_rollouts - len(self.first_open)
            gaps.append(
                f"{self.open_rollouts} rollouts are neither scored nor given up: {part_list}{_further(hidden_count)}"
            )
        return gaps

    def check(self) -> None:
        """Raise MergeIncomplete: some rollout has not ended."""
        if not self.complete:
            raise MergeIncomplete(
                f"{self.requested - self.ended} of {self.requested} rollouts are missing\n  "
                + "\n  ".join(self.gaps()),
                hint="run or resume those shards, or merge what is there with --allow-partial",
            )


def _further(count: int) -> str:
    return f" and {count} more" if count > 0 else ""

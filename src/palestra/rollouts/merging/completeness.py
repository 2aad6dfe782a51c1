"""How much of a run its shards hold, and what is missing, in words."""

from dataclasses import dataclass

from palestra.errors import Layer, RunFailed
from palestra.rollouts.merging.sources import MOST_NAMED
from palestra.schema import RolloutKey


class MergeIncomplete(RunFailed):
    """Rollouts that were requested are in no shard; nothing was written."""

    layer = Layer.DATA


@dataclass(frozen=True, slots=True)
class Completeness:
    """How much of a run its shards hold. A rollout has ended when it was scored or given up."""

    requested: int
    ended: int
    tasks: int
    complete_tasks: int
    partial_tasks: int
    first_open: tuple[RolloutKey, ...] = ()
    """The first rollouts that were materialized and have not ended."""
    open_rollouts: int = 0
    unknown_rollouts: int = 0
    """Rollouts of the run that no shard has materialized."""
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
        """What is missing, a sentence each."""
        gaps = []
        if self.missing_parts:
            part_list = ", ".join(map(str, self.missing_parts[:MOST_NAMED]))
            hidden_count = len(self.missing_parts) - MOST_NAMED
            gaps.append(
                f"of {self.parts} shards these are missing: {part_list}{_more(hidden_count)}"
            )
        if self.unknown_rollouts:
            gaps.append(f"{self.unknown_rollouts} rollouts are in no shard that was given")
        if self.open_rollouts:
            part_list = ", ".join(map(str, self.first_open))
            hidden_count = self.open_rollouts - len(self.first_open)
            gaps.append(
                f"{self.open_rollouts} rollouts are neither scored nor given up: {part_list}{_more(hidden_count)}"
            )
        return gaps

    def check(self) -> None:
        """Raise MergeIncomplete unless every rollout has ended."""
        if not self.complete:
            raise MergeIncomplete(
                f"{self.requested - self.ended} of {self.requested} rollouts are missing\n  "
                + "\n  ".join(self.gaps()),
                hint="run or --resume those shards, or merge what is there with --allow-partial",
            )


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""

"""The reply about a run over many jobs."""

from typing import Literal, TypeAlias

from palestra.viewer.replies.base import Count, Reply

Tone: TypeAlias = Literal["good", "bad", "open"]


class UnitLine(Reply, frozen=True, kw_only=True):
    """One shard (a seed and a chunk), or a job without shards."""

    name: str
    label: str
    """Its seed and chunk, in the numbers of the table of seeds by chunks; a job's name."""
    seed: str
    chunk: str
    standing: str
    tone: Tone
    """Whether it is done, needs somebody, or goes on by itself."""
    reason: str
    job: str
    job_id: str
    restarts: int
    expected: int | None
    scored: int | None
    failed: int | None
    left: int | None
    next: str
    """What to do about how it ended; empty when nobody knows."""
    log: list[str]
    """The last lines of its log."""
    run: str
    """The id of the shard's run; empty when it has no file yet."""


class ClusterPage(Reply, frozen=True, kw_only=True):
    """`/api/k/{cluster}`: what `palestra cluster status` says."""

    id: str
    name: str
    """The name that it was submitted with."""
    folder_name: str
    """The name of its folder, as it is now."""
    output_dir: str
    """Its folder, as it is now."""
    counts: list[Count]
    rollouts: list[Count]
    units: list[UnitLine]
    problem: str
    """Why the executor does not answer; there are then no counts and no units."""
    command: str
    """The command that goes on after jobs that failed; empty when none did, or none can."""
    command_note: str
    """What the command does, or why there is none; empty when no job failed."""
    asked_at: float

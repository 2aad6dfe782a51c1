"""What a collection is asked to do. Names are those of the field's commands."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self

PATIENCE_S: Final = 120.0

AUTO: Final = "auto"
"""A bound on rollouts in flight that follows how the endpoint copes."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `of` jobs that share a run; `index` counts from 0."""

    index: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """`0/4` is the first of four. Raises ValueError saying what is wrong."""
        index, slash, of = text.partition("/")
        if not (slash and index.isdecimal() and of.isdecimal()):
            raise ValueError(f"{text!r} is no shard: the first of four is 0/4")
        shard = cls(int(index), int(of))
        if shard.index >= shard.of:
            last = f"the last of {of} is {shard.of - 1}/{of}" if shard.of else "there are none of 0"
            raise ValueError(f"{text!r} is no shard: they count from 0, and {last}")
        return shard

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"

    def share(self, count: int) -> slice:
        """The positions of `count` things that are this shard's: contiguous, sizes within one."""
        return slice(count * self.index // self.of, count * (self.index + 1) // self.of)


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of tasks. `agent`: for rows that name none; each row is taken `repeats` times.

    `start` and `end` are row numbers from 0, the end excluded.
    """

    path: Path
    agent: str | None = None
    repeats: int = 1
    start: int = 0
    end: int | None = None
    prompt_config: Path | None = None
    """What its rows are filled into, unless the command names a template of its own."""
    content: bytes | None = field(default=None, repr=False)
    """The rows, where the command makes them: the file is written once the run begins."""


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Input that is materialized already: a share of a larger run, cut and numbered elsewhere.

    Rows keep both of their indices and are not repeated. What the manifest says of the whole run
    cannot be read from them, so it is told: the digest of all its input rows, and its size.
    """

    input_digest: str
    run_rollouts: int
    run_tasks: int


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """Settings of one collection; times in seconds.

    `limit`: the first so many rows of the input; None takes every row, 0 takes none.
    `num_samples_in_parallel`: None means no bound, "auto" one that follows the latency.
    """

    inputs: tuple[InputFile, ...]
    output_jsonl_fpath: Path
    agent_name: str | None = None
    limit: int | None = None
    num_repeats: int = 1
    num_repeats_add_seed: bool = False
    num_samples_in_parallel: int | Literal["auto"] | None = None
    responses_create_params: Mapping[str, Any] = field(default_factory=dict)
    prompt_config: Path | None = None
    resume_from_cache: bool = False
    disable_aggregation: bool = False
    min_coverage: float = 1.0
    rollout_timeout: float = 3600.0
    max_attempts: int = 3
    attempt_pause_s: float = 1.0
    patience: float | None = PATIENCE_S
    """For how long a model endpoint may refuse everything before the run stops; None: any time."""
    overwrite: bool = False
    on_stale: Literal["error", "restart"] = "error"
    """What to do when a run to be continued was made from something else: refuse, or move it
    aside and start afresh."""
    shard: Shard | None = None
    given: GivenRows | None = None
    """When the input is the materialized rows of `shard`."""
    drain_file: Path | None = None
    """Once this file is there, no further rollout starts; those in flight end."""
    verified_by: str = ""
    """What `palestra reverify` is to be told of the environment, for hints."""

    def prompt_of(self, source: InputFile) -> Path | None:
        """What the rows of an input are filled into."""
        return self.prompt_config or source.prompt_config

    @property
    def bound(self) -> int | None:
        """The fixed bound on rollouts in flight, when there is one."""
        parallel = self.num_samples_in_parallel
        return parallel if isinstance(parallel, int) else None

"""The settings of a collection. The names are those of NeMo Gym's commands."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self

PATIENCE_S: Final = 120.0

PALESTRA_REVERIFY: Final = "palestra reverify"
OTHER_AGENTS: Final = "_default"
"""The key of `num_repeats` for agents that it does not name."""
AUTO: Final = "auto"
"""A limit on rollouts in flight that adapts to the endpoint."""


@dataclass(frozen=True, slots=True)
class Share:
    """One of `of` jobs that share a run. `index`: counted from 0."""

    index: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a shard such as `0/4`, the first of four. Raises ValueError: the text is not a
        valid shard.
        """
        index, slash, of = text.partition("/")
        if not (slash and index.isdecimal() and of.isdecimal()):
            raise ValueError(
                f"{text!r} is not a shard: write I/N, for example 0/4 for the first of four"
            )
        shard = cls(int(index), int(of))
        if shard.index >= shard.of:
            last = f"the last of {of} is {shard.of - 1}/{of}" if shard.of else "there are none of 0"
            raise ValueError(f"{text!r} is not a shard: shards count from 0, and {last}")
        return shard

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"

    def share(self, count: int) -> slice:
        """Return the positions, out of `count`, that belong to this shard. They are contiguous;
        shard sizes differ by at most one.
        """
        return slice(count * self.index // self.of, count * (self.index + 1) // self.of)


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of tasks. `agent`: the agent for rows that name none. `repeats`: how often each row is
    used.

    `start`, `end`: the range of rows, counted from 0, without `end`.
    """

    path: Path
    agent: str | None = None
    repeats: int = 1
    start: int = 0
    end: int | None = None
    prompt_config: Path | None = None
    """The prompt template for the rows, used unless the command sets its own."""
    content: bytes | None = field(default=None, repr=False)
    """The rows, if the command generates them; the file is written when the run starts."""


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Input that is already materialized: a part of a larger run, which was split and numbered
    before.

    The rows keep both of their indices and are not repeated. The rows cannot show the manifest's
    data about the whole run, so these fields hold it: the digest of all input rows, and the number
    of rollouts and tasks.
    """

    input_digest: str
    run_rollouts: int
    run_tasks: int
    code: str = ""
    """The commit of the code that was packaged for the run."""


@dataclass(frozen=True, slots=True)
class VerifierOptions:
    """The options of `palestra reverify` that say what verifies the responses of a run."""

    text: str = ""
    """The options that name the environments, their settings and the judge, as they are typed."""
    names_judge: bool = False
    """Whether one of them names the judge's model."""
    needs_session: bool = False
    """Whether an environment of the run verifies in its live session alone."""


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """The settings of one collection. Times are in seconds.

    `limit`: use only the first `limit` input rows; None uses all, 0 uses none.
    `num_samples_in_parallel`: the largest number of rollouts in flight; None means no limit, "auto"
    a limit that follows the latency.
    """

    inputs: tuple[InputFile, ...]
    output_jsonl_fpath: Path
    agent_name: str | None = None
    limit: int | None = None
    num_repeats: int | Mapping[str, int] = 1
    """Rollouts per task; or a number for each agent, and under `_default` for the others (1 without
    it)."""
    num_repeats_add_seed: bool = False
    num_samples_in_parallel: int | Literal["auto"] | None = None
    responses_create_params: Mapping[str, Any] = field(default_factory=dict)
    prompt_config: Path | None = None
    skills: str | None = None
    """The folder of the agents' skills, as the user named it; None: the run has no skills."""
    resume_from_cache: bool = False
    disable_aggregation: bool = False
    min_coverage: float = 1.0
    rollout_timeout: float = 3600.0
    max_attempts: int = 3
    attempt_pause_s: float = 1.0
    patience: float | None = PATIENCE_S
    """How long a model endpoint may reject all requests before the run stops; None: without limit.
    """
    overwrite: bool = False
    on_stale: Literal["error", "restart"] = "error"
    """What to do when the run to resume has other rows or settings: raise an error, or move its
    files aside and restart."""
    shard: Share | None = None
    given: GivenRows | None = None
    """The data about the whole run, when the input is the materialized rows of `shard`."""
    drain_file: Path | None = None
    """A file that stops the run: when it exists, no new rollout starts, and those in flight finish.
    """
    verified_by: VerifierOptions = field(default_factory=VerifierOptions)
    """The options of `palestra reverify` that name the environment, used in hints."""
    reverify_words: str = PALESTRA_REVERIFY
    """The words that call the command for re-verification, as the user of this run types them."""
    resume_words: str = "--output {} --resume"
    """The options that continue this run, as its user types them. `{}`: the output."""
    command: str = ""
    """The command or the Python call that starts the run, without secrets. It is recorded."""
    source_files: tuple[Path, ...] = ()
    """The user's files of rows, when the command makes the input of them."""

    def prompt_of(self, source: InputFile) -> Path | None:
        """Return the prompt template for the rows of an input file, or None."""
        return self.prompt_config or source.prompt_config

    def repeats_of(self, agent: str) -> int:
        """Return the number of rollouts of each task of `agent`."""
        if isinstance(self.num_repeats, int):
            return self.num_repeats
        return self.num_repeats.get(agent, self.num_repeats.get(OTHER_AGENTS, 1))

    @property
    def bound(self) -> int | None:
        """The fixed limit on rollouts in flight; None without one."""
        parallel = self.num_samples_in_parallel
        return parallel if isinstance(parallel, int) else None

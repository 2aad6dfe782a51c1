"""Settings of the commands that run an environment, or read the files of runs."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from palestra.config import Flag, flag
from palestra.settings.base import OF_ROWS, JsonArgs, Settings
from palestra.settings.environments import ModelArgs, OwnSettings, pairs
from palestra.settings.model_names import MODEL_FORMS

REQUEST_FLAGS: Final = {
    name: f"responses_create_params.{name}" for name in ("max_output_tokens", "temperature")
}
"""The arguments of `eval` that are parameters of every request, with the settings of `collect`."""


class EvalArgs(ModelArgs, JsonArgs):
    """The arguments of `palestra eval`."""

    target: Annotated[str, Flag(argument=True)] = Field(
        description="An environment's name, a Python file, or a config file."
    )
    input: Annotated[Path | None, flag("--input", "-i")] = Field(
        default=None,
        description="Tasks of your own instead of the environment's: .jsonl, .json, .csv, .tsv or "
        ".parquet, also .gz and .zst; or a quoted glob.",
    )
    limit: int | None = Field(default=None, ge=0, description="How many tasks; 0 runs none.")
    output: Annotated[Path | None, flag("--output", "-o")] = Field(
        default=None, description="Where scored rows go; default a new folder in runs/."
    )
    seed: int | None = Field(default=None, description="Seed of tasks made on demand; default 0.")
    rows: Annotated[Mapping[str, str], BeforeValidator(partial(pairs, "--rows"))] = Field(
        default_factory=dict,
        description="KEY=VALUE for an environment that makes its tasks; may be repeated.",
    )
    max_output_tokens: int | None = Field(default=None, ge=1, description="Tokens per turn.")
    temperature: float | None = Field(default=None, ge=0, description="Sampling temperature.")
    group_by: str | None = Field(
        default=None, description="A field of the rollout rows to group the table by."
    )
    collecting: Mapping[str, Any] = Field(default_factory=dict)
    """The given settings of `palestra collect`, by name."""


class ProfileArgs(Settings):
    """The arguments of `profile` and `ng_reward_profile`: files, globs of shards, or lists of them."""

    materialized_inputs_jsonl_fpath: Annotated[
        str | list[str] | None, flag("--inputs", "--materialized-inputs-jsonl-fpath")
    ] = Field(default=None, description="Materialized inputs; default those beside the rollouts.")
    rollouts_jsonl_fpath: Annotated[
        str | list[str], flag("--rollouts", "--rollouts-jsonl-fpath")
    ] = Field(
        description="Scored rows: a file, plain, .gz or .zst, a run's folder, or a quoted glob of "
        "shards."
    )
    allow_partial_rollouts: Annotated[bool, flag("--allow-partial")] = Field(
        default=False, description="Profile what is there of an unfinished run."
    )
    group_by: str | None = Field(
        default=None, description="A field of the rollout rows to group the table by."
    )
    aggregate: bool = Field(
        default=False, description="Ask the agents for the environments' own metrics too."
    )


class AggregateArgs(Settings):
    """The arguments of `ng_aggregate_rollouts`."""

    input_glob: str | list[str]
    output_jsonl_fpath: Annotated[str, OF_ROWS]
    merge_shards: bool = True
    allow_partial_rollouts: bool = False

    @property
    def shards(self) -> list[str]:
        """The globs, files or folders in `input_glob`, which is a list or a text with commas."""
        if isinstance(self.input_glob, list):
            return self.input_glob
        return [item.strip() for item in self.input_glob.split(",") if item.strip()]


class MergeArgs(JsonArgs):
    """The arguments of `merge`."""

    output: Annotated[Path, OF_ROWS, Flag(argument=True)] = Field(
        description="Where the merged rows go (.jsonl)."
    )
    shards: Annotated[tuple[str, ...], Flag(metavar="SHARD...", argument=True)] = Field(
        description="Shards' output files, or folders or quoted globs of them; then overrides."
    )
    allow_partial: bool = Field(
        default=False, description="Merge what is there of an unfinished run."
    )
    overwrite: bool = Field(default=False, description="Move other files at the output to .bak.")


class DiagnoseArgs(JsonArgs):
    """The arguments of `diagnose`."""

    run: Annotated[str, Flag(metavar="RUN", argument=True)] = Field(
        description="An output or its stem, a run's folder, a log, or a Slurm job's id."
    )
    logs: Annotated[tuple[Path, ...], flag("--log")] = Field(
        default=(), description="A further log to read: a command's, a server's, an endpoint's."
    )
    inputs: Annotated[tuple[Path, ...], flag("--input", "-i")] = Field(
        default=(),
        description="The input file, or a quoted glob, to compare with; default the manifest's.",
    )


class ToolsArgs(JsonArgs):
    """The arguments of `doctor tools`."""

    file: Annotated[Path, Flag(argument=True)] = Field(
        description="Rows, or Chat Completions bodies (.jsonl)."
    )
    summary_key: str = Field(
        default="", description="A field of the rows (dotted: agent_ref.name) to count by."
    )


def _rollout_name(name: Any) -> Any:
    """Return `17:3` as it is. Raises PydanticCustomError: it is not a rollout."""
    task, _, rollout = str(name).rpartition(":")
    if task and rollout.isdecimal():
        return name
    raise PydanticCustomError("rollout", "should be TASK:ROLLOUT, such as 17:3")


RolloutName = Annotated[str, BeforeValidator(_rollout_name)]
"""The name of a rollout on a command line."""


class ReverifyArgs(OwnSettings, JsonArgs):
    """The arguments of `palestra reverify`."""

    rollouts: Annotated[Path, flag("--rollouts", "-r")] = Field(
        description="Scored rows of a run, its folder, or its failures file."
    )
    output: Annotated[Path, OF_ROWS, flag("--output", "-o")] = Field(
        description="Where the new rows go (.jsonl)."
    )
    environment: Annotated[str | None, flag("--environment", "-e")] = Field(
        default=None,
        description="What verifies every row: an environment's name, a Python file, or an instance "
        "of the configs.",
    )
    inputs: Path | None = Field(
        default=None,
        description="Materialized inputs, tasks, or data of an environment in one file: a file or a "
        "quoted glob. Their fields win.",
    )
    limit: int | None = Field(default=None, ge=0, description="First n rows; 0 verifies none.")
    only: Annotated[tuple[RolloutName, ...], flag("--only", metavar="TASK:ROLLOUT")] = Field(
        default=(), description="Only this rollout, such as 17:3; repeatable."
    )
    concurrency: int = Field(default=64, ge=1, description="Rows verified at once.")
    timeout_s: Annotated[float, flag("--timeout")] = Field(
        default=600.0, ge=0.001, description="Seconds that one row may take."
    )
    fresh_judge: bool = Field(
        default=False, description="Ask judges anew; without it, replay answers."
    )
    starts_judges: bool = False
    """Whether the judges of the configuration run, for questions whose answer is not stored."""
    judge: Annotated[str | None, flag("--judge")] = Field(
        default=None,
        description=f"The model of every judge: {MODEL_FORMS}. It gives the answers that are "
        "not stored; with --fresh-judge all.",
    )
    with_failures: bool = Field(
        default=False,
        description="Also the answers in the run's failures file, whose verification failed.",
    )
    force: bool = Field(
        default=False, description="Also with environments that need their live session."
    )
    overwrite: bool = Field(default=False, description="Move what is at the output to .bak.")
    resume: bool = Field(default=False, description="Go on where it stopped.")
    failure_classes: frozenset[str] | None = None
    """When `rollouts` is a failures file: only rollouts whose last failure is of these classes."""
    scored: Path | None = None
    """When `rollouts` is a failures file: the scored rows of the run, if they are elsewhere."""


class CompareArgs(JsonArgs):
    """The arguments of `compare`."""

    a: Annotated[str, Flag(metavar="A", argument=True)] = Field(
        description="Rollouts of the run to beat: a file, a folder, or a quoted glob of shards."
    )
    b: Annotated[str, Flag(metavar="B", argument=True)] = Field(
        description="Rollouts of the other run."
    )
    metrics: Annotated[tuple[str, ...], flag("--metric", "-m")] = Field(
        default=(), description="Besides the reward: a numeric field, or pass@K; repeatable."
    )
    allow_unmatched: bool = Field(
        default=False, description="Leave out tasks that the runs do not share."
    )
    allow_different_rows: bool = Field(
        default=False, description="Pair tasks by index although their rows differ."
    )
    gate: bool = Field(default=False, description="Exit 1 when B is significantly worse than A.")
    tolerance: float | None = Field(
        default=None, description="With --gate: B may be worse by this much reward; default 0."
    )
    scored_only: bool = Field(
        default=False,
        description="With --gate: decide by the scored rollouts, and ignore missing ones.",
    )
    as_markdown: Annotated[bool, flag("--markdown")] = Field(
        default=False, description="As Markdown."
    )


class SelectArgs(JsonArgs):
    """The arguments of `select`."""

    rollouts: Annotated[str, Flag(metavar="ROLLOUTS", argument=True)] = Field(
        description="Scored rows of a run: a file, a folder, or a quoted glob of shards."
    )
    out: Annotated[Path | None, OF_ROWS, flag("--out", "-o")] = Field(
        default=None,
        description="Where the kept tasks go (.jsonl); without it, a preview.",
    )
    band: str | None = Field(
        default=None,
        description="Pass rates to keep, both ends included: 0.1..0.9. By default the tasks that "
        "were solved sometimes, but not always.",
    )
    min_rollouts: int = Field(default=1, ge=1, description="Scored rollouts that a task must have.")
    max_tokens: float | None = Field(
        default=None, ge=0, description="Mean output tokens that its rollouts may take."
    )
    learnability: bool = Field(
        default=False, description="Most learnable first: p(1 - p), p the pass rate."
    )
    limit: int | None = Field(default=None, ge=1, description="Keep at most so many.")
    decided_only: bool = Field(
        default=False, description="Only where the interval of the pass rate is inside the band."
    )
    solved_at: float = Field(
        default=1.0, description="The reward from which a rollout counts as solved."
    )
    failed: bool = Field(
        default=False,
        description="Keep the tasks with a rollout that has no reward (a timeout, say), to collect "
        "them again.",
    )
    overwrite: bool = Field(default=False, description="Replace what is at --out.")


class ScoresArgs(JsonArgs):
    """The arguments of `scores`."""

    runs: Annotated[tuple[str, ...], Flag(metavar="[NAME=]RUN...", argument=True)] = Field(
        description="Rollouts of runs over the same tasks; runs of one name are its seeds. Without "
        "a name: the model that the rollouts name."
    )
    k: int | None = Field(
        default=None,
        ge=1,
        description="Attempts of pass@k and maj@k; default 4, or fewer where a model has fewer.",
    )
    allow_unmatched: bool = Field(
        default=False, description="Leave out tasks that the runs do not share."
    )
    allow_different_rows: bool = Field(
        default=False, description="Match tasks by index although their rows differ."
    )
    as_markdown: Annotated[bool, flag("--markdown")] = Field(
        default=False, description="As Markdown."
    )
    fractions: bool = Field(
        default=False, description="Print scores from 0 to 1 instead of percent."
    )

"""Settings of the commands that prepare rows, and of those that upload or download datasets."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from palestra.config import Flag, flag
from palestra.settings.base import OF_ROWS, Settings


class PrepareArgs(Settings):
    """The arguments of `prepare` and `ng_prepare_data`."""

    output_dirpath: Annotated[str, flag("--output-dir", "-o")] = Field(
        description="The folder for the files of a type."
    )
    mode: Literal["train_preparation", "example_validation"] = Field(
        description="train_preparation (train, validation, benchmark) or example_validation."
    )
    should_download: Annotated[bool, flag("--download")] = Field(
        default=False, description="Download files that are missing."
    )
    data_source: Literal["huggingface", "gitlab"] = Field(
        default="huggingface", description="huggingface or gitlab, for datasets in both."
    )
    overwrite_metrics_conflicts: bool = Field(
        default=False, description="Replace metrics that say otherwise."
    )
    tokenizer: str | None = Field(
        default=None, description="A tokenizer.json, or its folder: tokens are counted too."
    )


class RenderArgs(Settings):
    """The arguments of `render-prompts` and `ng_materialize_prompts`."""

    input_jsonl_fpath: Annotated[str, flag("--input", "-i")] = Field(
        description="Rows (JSONL): a file or a quoted glob."
    )
    prompt_config: Annotated[str, flag("--prompt")] = Field(
        description="A template (YAML: user, system) with {field}s."
    )
    output_jsonl_fpath: Annotated[str, flag("--output", "-o")] = Field(description="The new file.")


class BenchmarkArgs(Settings):
    """The arguments of `benchmark prepare` and `ng_prepare_benchmark`."""

    use_cached_prepared_benchmarks: Annotated[bool, flag("--use-cached")] = Field(
        default=False, description="Skip benchmarks whose files exist."
    )
    num_prepare_benchmark_processes: Annotated[int, flag("--processes")] = Field(
        default=1, ge=1, description="Scripts that run at once."
    )
    prepare_script_args: dict[str, object] = Field(default_factory=dict)


class ImportArgs(Settings):
    """The arguments of `dataset import`."""

    source: Annotated[str, Flag(metavar="FILE|hf:REPO", argument=True)] = Field(
        description="CSV, TSV, JSON, JSONL or Parquet: a file or a quoted glob; or a repository."
    )
    maps: Annotated[tuple[str, ...], flag("--map")] = Field(
        default=(), description="FIELD=COLUMN: a field of the rows, and where it comes from."
    )
    answer: str | None = Field(default=None, description="The column of the expected answer.")
    prompt: str | None = Field(
        default=None, description="A template (YAML: user, system) with {field}s."
    )
    environment: Annotated[str | None, flag("--env", "-e")] = Field(
        default=None, description="The environment for the rows; each row is checked against it."
    )
    output: Annotated[Path | None, OF_ROWS, flag("--output", "-o")] = Field(
        default=None, description="Default <name>_rows.jsonl, here."
    )
    rollouts: bool = Field(
        default=False, description="The rows are scored rollouts: make a run of them."
    )
    split: str | None = Field(default=None, description="hf: which split; default train.")
    artifact: str | None = Field(default=None, description="hf: one file of the repository.")


class NetworkSettings(Settings):
    """The settings of all commands that use a hub or a registry."""

    network_deadline_s: Annotated[float, flag("--network-deadline")] = Field(
        default=120.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds to try again after network errors.",
    )
    yes: Annotated[bool, flag("--yes", "-y")] = Field(
        default=False, description="Delete without a question."
    )

"""From a resolved configuration to a command's typed settings; one path for both front ends."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from palestra.config import ResolvedConfig, flag, load_config
from palestra.datasets.hub import HubDownload, HubUpload
from palestra.datasets.registry import GitlabDownload, GitlabUpload
from palestra.datasets.transfer import Patience
from palestra.rollouts.arguments import (
    HOW_TO_GIVE,
    CollectArgs,
    PatienceArgs,
    args_from,
    concurrency,
    datasets_of,
    existing_path,
)


class ProfileArgs(BaseModel):
    """What `profile` and `ng_reward_profile` take: files, globs of shards, or lists of them."""

    model_config = ConfigDict(extra="ignore")

    materialized_inputs_jsonl_fpath: Annotated[
        str | list[str] | None, flag("--inputs", "--materialized-inputs-jsonl-fpath")
    ] = Field(default=None, description="Materialized inputs; default those beside the rollouts.")
    rollouts_jsonl_fpath: Annotated[
        str | list[str], flag("--rollouts", "--rollouts-jsonl-fpath")
    ] = Field(description="Scored rows: a file, plain, .gz or .zst, or a quoted glob of shards.")
    allow_partial_rollouts: Annotated[bool, flag("--allow-partial")] = Field(
        default=False, description="Profile what is there of an unfinished run."
    )
    group_by: str | None = Field(
        default=None, description="A field of the rollout rows to group the table by."
    )
    aggregate: bool = Field(
        default=False, description="Ask the agents for the environments' own metrics too."
    )


class AggregateArgs(BaseModel):
    """What `ng_aggregate_rollouts` takes."""

    model_config = ConfigDict(extra="ignore")

    input_glob: str | list[str]
    output_jsonl_fpath: str
    merge_shards: bool = True
    allow_partial_rollouts: bool = False

    @property
    def shards(self) -> list[str]:
        """The globs, files or folders of the list."""
        if isinstance(self.input_glob, list):
            return self.input_glob
        return [item.strip() for item in self.input_glob.split(",") if item.strip()]


class PrepareArgs(BaseModel):
    """What `prepare` and `ng_prepare_data` take."""

    model_config = ConfigDict(extra="ignore")

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


class RenderArgs(BaseModel):
    """What `render-prompts` and `ng_materialize_prompts` take."""

    model_config = ConfigDict(extra="ignore")

    input_jsonl_fpath: Annotated[str, flag("--input", "-i")] = Field(description="The JSONL file.")
    prompt_config: Annotated[str, flag("--prompt")] = Field(
        description="A template (YAML: user, system) with {field}s."
    )
    output_jsonl_fpath: Annotated[str, flag("--output", "-o")] = Field(description="The new file.")


class BenchmarkArgs(BaseModel):
    """What `benchmark prepare` and `ng_prepare_benchmark` take."""

    model_config = ConfigDict(extra="ignore")

    use_cached_prepared_benchmarks: Annotated[bool, flag("--use-cached")] = Field(
        default=False, description="Leave those alone that are there."
    )
    num_prepare_benchmark_processes: Annotated[int, flag("--processes")] = Field(
        default=1, ge=1, description="Scripts that run at once."
    )
    prepare_script_args: dict[str, object] = Field(default_factory=dict)


class NetworkSettings(BaseModel):
    """What every command about a hub or a registry takes."""

    model_config = ConfigDict(extra="ignore")

    network_deadline_s: Annotated[float, flag("--network-deadline")] = Field(
        default=120.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds of network trouble put up with.",
    )
    yes: Annotated[bool, flag("--yes", "-y")] = Field(
        default=False, description="Delete without a question."
    )

    @property
    def patience(self) -> Patience:
        """As the transfers take it."""
        timeout = min(60.0, self.network_deadline_s)
        return Patience(deadline_s=self.network_deadline_s, answer_timeout_s=timeout)


COMMAND_SETTINGS = frozenset(
    {
        *CollectArgs.model_fields,
        *ProfileArgs.model_fields,
        *AggregateArgs.model_fields,
        *PrepareArgs.model_fields,
        *RenderArgs.model_fields,
        *BenchmarkArgs.model_fields,
        *HubUpload.model_fields,
        *HubDownload.model_fields,
        *GitlabUpload.model_fields,
        *GitlabDownload.model_fields,
        *NetworkSettings.model_fields,
        "hf_token",
        "mlflow_tracking_uri",
        "mlflow_tracking_token",
        "format",
        "outdated",
        "prices",
        "should_validate_data",
        "wait",
    }
)
"""Top-level keys that are settings of some command: its users pass one set to several."""


def load(
    overrides: list[str],
    *,
    ng: bool,
    extra: Mapping[str, Any] | None = None,
    require_all: bool = True,
    required: Collection[str] | None = None,
) -> ResolvedConfig:
    """The configuration of one command.

    With `ng`, overrides follow Hydra's rules, and unknown ones are warnings. `required`: the
    only instances whose settings need values, when the command starts no others.
    """
    return load_config(
        overrides=overrides,
        extra=extra,
        strict_add=ng,
        known=COMMAND_SETTINGS,
        refuse_unknown=not ng,
        require_all=require_all,
        required=required,
    )


__all__ = [
    "COMMAND_SETTINGS",
    "HOW_TO_GIVE",
    "AggregateArgs",
    "BenchmarkArgs",
    "CollectArgs",
    "NetworkSettings",
    "PatienceArgs",
    "PrepareArgs",
    "ProfileArgs",
    "RenderArgs",
    "args_from",
    "concurrency",
    "datasets_of",
    "existing_path",
    "load",
]

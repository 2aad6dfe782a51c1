"""The settings of the commands that make and prepare datasets."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from palestra.config import flag


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


DATA_SETTINGS: Final = frozenset(
    {*PrepareArgs.model_fields, *RenderArgs.model_fields, *BenchmarkArgs.model_fields}
)

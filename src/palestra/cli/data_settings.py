"""The settings of the commands that make and prepare datasets."""

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field


class PrepareArgs(BaseModel):
    """What `prepare` and `ng_prepare_data` take."""

    model_config = ConfigDict(extra="ignore")

    output_dirpath: str
    mode: Literal["train_preparation", "example_validation"]
    should_download: bool = False
    data_source: Literal["huggingface", "gitlab"] = "huggingface"
    overwrite_metrics_conflicts: bool = False
    tokenizer: str | None = None
    """A tokenizer.json, or its folder."""


class RenderArgs(BaseModel):
    """What `render-prompts` and `ng_materialize_prompts` take."""

    model_config = ConfigDict(extra="ignore")

    input_jsonl_fpath: str
    prompt_config: str
    output_jsonl_fpath: str


class BenchmarkArgs(BaseModel):
    """What `benchmark prepare` and `ng_prepare_benchmark` take."""

    model_config = ConfigDict(extra="ignore")

    use_cached_prepared_benchmarks: bool = False
    num_prepare_benchmark_processes: int = Field(default=1, ge=1)
    prepare_script_args: dict[str, object] = Field(default_factory=dict)


DATA_SETTINGS: Final = frozenset(
    {*PrepareArgs.model_fields, *RenderArgs.model_fields, *BenchmarkArgs.model_fields}
)

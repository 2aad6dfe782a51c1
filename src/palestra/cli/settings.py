"""From a resolved configuration to a command's typed settings; one path for both front ends."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from palestra.cli.data_settings import DATA_SETTINGS
from palestra.cli.sharing_settings import SHARING_SETTINGS
from palestra.config import ResolvedConfig, flag, load_config
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


COMMAND_SETTINGS = frozenset(
    {
        *CollectArgs.model_fields,
        *ProfileArgs.model_fields,
        *AggregateArgs.model_fields,
        *SHARING_SETTINGS,
        *DATA_SETTINGS,
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
    "CollectArgs",
    "PatienceArgs",
    "ProfileArgs",
    "args_from",
    "concurrency",
    "datasets_of",
    "existing_path",
    "load",
]

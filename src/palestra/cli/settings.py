"""From a resolved configuration to a command's typed settings; one path for both front ends."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from palestra.config import PACKAGE_ROOT, ResolvedConfig, load_config, resolve_path
from palestra.errors import ConfigError
from palestra.rollouts import CollectSettings


class CollectArgs(BaseModel):
    """What `collect` and `ng_collect_rollouts` take."""

    model_config = ConfigDict(extra="ignore")

    input_jsonl_fpath: str
    output_jsonl_fpath: str
    agent_name: str | None = None
    limit: int | None = Field(default=None, ge=0)
    num_repeats: int = Field(default=1, ge=1)
    num_repeats_add_seed: bool = False
    num_samples_in_parallel: int | None = Field(default=None, ge=1)
    responses_create_params: dict[str, Any] = Field(default_factory=dict)
    prompt_config: str | None = None
    resume_from_cache: bool = False
    disable_aggregation: bool = False
    min_coverage: float = Field(default=1.0, ge=0, le=1)
    rollout_timeout: float = Field(default=3600.0, gt=0)
    max_attempts: int = Field(default=3, ge=1)
    overwrite: bool = False
    progress: str | None = None

    def settings(self, *, overwrite: bool | None = None) -> CollectSettings:
        """As the rollouts package takes them, paths resolved."""
        values = self.model_dump(exclude={"progress"})
        values["input_jsonl_fpath"] = existing_path(self.input_jsonl_fpath)
        values["output_jsonl_fpath"] = Path(self.output_jsonl_fpath).absolute()
        values["prompt_config"] = existing_path(self.prompt_config) if self.prompt_config else None
        if overwrite is not None:
            values["overwrite"] = overwrite
        return CollectSettings(**values)


class ProfileArgs(BaseModel):
    """What `profile` and `ng_reward_profile` take."""

    model_config = ConfigDict(extra="ignore")

    materialized_inputs_jsonl_fpath: str
    rollouts_jsonl_fpath: str
    allow_partial_rollouts: bool = False
    group_by: str | None = None


COMMAND_SETTINGS = frozenset(
    {*CollectArgs.model_fields, *ProfileArgs.model_fields, "split", "wait"}
)
"""Top-level keys that are settings of some command: its users pass one set to several."""

Args = TypeVar("Args", bound=BaseModel)


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


def args_from(model: type[Args], tree: Mapping[str, Any]) -> Args:
    """The command's settings. Raises ConfigError listing all that are missing or wrong."""
    given = {key: value for key, value in tree.items() if value is not None}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(p) for p in e['loc'])}: "
            + ("is required" if e["type"] == "missing" else f"{e['msg']}, got {e['input']!r}")
            for e in error.errors(include_url=False)
        ]
    raise ConfigError(
        "; ".join(problems), hint="give a setting as +name=value, or as a flag of `palestra`"
    )


def existing_path(path: str) -> Path:
    """`path` in the working directory, else in the installed package."""
    return resolve_path(path, Path.cwd(), PACKAGE_ROOT)

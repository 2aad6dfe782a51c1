"""Loads the configuration of a command. It may also contain settings of other commands."""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from palestra.config import ConfigTree, OverrideRules, ResolvedConfig, load_config
from palestra.settings.base import flags_of
from palestra.settings.collecting import CollectArgs
from palestra.settings.data import BenchmarkArgs, NetworkSettings, PrepareArgs, RenderArgs
from palestra.settings.hub import GitlabDownload, GitlabUpload, HubDownload, HubUpload
from palestra.settings.runs import AggregateArgs, ProfileArgs
from palestra.settings.viewing import ViewerArgs

COMMAND_MODELS: Final[tuple[type[BaseModel], ...]] = (
    CollectArgs,
    ProfileArgs,
    AggregateArgs,
    PrepareArgs,
    RenderArgs,
    BenchmarkArgs,
    HubUpload,
    HubDownload,
    GitlabUpload,
    GitlabDownload,
    NetworkSettings,
    ViewerArgs,
)
"""The settings of the commands that load a configuration."""
COMMAND_SETTINGS: Final = frozenset(
    {
        *(name for model in COMMAND_MODELS for name in model.model_fields),
        "hf_token",
        "mlflow_tracking_uri",
        "mlflow_tracking_token",
        "append",
        "force",
        "format",
        "judge_failed_only",
        "with_failures",
        "outdated",
        "prices",
        "reuse_existing_data_preparation",
        "rollout_collection_driver",
        "shadow",
        "should_validate_data",
        "wait",
    }
)
"""Top-level keys that are settings of any command. All are accepted by each, because users pass one
set of settings to several commands."""

_OF_A_FILE: Final = "_fpath"
"""The ending of the settings that are files."""


@cache
def settings_by_flag() -> Mapping[str, tuple[str, FieldInfo]]:
    """Return the setting of each flag: its name and its field. A flag of several settings is that of
    the first model.
    """
    settings: dict[str, tuple[str, FieldInfo]] = {}
    for model in COMMAND_MODELS:
        for name, field in model.model_fields.items():
            for flag in flags_of(model, name):
                settings.setdefault(flag, (name, field))
    return settings


def _aliases() -> dict[str, str]:
    """Return the settings by the names of their flags, as in `+resume=true`, and without the ending
    for the kind of path, as in `+input_jsonl=tasks.jsonl`.
    """
    names = [name for model in COMMAND_MODELS for name in model.model_fields]
    stems = {name.removesuffix(_OF_A_FILE): name for name in names if name.endswith(_OF_A_FILE)}
    return stems | {
        flag.lstrip("-").replace("-", "_"): name
        for flag, (name, _) in settings_by_flag().items()
        if flag.startswith("--")
    }


def load(
    overrides: list[str],
    *,
    ng: bool,
    extra: ConfigTree | None = None,
    require_all: bool = True,
    required: Collection[str] | None = None,
) -> ResolvedConfig:
    """Return the configuration of one command.

    `ng`: overrides follow Hydra's rules, and an unknown one that is not similar to a setting causes a
    warning instead of an error.
    `required`: the only instances whose settings must have values, because the command starts no
    others.
    """
    return load_config(
        overrides=overrides,
        extra=extra,
        rules=OverrideRules(
            strict_add=ng, known=COMMAND_SETTINGS, aliases=_aliases(), refuse_unknown=not ng
        ),
        require_all=require_all,
        required=required,
    )

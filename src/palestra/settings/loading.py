"""Loads the configuration of a command. It may also contain settings of other commands."""

from collections.abc import Collection

from palestra.config import ConfigTree, OverrideRules, ResolvedConfig, load_config
from palestra.settings.collecting import CollectArgs
from palestra.settings.data import BenchmarkArgs, NetworkSettings, PrepareArgs, RenderArgs
from palestra.settings.hub import GitlabDownload, GitlabUpload, HubDownload, HubUpload
from palestra.settings.runs import AggregateArgs, ProfileArgs

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
        "append",
        "force",
        "format",
        "judge_failed_only",
        "with_failures",
        "outdated",
        "prices",
        "reuse_existing_data_preparation",
        "rollout_collection_driver",
        "should_validate_data",
        "wait",
    }
)
"""Top-level keys that are settings of any command. All are accepted by each, because users pass one
set of settings to several commands."""


def load(
    overrides: list[str],
    *,
    ng: bool,
    extra: ConfigTree | None = None,
    require_all: bool = True,
    required: Collection[str] | None = None,
) -> ResolvedConfig:
    """Return the configuration of one command.

    `ng`: overrides follow Hydra's rules, and unknown ones cause warnings instead of errors.
    `required`: the only instances whose settings must have values, because the command starts no
    others.
    """
    return load_config(
        overrides=overrides,
        extra=extra,
        rules=OverrideRules(strict_add=ng, known=COMMAND_SETTINGS, refuse_unknown=not ng),
        require_all=require_all,
        required=required,
    )

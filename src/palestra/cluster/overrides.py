"""The overrides of each stage, checked at submission against the settings they are for."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from palestra.cluster.filling import OPTION_OF
from palestra.cluster.plan import Collect
from palestra.config import (
    InstanceConfig,
    ResolvedConfig,
    apply_overrides,
    did_you_mean,
    load_config,
    parse_overrides,
    raise_problems,
    settings_from,
)
from palestra.errors import ConfigError
from palestra.fleet import load_server_class
from palestra.settings import CollectArgs, CollectSettings, RolloutOptions, args_from

_DECIDED: Final = {
    **{key: "--" + option.replace("_", "-") for key, option in OPTION_OF.items()},
    "output_jsonl_fpath": "--output-dir",
    "shard": "--num-chunks",
    "split": "--input-file",
    "resume_from_cache": "nothing: jobs always go on from what is there",
    "on_stale": "--rerun-done",
    "progress": "nothing: logs are plain",
}
"""Settings of a collection that options decide."""


def split_extra(extra: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Overrides that name no stage, by the stage whose settings they are: serve, collect."""
    parsed = parse_overrides(extra)
    collect = {o.key for o in parsed if o.steps[0] in CollectArgs.model_fields}
    of = [(text, o.key in collect) for text, o in zip(extra, parsed, strict=True)]
    return tuple(t for t, own in of if not own), tuple(t for t, own in of if own)


def collect_settings(
    asked: RolloutOptions | Collect, overrides: Sequence[str], input_file: Path, *, seeded: bool
) -> CollectSettings:
    """The settings of the whole collection. Raises ConfigError for overrides that are none."""
    parsed = parse_overrides(overrides)
    problems = []
    for name in dict.fromkeys(override.steps[0] for override in parsed):
        if name in _DECIDED:
            problems.append(f"--collect-override {name}: there is {_DECIDED[name]} for it")
        elif name not in CollectArgs.model_fields:
            near = did_you_mean(name, CollectArgs.model_fields)
            problems.append(
                f"--collect-override {name} is no setting of a collection{near}; "
                "settings of servers go to --serve-override"
            )
    raise_problems(problems)
    tree: dict[Any, Any] = {
        "input_jsonl_fpath": str(input_file),
        "output_jsonl_fpath": "rollouts.jsonl",
        "agent_name": asked.agent_name,
        "num_repeats": asked.num_repeats,
        "num_samples_in_parallel": asked.num_samples_in_parallel,
    }
    given = apply_overrides({}, parsed)
    if seeded:
        given["num_repeats_add_seed"] = True
    args = args_from(CollectArgs, {**tree, **given}, hint="these come from --collect-override")
    return args.settings(load_config(use_env_yaml=False))


def served_config(
    options: RolloutOptions,
    config_paths: Sequence[Path],
    overrides: Sequence[str],
    *,
    use_env_yaml: bool = True,
) -> ResolvedConfig:
    """The servers' configuration as a job will have it, except for where the model is.

    `use_env_yaml`: whether the jobs see the `env.yaml` of this folder.
    Raises ConfigError for unknown overrides and for settings that a server has not.
    """
    try:
        config = load_config(
            overrides=overrides,
            config_paths=[str(path) for path in config_paths],
            extra=_policy(options),
            refuse_unknown=True,
            use_env_yaml=use_env_yaml,
        )
    except ConfigError as error:
        if near := _meant_for_collection(overrides, error.message):
            raise ConfigError(f"{error.message}{near}", hint=error.hint) from error
        if "env.yaml" not in (error.hint or ""):
            raise
        raise ConfigError(error.message, hint=_how_to_give(use_env_yaml=use_env_yaml)) from error
    problems: list[str] = []
    for instance in config.instances.values():
        try:
            _check_settings(instance)
        except ConfigError as error:
            problems.append(error.message)
    raise_problems(problems)
    return config


def _meant_for_collection(overrides: Sequence[str], message: str) -> str:
    """Which setting of the collection is meant by an override that a message refuses.

    Empty when the message names a setting of the servers already, or there is none like it.
    """
    if "did you mean" in message:
        return ""
    refused = (o.steps[0] for o in parse_overrides(overrides) if repr(o.steps[0]) in message)
    return next(
        filter(None, (did_you_mean(name, CollectArgs.model_fields) for name in refused)), ""
    )


def _how_to_give(*, use_env_yaml: bool) -> str:
    """What a job takes its settings from: its own command line is not the user's."""
    ways = (
        "the model's address, key and name are --server-address, --policy-api-key-env and --model "
        "(or --server-type and its like start one); any other setting that is no secret is "
        "--serve-override ++name=<value>"
    )
    return f"{ways}, or a line of env.yaml" if use_env_yaml else ways


def _policy(options: RolloutOptions) -> Mapping[str, Any]:
    """What a job knows of the model, with something in place of what only the job knows."""
    known: dict[str, Any] = {}
    if options.self_hosted or options.server_address:
        known["policy_base_url"] = options.server_address or "http://server.invalid/v1"
        known["policy_api_key"] = "unknown"
    if options.policy_api_key_env:
        known["policy_api_key"] = "unknown"
    if options.policy_name:
        known["policy_model_name"] = options.policy_name
    return known


def _check_settings(instance: InstanceConfig) -> None:
    if instance.folder is None:
        return
    try:
        server = load_server_class(instance.folder / instance.entrypoint)
    except (ConfigError, ImportError):
        return  # what it needs is not installed here, but in the job
    facts = {
        name: getattr(instance, name)
        for name in ("name", "host", "port", "entrypoint", "num_workers", "domain", "description")
    }
    extra = {name: value for name, value in facts.items() if value is not None}
    model: Any = server.model_fields["config"].annotation
    settings_from(model, instance, extra=extra)

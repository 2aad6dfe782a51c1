"""Turn overrides into options where an option sets the same value; pass the others to the stages.

Users of the field's commands write `+agent_name=… +limit=…` where options with the same meaning
exist. Each remaining override is checked at submission against the settings of its stage.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from palestra.cluster.plan import Collect
from palestra.cluster.secrets import PLACEHOLDERS, SHORTEST
from palestra.config import (
    InstanceConfig,
    Override,
    OverrideAction,
    OverrideRules,
    ResolvedConfig,
    apply_overrides,
    did_you_mean,
    is_secret_name,
    load_config,
    parse_overrides,
    raise_problems,
)
from palestra.errors import ConfigError
from palestra.fleet import check_settings, load_server_class
from palestra.schema import JsonDict
from palestra.settings import CollectArgs, CollectSettings, RolloutOptions, args_from, config_list

OPTION_OF: Final = {
    "agent_name": "agent_name",
    "config_paths": "config_paths",
    "input_jsonl_fpath": "input_file",
    "limit": "limit",
    "num_repeats": "num_repeats",
    "num_samples_in_parallel": "num_samples_in_parallel",
    "overwrite": "rerun_done",
    "policy_api_key": "policy_api_key",
    "policy_model_name": "policy_model_name",
}
"""The settings of the field's commands, and the option that sets each."""


@dataclass(frozen=True, slots=True)
class Filled:
    """The options, the overrides that remain for the stages, and notices for the user."""

    options: dict[str, Any]
    extra: tuple[str, ...]
    notices: tuple[str, ...] = ()


def filled(options: Mapping[str, Any], extra: Sequence[str], environ: Mapping[str, str]) -> Filled:
    """Return the options, completed with the values that overrides give.

    `environ`: the variables, searched for the one that holds an API key given by value. Raises
    ConfigError: an option is given twice with different values.
    """
    from_overrides, other_overrides = _by_option(extra)
    values = {name: value for name, value in options.items() if value not in (None, False)}
    problems = [
        f"--{name.replace('_', '-')} has more than one value (an override sets it too)"
        for name, given_values in from_overrides.items()
        if len({_comparable(name, v) for v in (*given_values, *_values_of(values, name))}) > 1
    ]
    raise_problems(problems, hint="set each only once: as an option or as an override")
    values = {**options, **{name: given_values[0] for name, given_values in from_overrides.items()}}
    values, notices = _with_key_variable(values, environ)
    return Filled(values, (*other_overrides, *_placeholder_key(values)), notices)


def _values_of(options: Mapping[str, Any], name: str) -> Iterable[Any]:
    return (options[name],) if name in options else ()


def _by_option(extra: Sequence[str]) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the values that overrides give for options, and all other overrides."""
    values: dict[str, list[Any]] = {}
    other_overrides = []
    for text, override in zip(extra, parse_overrides(extra), strict=True):
        if _fills(override):
            # A key of digits alone is a number in Hydra's grammar.
            is_key = is_secret_name(override.key)
            value = str(override.value) if is_key else override.value
            values.setdefault(OPTION_OF[override.key], []).append(value)
        elif not (override.key == "resume_from_cache" and override.value is True):
            other_overrides.append(text)  # but for what is always so: jobs go on from what is there
    return values, other_overrides


def _fills(override: Override) -> bool:
    """Whether an override gives an option's value. False for deletions and for `${…}` values, which
    are resolved inside the job.
    """
    value = override.value
    return (
        override.key in OPTION_OF
        and override.action is not OverrideAction.DELETE
        and value is not None
        and not (isinstance(value, str) and "${" in value)
    )


def _comparable(name: str, value: Any) -> str:
    values = config_list(value) if name == "config_paths" else value
    return str(tuple(values)) if isinstance(values, list | tuple) else str(values)


def _with_key_variable(
    options: dict[str, Any], environ: Mapping[str, str]
) -> tuple[JsonDict, tuple[str, ...]]:
    """Replace an API key given by value with the name of the variable that holds it, for a server
    that runs already. Reason: only names of variables are written to files.
    """
    key = str(options.get("policy_api_key") or "")
    if not options.get("server_address") or len(key) < SHORTEST or key.lower() in PLACEHOLDERS:
        return options, ()
    names = sorted(name for name, value in environ.items() if value == key)
    names.sort(key=lambda name: not is_secret_name(name))
    if not names or options.get("policy_api_key_env") not in (None, names[0]):
        return options, ()
    notice = f"--policy-api-key is read from the variable {names[0]} in the jobs"
    return {**options, "policy_api_key": None, "policy_api_key_env": names[0]}, (notice,)


def _placeholder_key(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return an override for a placeholder key such as `dummy`. Empty when a job starts the server:
    its key is made for that job.
    """
    key = str(options.get("policy_api_key") or "")
    started = options.get("server_gpus") or options.get("server_cpu")
    is_placeholder = bool(key) and key.lower() in PLACEHOLDERS
    return (f"++policy_api_key={key}",) if is_placeholder and not started else ()


_DECIDED: Final = {
    **{key: "--" + option.replace("_", "-") for key, option in OPTION_OF.items()},
    "output_jsonl_fpath": "--output-dir",
    "shard": "--num-chunks",
    "split": "--input-file",
    "resume_from_cache": "leave it out: jobs always continue from the rollouts that exist",
    "on_stale": "--rerun-done",
    "progress": "leave it out: logs are always plain",
}
"""The collection settings that options decide, and the option for each."""


def split_extra(extra: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split overrides that name no stage by the stage that has the setting: serve, collect."""
    parsed = parse_overrides(extra)
    collect = {o.key for o in parsed if o.steps[0] in CollectArgs.model_fields}
    of = [(text, o.key in collect) for text, o in zip(extra, parsed, strict=True)]
    return tuple(t for t, is_collecting in of if not is_collecting), tuple(
        t for t, is_collecting in of if is_collecting
    )


def collect_settings(
    options: RolloutOptions | Collect, overrides: Sequence[str], input_file: Path, *, seeded: bool
) -> CollectSettings:
    """Return the settings of the whole collection. Raises ConfigError: an override is not valid for
    it.
    """
    parsed = parse_overrides(overrides)
    problems = []
    for name in dict.fromkeys(override.steps[0] for override in parsed):
        if name in _DECIDED:
            problems.append(f"--collect-override {name} is not accepted; instead: {_DECIDED[name]}")
        elif name not in CollectArgs.model_fields:
            near = did_you_mean(name, CollectArgs.model_fields)
            problems.append(
                f"--collect-override {name} is not a setting of a collection{near}; "
                "settings of servers go to --serve-override"
            )
    raise_problems(problems)
    tree: dict[Any, Any] = {
        "input_jsonl_fpath": str(input_file),
        "output_jsonl_fpath": "rollouts.jsonl",
        "agent_name": options.agent_name,
        "num_repeats": options.num_repeats,
        "num_samples_in_parallel": options.num_samples_in_parallel,
    }
    overridden = apply_overrides({}, parsed)
    if seeded:
        overridden["num_repeats_add_seed"] = True
    args = args_from(
        CollectArgs, {**tree, **overridden}, hint="correct the --collect-override options"
    )
    return args.settings(load_config(use_env_yaml=False))


def served_config(
    options: RolloutOptions,
    config_paths: Sequence[Path],
    overrides: Sequence[str],
    *,
    use_env_yaml: bool = True,
) -> ResolvedConfig:
    """Return the servers' configuration as a job will have it, except for the model's address.

    `use_env_yaml`: whether the jobs can read the `env.yaml` of this folder. Raises ConfigError: an
    override is unknown, or a server does not have the setting.
    """
    try:
        config = load_config(
            overrides=overrides,
            config_paths=[str(path) for path in config_paths],
            extra=_policy(options),
            rules=OverrideRules(refuse_unknown=True),
            use_env_yaml=use_env_yaml,
        )
    except ConfigError as error:
        if near := _meant_for_collection(overrides, error.message):
            raise ConfigError(f"{error.message}{near}", hint=error.hint) from error
        if "env.yaml" not in (error.hint or ""):
            raise
        raise ConfigError(error.message, hint=_how_to_give(use_env_yaml=use_env_yaml)) from error
    problems = _unused_servers(options, config)
    for instance in config.instances.values():
        try:
            _check_settings(instance)
        except ConfigError as error:
            problems.append(error.message)
    raise_problems(problems)
    return config


def _meant_for_collection(overrides: Sequence[str], message: str) -> str:
    """Return a suggestion of a collection setting for the override that an error message refuses.

    Empty when the message already suggests a server setting, or no collection setting has a similar
    name.
    """
    if "did you mean" in message:
        return ""
    refused = (o.steps[0] for o in parse_overrides(overrides) if repr(o.steps[0]) in message)
    return next(
        filter(None, (did_you_mean(name, CollectArgs.model_fields) for name in refused)), ""
    )


def _how_to_give(*, use_env_yaml: bool) -> str:
    """Return a hint that names the options through which a job gets its settings.

    A user's command line does not reach the servers' command inside the job.
    """
    ways = (
        "the model's address, key and name are --server-address, --policy-api-key-env and --model "
        "(or --server-type and its like start one); any other setting that is not a secret is "
        "--serve-override ++name=<value>"
    )
    return f"{ways}, or a line of env.yaml" if use_env_yaml else ways


def _policy(options: RolloutOptions) -> Mapping[str, Any]:
    """Return the models' settings, with dummy values for those that are known only inside the job."""
    policy: JsonDict = {}
    if options.self_hosted or options.server_address:
        policy["policy_base_url"] = options.server_address or "http://server.invalid/v1"
        policy["policy_api_key"] = "unknown"
    if options.policy_api_key_env:
        policy["policy_api_key"] = "unknown"
    if options.policy_name:
        policy["policy_model_name"] = options.policy_name
    for name, server in options.further_servers.items():
        policy[f"{name}_base_url"] = _unknown_url(name)
        policy[f"{name}_api_key"] = "unknown"
        policy[f"{name}_model_name"] = server.requested_name
    return policy


def _unknown_url(name: str) -> str:
    """Return a URL that stands for the address of a server that no job has started yet."""
    return f"http://{name.replace('_', '-')}.invalid/v1"


def _unused_servers(options: RolloutOptions, config: ResolvedConfig) -> list[str]:
    """Return a message for each server of `--server` that no configured server would ask."""
    settings = [str(instance.settings) for instance in config.instances.values()]
    return [
        f"--server {name}: no server of the configuration asks it: none has `${{{name}_base_url}}`"
        for name in options.further_servers
        if not any(_unknown_url(name) in text for text in settings)
    ]


def _check_settings(instance: InstanceConfig) -> None:
    if instance.folder is None:
        return
    try:
        load_server_class(instance.folder / instance.entrypoint)
    except (ConfigError, ImportError):
        return  # what it needs is not installed here, but in the job
    check_settings(instance)

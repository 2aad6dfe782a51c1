"""Checks of the options before a submission: conflicts, options without effect, missing values."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from palestra.cluster.configs import ClusterConfig
from palestra.cluster.secrets import (
    PLACEHOLDERS,
    address_problem,
    argument_problems,
    override_problems,
    variable_problem,
)
from palestra.config import did_you_mean, raise_problems
from palestra.errors import ConfigError
from palestra.settings import JobOptions, RolloutOptions, args_from


def checked_options(**settings: Any) -> RolloutOptions:
    """Return the validated options. Raises ConfigError: an option is invalid or conflicts with
    another.
    """
    unknown = [name for name in settings if name not in RolloutOptions.model_fields]
    if unknown:
        near = did_you_mean(unknown[0], RolloutOptions.model_fields)
        raise ConfigError(f"{', '.join(unknown)}: no such option{near}")
    options = args_from(
        RolloutOptions, settings, hint="`palestra cluster rollouts --help` lists all"
    )
    raise_problems(
        [
            *_server_problems(options),
            *_further_server_problems(options),
            *_key_value_problems(options),
            *_name_problems(options),
            *override_problems(options.serve_override, "--serve-override"),
            *override_problems(options.collect_override, "--collect-override"),
            *argument_problems(_words(options.server_args, "--server-args"), "--server-args"),
            *argument_problems(
                _words(options.server_entrypoint or "", "--server-entrypoint"),
                "--server-entrypoint",
            ),
        ]
    )
    _ = options.seeds, options.chunks
    return options


def _words(text: str, option: str) -> Sequence[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None


def _server_problems(options: RolloutOptions) -> list[str]:
    """Return what is wrong with the server options.

    Options for a server that the job starts cannot be combined with `--server-address`.
    """
    server_options = {
        "--server-type": options.server_type is not None,
        "--server-gpus": options.server_gpus > 0,
        "--server-cpu": options.server_cpu,
        "--server-nodes": options.server_nodes != 1,
        "--server-args": bool(options.server_args),
        "--server-entrypoint": options.server_entrypoint is not None,
        "--server-container": options.server_container is not None,
        "--trust-remote-code": options.trust_remote_code,
    }
    server_flags = [name for name, is_set in server_options.items() if is_set]
    if options.server_address is not None:
        return _address_problems(options, options.server_address, server_flags)
    if not options.self_hosted:
        if server_flags:
            return [
                (
                    f"{', '.join(server_flags)} without --server-gpus N (or --server-cpu): no "
                    "server would start"
                )
            ]
        return _key_problems(options)
    problems = []
    if options.server_gpus and options.server_cpu:
        problems.append("--server-gpus and --server-cpu: give one of them")
    if not options.model:
        problems.append("a self-hosted server needs --model")
    if not options.server_type:
        problems.append("a self-hosted server needs --server-type")
    if options.policy_api_key_env:
        problems.append(
            "--policy-api-key-env: leave it out, as each job makes a key for its self-hosted server"
        )
    return problems


def _further_server_problems(options: RolloutOptions) -> list[str]:
    """Return what is wrong with the servers of `--server`."""
    problems = []
    for name, server in options.further_servers.items():
        where = f"--server {name}"
        if server.gpus and server.cpu:
            problems.append(f"{where}: gpus and cpu: give one of them")
        elif not server.gpus and not server.cpu:
            problems.append(f"{where}: it needs gpus=N, or cpu=true")
        problems += argument_problems(_words(server.args, f"{where}.args"), f"{where}.args")
        entrypoint = _words(server.entrypoint or "", f"{where}.entrypoint")
        problems += argument_problems(entrypoint, f"{where}.entrypoint")
    return problems


def _address_problems(
    options: RolloutOptions, address: str, server_flags: Sequence[str]
) -> list[str]:
    """Return what is wrong with the options for a server that runs already.

    `server_flags`: options that apply only to a server that the job starts.
    """
    problems = []
    if server_flags:
        problems.append(
            f"{', '.join(server_flags)} cannot be combined with --server-address: that server "
            "runs already and is not started"
        )
    if not address.startswith(("http://", "https://")):
        problems.append("--server-address is a URL such as http://host:8000/v1")
    elif problem := address_problem(address, "--server-address"):
        problems.append(problem)
    if not options.policy_name:
        problems.append("--server-address needs --model (or --policy-model-name) to ask for")
    return problems + _key_problems(options)


def _key_problems(options: RolloutOptions) -> list[str]:
    if options.policy_api_key_env is None:
        return []
    problem = variable_problem(options.policy_api_key_env, "--policy-api-key-env")
    return [problem] if problem else []


def _key_value_problems(options: RolloutOptions) -> list[str]:
    """Return why an API key given by value is refused. Only a placeholder such as `dummy` is
    allowed.

    Never shows the key.
    """
    key = options.policy_api_key
    if key is None or key.lower() in PLACEHOLDERS:
        both = bool(key) and options.policy_api_key_env is not None
        return ["--policy-api-key and --policy-api-key-env: give one of them"] if both else []
    problem = (
        "--policy-api-key would be readable in the plan file: export the key, and pass the name "
        "of its variable with --policy-api-key-env"
    )
    if options.self_hosted:
        problem = (
            "--policy-api-key: leave it out, as a server that a job starts gets a new key (for "
            "--server-address, --policy-api-key-env names the variable of the key)"
        )
    return [problem]


def _name_problems(options: RolloutOptions) -> list[str]:
    problems = name_problems(options)
    if options.keep_mounts_for_sandbox and not options.with_sandbox:
        problems.append("--keep-mounts-for-sandbox without --with-sandbox")
    if options.gym_path and options.package in {"git", "dir"}:
        problems.append(f"--gym-path and --package {options.package}: give one of them")
    return problems


MOST_NAME: Final = 100


def name_problems(options: JobOptions) -> list[str]:
    """Return what is wrong with a run's name and with its dependencies on other runs."""
    problems = _run_name_problems(options.expname)
    if options.allow_missing_dep and not options.run_after:
        problems.append("--allow-missing-dep without --run-after")
    return problems


def check_run_name(name: str) -> None:
    """Raise ConfigError unless `name` can be a run's name, which is also the name of a folder."""
    raise_problems(_run_name_problems(name))


def _run_name_problems(name: str) -> list[str]:
    if not (name.replace("-", "").replace("_", "").replace(".", "").isalnum() and name.isascii()):
        return [f"--expname {name!r}: letters, digits, '-', '_' and '.'"]
    if len(name) > MOST_NAME or name.isdecimal():
        return [f"--expname: at most {MOST_NAME} characters, and not only digits"]
    return []


HERE: Final = frozenset({"local", "none"})
"""The executors whose jobs run on this machine, with its files."""
EXPORTS: Final = frozenset({"export", "export-file"})
"""The sbatch directives that decide which environment variables jobs inherit."""


KEY_OPTION: Final = "--policy-api-key-env"
INHERITED: Final = "inherit_env of the cluster config"


def unset_variables(
    options: JobOptions, cluster: ClusterConfig, environ: Mapping[str, str]
) -> list[str]:
    """Return a message for each variable that the jobs inherit from here and that is unset or
    empty.

    Empty when an `export` directive decides which variables jobs inherit.
    """
    key = options.key_variable
    setting_of = dict.fromkeys(cluster.inherit_env, INHERITED)
    setting_of.update({key: KEY_OPTION} if key else {})
    directives = {**cluster.sbatch, **options.sbatch_settings}
    return [] if EXPORTS & set(directives) else unset(setting_of, environ)


def unset(setting_of: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """Return a message for each variable without a value. `setting_of`: variable -> setting that
    names it.
    """
    return [
        f"{where} names the variable {name}, which is not set, or empty, in this shell"
        for name, where in setting_of.items()
        if not environ.get(name)
    ]


def raise_unset(problems: Sequence[str]) -> None:
    """Raise ConfigError when a variable that the jobs need has no value."""
    if problems:
        raise ConfigError(
            "; ".join(problems),
            hint="export it before you submit: jobs have the environment of this command",
        )


def inherited_variables(
    key: str | None, cluster: ClusterConfig, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that jobs inherit from here, with their values.

    `key`: the variable of the model's API key. Raises ConfigError: one has no value.
    """
    setting_of = dict.fromkeys(cluster.inherit_env, INHERITED)
    setting_of.update({key: KEY_OPTION} if key else {})
    raise_unset(unset(setting_of, environ))
    return {name: environ[name] for name in setting_of}


def missing_here(options: RolloutOptions, cluster: ClusterConfig, cwd: Path) -> list[str]:
    """Return a message for each path that the jobs will not find.

    Empty for executors whose jobs may have other files than this machine.
    """
    if cluster.executor not in HERE:
        return []
    problems = []
    path = options.gym_path
    if path and cluster.runtime == "none" and not (cwd / path).is_dir():
        problems.append(
            f"--gym-path {path}: there is no such folder; pass the folder of a checkout"
        )
    return problems


def unused_here(options: JobOptions, cluster: ClusterConfig) -> list[str]:
    """Return a warning that names the options without effect on an executor without a queue.

    They are no error: a user may try a cluster's command on this machine first.
    """
    for_queue = {
        "--partition": options.partition is not None,
        "--exclusive": options.exclusive is not None,
        "--array-cap": isinstance(options, RolloutOptions) and options.array_cap is not None,
        "--merge-partition": isinstance(options, RolloutOptions)
        and options.merge_partition is not None,
    }
    if cluster.executor in HERE and (option_names := _options_set(for_queue)):
        return [f"{option_names}: no effect, since executor {cluster.executor} has no queue"]
    return []


def unused_options(options: JobOptions, cluster: ClusterConfig) -> list[str]:
    """Return an error for options without effect on this cluster, whose effect a user relies on."""
    for_queue = {
        "--account": options.account is not None,
        "--qos": options.qos is not None,
        "--time-min": options.time_min is not None,
        "--sbatch": bool(options.sbatch),
    }
    for_containers = {
        "--mounts": bool(options.mounts),
        "--check-mounted-paths": options.check_mounted_paths,
    }
    problems = []
    if cluster.executor in HERE and (option_names := _options_set(for_queue)):
        problems.append(f"{option_names}: executor {cluster.executor} has no queue to pass it to")
    if cluster.runtime == "none" and (option_names := _options_set(for_containers)):
        problems.append(
            f"{option_names}: this cluster runs no containers (`runtime` of its config)"
        )
    return problems


def _options_set(is_set_of: Mapping[str, bool]) -> str:
    return ", ".join(name for name, is_set in is_set_of.items() if is_set)

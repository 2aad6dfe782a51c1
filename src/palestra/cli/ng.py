"""The `ng_*` commands (also `nemo_gym_*`): Hydra overrides, exactly as their users type them."""

import sys
from collections.abc import Callable
from typing import NoReturn

from palestra.cli.console import guarded, say
from palestra.cli.guard import fork_under_guard
from palestra.errors import ConfigError

HELP = frozenset({"-h", "--help", "+h=true", "+help=true", "h=true", "help=true"})


def _command(
    name: str, about: str, call: Callable[[list[str]], int], *, guard: bool = False
) -> NoReturn:
    """`guard`: it runs authors' code inside itself."""
    overrides = sys.argv[1:]
    if HELP & set(overrides):
        say(f"{name}: {about}")
        say("Settings are Hydra overrides: +key=value adds, ++key=value adds or overrides, ~key")
        say('removes. Config files: "+config_paths=[a.yaml,b.yaml]".')
        raise SystemExit(0)
    if guard:
        fork_under_guard()
    guarded(lambda: call(overrides))


def run() -> NoReturn:
    """`ng_run`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.fleet_commands import run_fleet

        return run_fleet(overrides, ng=True)

    _command("ng_run", "start every server of the configuration", call)


def status() -> NoReturn:
    """`ng_status`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.fleet_commands import status as show

        wait, rest = _wait_of(overrides)
        return show(rest, ng=True, wait_s=wait)

    told = "one line per server of the running fleet (--wait S, +wait=S); exit 0 unless it waits"
    _command("ng_status", told, call)


def dump_config() -> NoReturn:
    """`ng_dump_config`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.fleet_commands import dump_config as dump

        return dump(overrides, ng=True)

    _command("ng_dump_config", "print the resolved configuration, secrets masked", call)


def pip_list() -> NoReturn:
    """`ng_pip_list`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.packages import ng_pip_list

        return ng_pip_list(overrides)

    _command(
        "ng_pip_list",
        "the packages that a server runs with (+entrypoint=resources_servers/my_env, "
        "+format=columns|freeze|json, +outdated=true)",
        call,
    )


def collect_rollouts() -> NoReturn:
    """`ng_collect_rollouts`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.collecting import collect

        return collect(overrides, ng=True)

    _command(
        "ng_collect_rollouts",
        "run rows through agents (+agent_name, +input_jsonl_fpath, +output_jsonl_fpath, +limit, "
        "+num_repeats, +num_samples_in_parallel, +responses_create_params, +resume_from_cache)",
        call,
        guard=True,
    )


def e2e_collect_rollouts() -> NoReturn:
    """`ng_e2e_collect_rollouts`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.collecting import collect

        return collect(overrides, ng=True, own_fleet=True)

    _command(
        "ng_e2e_collect_rollouts",
        "start the configuration's servers, run its datasets of +split (train, validation, "
        "benchmark) or +input_jsonl_fpath through their agents, stop",
        call,
        guard=True,
    )


def reward_profile() -> NoReturn:
    """`ng_reward_profile`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.profiling_commands import profile

        return profile(overrides, ng=True)

    _command(
        "ng_reward_profile",
        "reward statistics (+materialized_inputs_jsonl_fpath, +rollouts_jsonl_fpath, "
        "+allow_partial_rollouts)",
        call,
    )


def aggregate_rollouts() -> NoReturn:
    """`ng_aggregate_rollouts`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.merging import aggregate_rollouts as aggregate

        return aggregate(overrides)

    _command(
        "ng_aggregate_rollouts",
        "merge shards and aggregate the metrics of the whole (+input_glob, +output_jsonl_fpath, "
        "+merge_shards, +allow_partial_rollouts)",
        call,
    )


def version() -> NoReturn:
    """`ng_version`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.fleet_commands import version as show

        return show(as_json=any(item.lstrip("+") in {"json=true", "--json"} for item in overrides))

    _command("ng_version", "what is installed, and where (+json=true)", call)


def init_resources_server() -> NoReturn:
    """`ng_init_resources_server`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.authoring import ng_init

        return ng_init(overrides)

    _command(
        "ng_init_resources_server",
        "make the folder of a new environment (+entrypoint=resources_servers/my_env)",
        call,
    )


def test() -> NoReturn:
    """`ng_test`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.authoring import ng_test

        return ng_test(overrides)

    _command(
        "ng_test",
        "run one server's tests (+entrypoint=resources_servers/my_env, "
        "+should_validate_data=true looks at its example data too)",
        call,
    )


def test_all() -> NoReturn:
    """`ng_test_all`."""

    def call(_overrides: list[str]) -> int:
        from palestra.cli.authoring import ng_test_all

        return ng_test_all()

    _command("ng_test_all", "run every server's tests, and look at their example data", call)


def dev_test() -> NoReturn:
    """`ng_dev_test`."""

    def call(_overrides: list[str]) -> int:
        from palestra.cli.authoring import ng_dev_test

        return ng_dev_test()

    _command("ng_dev_test", "run palestra's own quick tests, in a checkout of it", call)


def prepare_data() -> NoReturn:
    """`ng_prepare_data`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.preparing import prepare

        return prepare(overrides, ng=True)

    _command(
        "ng_prepare_data",
        "check, measure and write the datasets of the configuration's agents (+output_dirpath, "
        "+mode=train_preparation|example_validation, +should_download, +data_source, "
        "+overwrite_metrics_conflicts)",
        call,
    )


def materialize_prompts() -> NoReturn:
    """`ng_materialize_prompts`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.importing import render

        return render(overrides, ng=True)

    _command(
        "ng_materialize_prompts",
        "fill rows into a prompt template (+input_jsonl_fpath, +prompt_config, "
        "+output_jsonl_fpath)",
        call,
    )


def list_benchmarks() -> NoReturn:
    """`ng_list_benchmarks`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.benchmarks import list_benchmarks as show

        return show(overrides, ng=True)

    _command("ng_list_benchmarks", "the benchmarks of +config_paths, else of the project", call)


def prepare_benchmark() -> NoReturn:
    """`ng_prepare_benchmark`."""

    def call(overrides: list[str]) -> int:
        from palestra.cli.benchmarks import prepare

        return prepare(overrides, ng=True)

    _command(
        "ng_prepare_benchmark",
        "run the scripts that make benchmarks' files (+use_cached_prepared_benchmarks, "
        "+num_prepare_benchmark_processes, +prepare_script_args)",
        call,
    )


def rollouts() -> NoReturn:
    """`nemo_gym_rollouts`: flags and overrides, as its users mix them."""
    from palestra.cli.main import run_as

    run_as("nemo_gym_rollouts", ("cluster", "rollouts"), with_dashes(sys.argv[1:]))


def with_dashes(arguments: list[str]) -> list[str]:
    """`--input_file=x` is `--input-file=x`; values stay as they are."""
    return [
        f"{name.replace('_', '-')}{equals}{value}" if name.startswith("--") else text
        for text in arguments
        for name, equals, value in [text.partition("=")]
    ]


def _sharing(name: str, about: str, function: str) -> NoReturn:
    def call(overrides: list[str]) -> int:
        import palestra.cli.sharing

        run: Callable[..., int] = getattr(palestra.cli.sharing, function)
        return run(overrides, ng=True)

    _command(name, about, call)


def upload_dataset_to_hf() -> NoReturn:
    """`ng_upload_dataset_to_hf`."""
    _sharing(
        "ng_upload_dataset_to_hf",
        "a file into a repository of the hub (+input_jsonl_fpath, +hf_organization, "
        "+resource_config_path, +dataset_name, +hf_dataset_prefix, +hf_collection_name, "
        "+hf_collection_slug, +split, +create_pr, +revision, +commit_message, "
        "+commit_description, +delete_from_gitlab)",
        "upload_to_hub",
    )


def download_dataset_from_hf() -> NoReturn:
    """`ng_download_dataset_from_hf`."""
    _sharing(
        "ng_download_dataset_from_hf",
        "a file or splits of the hub (+repo_id, +artifact_fpath or +split, +output_dirpath or "
        "+output_fpath)",
        "download_from_hub",
    )


def upload_dataset_to_gitlab() -> NoReturn:
    """`ng_upload_dataset_to_gitlab`."""
    _sharing(
        "ng_upload_dataset_to_gitlab",
        "a file into GitLab's registry (+dataset_name, +version=x.y.z, +input_jsonl_fpath)",
        "upload_to_gitlab",
    )


def download_dataset_from_gitlab() -> NoReturn:
    """`ng_download_dataset_from_gitlab`."""
    _sharing(
        "ng_download_dataset_from_gitlab",
        "a file of GitLab's registry (+dataset_name, +version=x.y.z, +artifact_fpath, "
        "+output_fpath)",
        "download_from_gitlab",
    )


def delete_dataset_from_gitlab() -> NoReturn:
    """`ng_delete_dataset_from_gitlab`."""
    _sharing(
        "ng_delete_dataset_from_gitlab",
        "delete a dataset from GitLab's registry, after a question (+dataset_name, +yes=true)",
        "delete_from_gitlab",
    )


def gitlab_to_hf_dataset() -> NoReturn:
    """`ng_gitlab_to_hf_dataset`."""
    _sharing(
        "ng_gitlab_to_hf_dataset",
        "upload a file to the hub, then ask whether to delete the dataset from GitLab (as "
        "ng_upload_dataset_to_hf; +version and +artifact_fpath instead of +input_jsonl_fpath "
        "take the registry's file)",
        "migrate",
    )


def help_() -> NoReturn:
    """`ng_help`."""

    def call(_overrides: list[str]) -> int:
        from importlib.metadata import entry_points

        names = [e.name for e in entry_points(group="console_scripts") if e.name.startswith("ng_")]
        say("\n".join(sorted(names)))
        return 0

    _command("ng_help", "the list of commands", call)


def not_yet() -> NoReturn:
    """Every name that is reserved for a command still to come."""
    name = sys.argv[0].rsplit("/", 1)[-1]
    guarded(lambda: unavailable(name))


def unavailable(name: str) -> int:
    """Say that a command does not exist yet."""
    raise ConfigError(f"{name} is not available yet", hint="`palestra --help` lists what is")


def _wait_of(overrides: list[str]) -> tuple[float | None, list[str]]:
    """`--wait S` taken out of the arguments."""
    if "--wait" not in overrides:
        return None, overrides
    at = overrides.index("--wait")
    try:
        seconds = float(overrides[at + 1])
    except (IndexError, ValueError):
        raise ConfigError("--wait needs a number of seconds") from None
    return seconds, overrides[:at] + overrides[at + 2 :]

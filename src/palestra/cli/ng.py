"""The `ng_*` commands (also `nemo_gym_*`), which take Hydra overrides exactly as their users type
them. Nothing is imported before a command is called.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from palestra.cli.entry import ending_imports_on_interrupt, exits_on_interrupt, imported

CLI: Final = "palestra.cli"
HELP: Final = frozenset({"-h", "--help", "+h=true", "+help=true", "h=true", "help=true"})


def _command(
    name: str,
    about: str,
    function: str,
    *models: str,
    settings: Sequence[str] = (),
    runs_authors_code: bool = False,
    needs_model: bool = False,
    **arguments: Any,
) -> Callable[[], NoReturn]:
    """Return the entry point of a command, which calls `function` with the overrides and
    `arguments`.

    `function` and `models`: `module:attribute`. The help lists the settings of the models. `settings`:
    those that no model has. `needs_model`: an
    environment's config alone is not enough.
    """

    def run_command(overrides: list[str]) -> int:
        _refuse_bare_words(
            overrides,
            (*_fields(models), *settings, *(["config_paths"] if arguments.get("ng") else [])),
            needs_model=needs_model or runs_authors_code,
        )
        code: int = imported(function)(overrides, **arguments)
        return code

    @exits_on_interrupt
    def command() -> NoReturn:
        overrides = sys.argv[1:]
        if HELP & set(overrides):
            _explain(name, about, models)
            raise SystemExit(0)
        with ending_imports_on_interrupt():
            from palestra.cli.console import guarded

        if runs_authors_code:
            imported(f"{CLI}.guard:fork_under_guard")()
        guarded(lambda: run_command(overrides))

    return command


def _refuse_bare_words(overrides: list[str], settings: Sequence[str], *, needs_model: bool) -> None:
    """Raise ConfigError, with the command as it is meant: a word is neither a flag nor an override."""
    from palestra.cli.bare_words import is_bare
    from palestra.programs import typed_program

    if any(map(is_bare, overrides)):
        from palestra.cli.bare_overrides import Called, refuse_bare_overrides

        program = (typed_program(),)
        refuse_bare_overrides(Called(program, overrides, settings, needs_model))


def _fields(models: Sequence[str]) -> list[str]:
    """Return the settings of the models, each once."""
    return list(dict.fromkeys(field for model in models for field in imported(model).model_fields))


def _explain(name: str, about: str, models: Sequence[str]) -> None:
    from palestra.cli.console import say

    say(f"{name}: {about}")
    if fields := _fields(models):
        say(f"settings: {', '.join(f'+{field}' for field in fields)}")
    say("Settings are Hydra overrides: +key=value adds, ++key=value adds or overrides, ~key")
    say('removes. Config files: "+config_paths=[a.yaml,b.yaml]".')


run = _command(
    "ng_run",
    "start every server of the configuration",
    f"{CLI}.fleet_commands:run_fleet",
    runs_authors_code=True,
    ng=True,
)
status = _command(
    "ng_status",
    "one line per server of the running fleet (--wait S, +wait=S); exit 0 unless it waits",
    f"{CLI}.ng:_status",
)
dump_config = _command(
    "ng_dump_config",
    "print the resolved configuration, secrets masked",
    f"{CLI}.fleet_commands:dump_config",
    needs_model=True,
    ng=True,
)
pip_list = _command(
    "ng_pip_list",
    "the packages that a server runs with (+entrypoint=resources_servers/my_env, "
    "+format=columns|freeze|json, +outdated=true)",
    f"{CLI}.packages:ng_pip_list",
    settings=("entrypoint", "format", "outdated"),
)
collect_rollouts = _command(
    "ng_collect_rollouts",
    "run rows through agents",
    f"{CLI}.collecting:collect",
    "CollectArgs",
    runs_authors_code=True,
    ng=True,
)
e2e_collect_rollouts = _command(
    "ng_e2e_collect_rollouts",
    "start the configuration's servers, run its datasets of +split (train, validation, "
    "benchmark) or +input_jsonl_fpath through their agents, stop",
    f"{CLI}.collecting:collect",
    "CollectArgs",
    runs_authors_code=True,
    ng=True,
    fleet="own",
)
reward_profile = _command(
    "ng_reward_profile",
    "reward statistics",
    f"{CLI}.profiling_commands:profile",
    "ProfileArgs",
    ng=True,
)
aggregate_rollouts = _command(
    "ng_aggregate_rollouts",
    "merge shards and aggregate the metrics of the whole",
    f"{CLI}.merging:aggregate_rollouts",
    "AggregateArgs",
)
version = _command("ng_version", "what is installed, and where (+json=true)", f"{CLI}.ng:_version")
init_resources_server = _command(
    "ng_init_resources_server",
    "make the folder of a new environment (+entrypoint=resources_servers/my_env)",
    f"{CLI}.scaffolding:ng_init",
    settings=("entrypoint",),
)
test = _command(
    "ng_test",
    "run one server's tests (+entrypoint=resources_servers/my_env, "
    "+should_validate_data=true looks at its example data too)",
    f"{CLI}.authoring:ng_test",
    settings=("entrypoint", "should_validate_data"),
)
test_all = _command(
    "ng_test_all",
    "run every server's tests, and look at their example data",
    f"{CLI}.ng:_without_overrides",
    command=f"{CLI}.authoring:ng_test_all",
)
dev_test = _command(
    "ng_dev_test",
    "run palestra's own quick tests, in a checkout of it",
    f"{CLI}.ng:_without_overrides",
    command=f"{CLI}.authoring:ng_dev_test",
)
prepare_data = _command(
    "ng_prepare_data",
    "check, measure and write the datasets of the configuration's agents "
    "(+mode=train_preparation|example_validation)",
    f"{CLI}.preparing:prepare",
    "PrepareArgs",
    ng=True,
)
materialize_prompts = _command(
    "ng_materialize_prompts",
    "fill rows into a prompt template",
    f"{CLI}.importing:render",
    "RenderArgs",
    ng=True,
)
list_benchmarks = _command(
    "ng_list_benchmarks",
    "the benchmarks of +config_paths, else of the project",
    f"{CLI}.benchmarks:list_benchmarks",
    ng=True,
)
prepare_benchmark = _command(
    "ng_prepare_benchmark",
    "run the scripts that make benchmarks' files",
    f"{CLI}.benchmarks:prepare",
    "BenchmarkArgs",
    ng=True,
)
upload_dataset_to_hf = _command(
    "ng_upload_dataset_to_hf",
    "a file into a repository of the hub",
    f"{CLI}.sharing:upload_to_hub",
    "HubUpload",
    "NetworkSettings",
    ng=True,
)
download_dataset_from_hf = _command(
    "ng_download_dataset_from_hf",
    "a file or splits of the hub",
    f"{CLI}.sharing:download_from_hub",
    "HubDownload",
    "NetworkSettings",
    ng=True,
)
upload_dataset_to_gitlab = _command(
    "ng_upload_dataset_to_gitlab",
    "a file into GitLab's registry (+version=x.y.z)",
    f"{CLI}.sharing:upload_to_gitlab",
    "GitlabUpload",
    "NetworkSettings",
    ng=True,
)
download_dataset_from_gitlab = _command(
    "ng_download_dataset_from_gitlab",
    "a file of GitLab's registry (+version=x.y.z)",
    f"{CLI}.sharing:download_from_gitlab",
    "GitlabDownload",
    "NetworkSettings",
    ng=True,
)
delete_dataset_from_gitlab = _command(
    "ng_delete_dataset_from_gitlab",
    "delete a dataset from GitLab's registry, after a question (+dataset_name)",
    f"{CLI}.sharing:delete_from_gitlab",
    "NetworkSettings",
    settings=("dataset_name",),
    ng=True,
)
gitlab_to_hf_dataset = _command(
    "ng_gitlab_to_hf_dataset",
    "upload a file to the hub, then ask whether to delete the dataset from GitLab (as "
    "ng_upload_dataset_to_hf; +version and +artifact_fpath instead of +input_jsonl_fpath "
    "take the registry's file)",
    f"{CLI}.sharing:migrate",
    "HubUpload",
    "NetworkSettings",
    ng=True,
)
viewer = _command(
    "ng_viewer",
    "show a run in the browser, at http://127.0.0.1:7860; `palestra view` has more",
    f"{CLI}.viewing:ng_viewer",
    "ViewerArgs",
)
help_ = _command("ng_help", "the list of commands", f"{CLI}.ng:_names")


def _names(_overrides: list[str]) -> int:
    from importlib.metadata import entry_points

    from palestra.cli.console import notice, say

    names = [e.name for e in entry_points(group="console_scripts") if e.name.startswith("ng_")]
    say("\n".join(sorted(names)))
    notice("each explains itself with --help; `gym --help` has the newer commands")
    return 0


def _status(overrides: list[str]) -> int:
    wait_s, other_overrides = _wait_of(overrides)
    args = imported("StatusArgs")(wait=wait_s)
    code: int = imported(f"{CLI}.fleet_commands:status")(args, other_overrides, ng=True)
    return code


def _version(overrides: list[str]) -> int:
    as_json = any(item.lstrip("+") in {"json=true", "--json"} for item in overrides)
    code: int = imported(f"{CLI}.installed:print_version")(as_json=as_json)
    return code


def _without_overrides(_overrides: list[str], *, command: str) -> int:
    code: int = imported(command)()
    return code


@exits_on_interrupt
def rollouts() -> NoReturn:
    """Run `nemo_gym_rollouts`, whose users mix flags and overrides."""
    from palestra.cli.main import run_as

    run_as("nemo_gym_rollouts", ("cluster", "rollouts"), with_dashes(sys.argv[1:]))


def with_dashes(arguments: list[str]) -> list[str]:
    """Replace underscores by dashes in the names of flags: `--input_file=x` becomes
    `--input-file=x`.
    """
    return [
        f"{name.replace('_', '-')}{equals}{value}" if name.startswith("--") else text
        for text in arguments
        for name, equals, value in [text.partition("=")]
    ]


def _wait_of(overrides: list[str]) -> tuple[float | None, list[str]]:
    """Return the seconds of `--wait S`, None without it, and the remaining arguments."""
    if "--wait" not in overrides:
        return None, overrides
    from palestra.errors import ConfigError

    at = overrides.index("--wait")
    try:
        seconds = float(overrides[at + 1])
    except (IndexError, ValueError):
        raise ConfigError("--wait needs a number of seconds") from None
    return seconds, overrides[:at] + overrides[at + 2 :]

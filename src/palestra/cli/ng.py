"""The `ng_*` commands (also `nemo_gym_*`), which take Hydra overrides exactly as their users type
them. Nothing is imported before a command is called.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from palestra.cli.entry import ending_imports_on_interrupt, exits_on_interrupt, imported

CLI: Final = "palestra.cli"
_FILES: Final = "config_paths"
"""The setting that names config files: `"+config_paths=[a.yaml,b.yaml]"`."""
_FIRST_RUN: Final = (
    '"+config_paths=[resources_servers/mcqa/configs/mcqa.yaml,'
    'responses_api_models/local_model/configs/local_model.yaml]"'
)
_UPLOAD: Final = (
    "+input_jsonl_fpath=tasks.jsonl +hf_organization=my_org +dataset_name=my_tasks "
    "+resource_config_path=my_run.yaml"
)
HELP: Final = frozenset({"-h", "--help", "+h=true", "+help=true", "h=true", "help=true"})


def _command(
    name: str,
    about: str,
    function: str,
    *models: str,
    settings: Sequence[str] = (),
    example: str = "",
    runs_authors_code: bool = False,
    needs_model: bool = False,
    flags: Sequence[str] = (),
    **arguments: Any,
) -> Callable[[], NoReturn]:
    """Return the entry point of a command, which calls `function` with the overrides and
    `arguments`.

    `function` and `models`: `module:attribute`. The help lists the settings of the models. `settings`:
    those that no model has. `example`: the words after the command, for the help. `needs_model`: the
    config of an environment alone is not enough. `flags`: the only ones that the command takes.
    """

    def all_settings() -> Sequence[str]:
        files = [_FILES] if arguments.get("ng") else []
        fields = [field for model in models for field in imported(model).model_fields]
        return list(dict.fromkeys((*fields, *settings, *files)))

    def run_command(overrides: list[str]) -> int:
        _refuse_bare_words(overrides, all_settings, needs_model=needs_model or runs_authors_code)
        _refuse_flags([word for word in overrides if word not in flags], all_settings)
        code: int = imported(function)(overrides, **arguments)
        return code

    @exits_on_interrupt
    def command() -> NoReturn:
        overrides = sys.argv[1:]
        if HELP & set(overrides):
            _explain(name, about, all_settings(), example)
            raise SystemExit(0)
        with ending_imports_on_interrupt():
            from palestra.cli.console import guarded

        if runs_authors_code:
            imported(f"{CLI}.guard:fork_under_guard")()
        guarded(lambda: run_command(overrides))

    return command


def _refuse_bare_words(
    overrides: list[str], settings: Callable[[], Sequence[str]], *, needs_model: bool
) -> None:
    """Raise ConfigError, with the command as it is meant: a word is neither a flag nor an override."""
    from palestra.programs import is_bare, typed_program

    if any(map(is_bare, overrides)):
        from palestra.cli.bare_overrides import Called, refuse_bare_overrides

        program = (typed_program(),)
        refuse_bare_overrides(Called(program, overrides, settings(), needs_model))


def _refuse_flags(words: Sequence[str], settings: Callable[[], Sequence[str]]) -> None:
    """Raise ConfigError, with the override as it is meant: a word is a flag."""
    if any(word.startswith("-") for word in words):
        from palestra.cli.typed_flags import refuse_flags
        from palestra.programs import typed_program

        refuse_flags(typed_program(), words, settings())


def _explain(name: str, about: str, settings: Sequence[str], example: str) -> None:
    from palestra.cli.console import say

    say(f"{name}: {about}")
    if example:
        say(f"example: {name} {example}")
    if not settings:
        return
    say(f"settings: {', '.join(f'+{setting}' for setting in settings)}")
    say("Settings are Hydra overrides: +key=value adds, ++key=value adds or changes, ~key removes.")


run = _command(
    "ng_run",
    "start every server of the configuration",
    f"{CLI}.fleet_commands:run_fleet",
    runs_authors_code=True,
    ng=True,
    example=_FIRST_RUN,
)
status = _command(
    "ng_status",
    "one line per server of the running fleet; +wait=S (or --wait S) waits until all are ready; exit 0 "
    "unless it waits",
    f"{CLI}.ng:_status",
    settings=("wait",),
    flags=("--wait",),
    example="+wait=60",
)
dump_config = _command(
    "ng_dump_config",
    "print the resolved configuration, with secrets masked",
    f"{CLI}.fleet_commands:dump_config",
    needs_model=True,
    ng=True,
    example=_FIRST_RUN,
)
pip_list = _command(
    "ng_pip_list",
    "the packages that a server runs with; +format is columns, freeze or json",
    f"{CLI}.packages:ng_pip_list",
    settings=("entrypoint", "format", "outdated"),
    example="+entrypoint=resources_servers/mcqa",
)
collect_rollouts = _command(
    "ng_collect_rollouts",
    "run rows through agents, on the running servers, else on those of +config_paths",
    f"{CLI}.collecting:collect",
    "CollectArgs",
    runs_authors_code=True,
    ng=True,
    example=f"{_FIRST_RUN} +split=example +output_jsonl_fpath=out/rollouts.jsonl",
)
e2e_collect_rollouts = _command(
    "ng_e2e_collect_rollouts",
    "start the servers, run the datasets of +split (train, validation, benchmark or example) or "
    "+input_jsonl_fpath through their agents, stop the servers",
    f"{CLI}.collecting:collect",
    "CollectArgs",
    runs_authors_code=True,
    ng=True,
    fleet="own",
    example=f"{_FIRST_RUN} +split=example +output_jsonl_fpath=out/e2e.jsonl",
)
reward_profile = _command(
    "ng_reward_profile",
    "statistics of the rewards of a run, per task and per agent",
    f"{CLI}.profiling_commands:profile",
    "ProfileArgs",
    ng=True,
    example="+rollouts_jsonl_fpath=out/rollouts.jsonl",
)
aggregate_rollouts = _command(
    "ng_aggregate_rollouts",
    "merge the shards of a run, and ask the agents for the metrics",
    f"{CLI}.merging:aggregate_rollouts",
    "AggregateArgs",
    settings=(_FILES,),
    example=(
        '"+config_paths=[my_run.yaml]" "+input_glob=out/shard-*.jsonl" '
        "+output_jsonl_fpath=out/all.jsonl"
    ),
)
version = _command(
    "ng_version",
    "what is installed, and where",
    f"{CLI}.ng:_version",
    settings=("json",),
    flags=("--json",),
    example="+json=true",
)
init_resources_server = _command(
    "ng_init_resources_server",
    "make the folder of a new environment",
    f"{CLI}.scaffolding:ng_init",
    settings=("entrypoint",),
    example="+entrypoint=resources_servers/my_env",
)
test = _command(
    "ng_test",
    "run the tests of one server; +should_validate_data=true checks its example data, too",
    f"{CLI}.authoring:ng_test",
    settings=("entrypoint", "should_validate_data"),
    example="+entrypoint=resources_servers/my_env",
)
test_all = _command(
    "ng_test_all",
    "run the tests of every server, and check its example data",
    f"{CLI}.ng:_without_overrides",
    command=f"{CLI}.authoring:ng_test_all",
)
dev_test = _command(
    "ng_dev_test",
    "run Palestra's own quick tests, in a checkout of it",
    f"{CLI}.ng:_without_overrides",
    command=f"{CLI}.authoring:ng_dev_test",
)
prepare_data = _command(
    "ng_prepare_data",
    "check, measure and write the datasets of agents; +mode is train_preparation or "
    "example_validation",
    f"{CLI}.preparing:prepare",
    "PrepareArgs",
    ng=True,
    example=f"{_FIRST_RUN} +mode=example_validation +output_dirpath=data",
)
materialize_prompts = _command(
    "ng_materialize_prompts",
    "fill rows into a prompt template",
    f"{CLI}.importing:render",
    "RenderArgs",
    ng=True,
    example="+input_jsonl_fpath=rows.jsonl +prompt_config=prompt.yaml +output_jsonl_fpath=tasks.jsonl",
)
list_benchmarks = _command(
    "ng_list_benchmarks",
    "the benchmarks of +config_paths, else of the project",
    f"{CLI}.benchmarks:list_benchmarks",
    ng=True,
)
prepare_benchmark = _command(
    "ng_prepare_benchmark",
    "run the scripts that make the files of benchmarks",
    f"{CLI}.benchmarks:prepare",
    "BenchmarkArgs",
    ng=True,
)
upload_dataset_to_hf = _command(
    "ng_upload_dataset_to_hf",
    "upload a file to a repository of the Hugging Face hub",
    f"{CLI}.sharing:upload_to_hub",
    "HubUpload",
    "NetworkSettings",
    ng=True,
    example=_UPLOAD,
)
download_dataset_from_hf = _command(
    "ng_download_dataset_from_hf",
    "download a file or splits of the Hugging Face hub",
    f"{CLI}.sharing:download_from_hub",
    "HubDownload",
    "NetworkSettings",
    ng=True,
    example="+repo_id=my_org/my_tasks +output_dirpath=data",
)
upload_dataset_to_gitlab = _command(
    "ng_upload_dataset_to_gitlab",
    "upload a file to GitLab's registry",
    f"{CLI}.sharing:upload_to_gitlab",
    "GitlabUpload",
    "NetworkSettings",
    ng=True,
    example="+dataset_name=my_tasks +version=0.0.1 +input_jsonl_fpath=tasks.jsonl",
)
download_dataset_from_gitlab = _command(
    "ng_download_dataset_from_gitlab",
    "download a file of GitLab's registry",
    f"{CLI}.sharing:download_from_gitlab",
    "GitlabDownload",
    "NetworkSettings",
    ng=True,
    example="+dataset_name=my_tasks +version=0.0.1 +artifact_fpath=tasks.jsonl +output_fpath=tasks.jsonl",
)
delete_dataset_from_gitlab = _command(
    "ng_delete_dataset_from_gitlab",
    "delete a dataset from GitLab's registry, after a question",
    f"{CLI}.sharing:delete_from_gitlab",
    "NetworkSettings",
    settings=("dataset_name",),
    ng=True,
    example="+dataset_name=my_tasks",
)
gitlab_to_hf_dataset = _command(
    "ng_gitlab_to_hf_dataset",
    "upload a file to the hub, then ask whether to delete the dataset from GitLab; +version and "
    "+artifact_fpath instead of +input_jsonl_fpath take the file of the registry",
    f"{CLI}.sharing:migrate",
    "HubUpload",
    "NetworkSettings",
    ng=True,
    example=_UPLOAD,
)
viewer = _command(
    "ng_viewer",
    "show a run in the browser, at http://127.0.0.1:7860; `palestra view` has more",
    f"{CLI}.viewing:ng_viewer",
    "ViewerArgs",
    example="+jsonl_fpath=out/rollouts.jsonl",
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

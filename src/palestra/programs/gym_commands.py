"""The table of all `gym` commands."""

from dataclasses import dataclass
from typing import Final

from palestra.programs.gym_flags import (
    BENCHMARK,
    CONFIGS,
    ENTRYPOINT,
    MODEL,
    MODEL_TYPE,
    RESOURCES_SERVER,
    SELECTED,
    FlagKind,
    GymFlag,
    switch,
    text,
    value,
)


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its place in the command line, its flags and the function that does its work."""

    group: str
    action: str
    about: str
    function: str
    """`module:attribute`, below `palestra.cli.gym`. It is called with the `Invocation` and the list of overrides, and returns
    the exit code."""
    flags: tuple[GymFlag, ...] = ()
    name: str = ""
    """How the help writes the command's own name or query, such as `[NAME]`; empty: it takes none.
    """
    json: bool = False
    """Whether the command takes `--json`."""
    runs_authors_code: bool = False
    replaces: str = ""
    """The `ng_*` programs with the same work, in the order of `same_as`; empty: there is none."""
    model: str = ""
    """The class of `palestra.settings` with the settings that the command loads; empty without one."""
    same_as: tuple[str, ...] = ()
    """The commands of `palestra` with the same work, such as `dataset upload`. Flags that both have
    mean the same."""

    @property
    def words(self) -> str:
        """The words that call the command, such as `env start`."""
        return f"{self.group} {self.action}".strip()


KINDS: Final = ("environment", "benchmark")
LISTED: Final = {
    "benchmarks": "benchmarks",
    "environments": "environments",
    "agents": "agents",
    "models": "model servers",
    "resources-servers": "resources servers",
}
"""What can be listed, and its name in sentences."""
GROUPS: Final = {
    "list": "what is installed",
    "search": "find a component by a part of its name or description",
    "env": "servers and their folders",
    "eval": "rollouts and their rewards",
    "dataset": "rows of tasks",
    "dev": "Palestra's own development",
}
FILTERS: Final = tuple(
    text(f"--{name}", f"Only those whose manifest says so about {name}.")
    for name in ("kind", "domain", "modality", "licensing", "status", "lifecycle")
)
INPUT: Final = text("--input -i", "The file of rows (.jsonl).", "input_jsonl_fpath")
OUTPUT: Final = text("--output -o", "The file for the result (.jsonl).", "output_jsonl_fpath")
INPUTS: Final = text(
    "--inputs", "The materialized inputs of the run.", "materialized_inputs_jsonl_fpath"
)
ROLLOUTS: Final = text("--rollouts", "The scored rows of the run.", "rollouts_jsonl_fpath")
CONCURRENCY: Final = value("--concurrency", "How many at once.", "num_samples_in_parallel")
LIMIT: Final = value("--limit", "Only the first rows.", "limit")
RESUME: Final = switch("--resume", "Continue where it stopped.", "resume_from_cache")
NO_AGGREGATION: Final = switch(
    "--disable-aggregation", "Do not ask for aggregate metrics.", "disable_aggregation"
)

LISTS: Final = tuple(
    Command(
        "list",
        kind,
        f"list all {name}, or show the details of one",
        "listing:list_components",
        FILTERS if kind == "environments" else (),
        name="[NAME]",
        json=True,
        replaces="ng_list_benchmarks" if kind == "benchmarks" else "",
        same_as=("benchmark list",) if kind == "benchmarks" else (),
    )
    for kind, name in LISTED.items()
)
SEARCH: Final = Command(
    "search",
    "",
    f"find components; TYPE is one of {', '.join(LISTED)}",
    "listing:search",
    name="[TYPE] QUERY",
    json=True,
)
ENV: Final = (
    Command(
        "env", "start", "start every server of the configuration, until Ctrl-C",
        "servers:start", (*CONFIGS, *SELECTED, *MODEL), replaces="ng_run",
        same_as=("run",), runs_authors_code=True,
    ),
    Command(
        "env", "status", "one line per running server; the exit code is always 0",
        "servers:status", json=True, replaces="ng_status", same_as=("status",),
    ),
    Command(
        "env", "resolve", "print the resolved configuration, with secrets masked",
        "servers:resolve", (*CONFIGS, *SELECTED, *MODEL), json=True,
        replaces="ng_dump_config", same_as=("config",),
    ),
    Command(
        "env", "validate", "check a manifest or a configuration; nothing is started",
        "authoring:validate",
        (
            *CONFIGS, *SELECTED, *MODEL,
            text("--kind", "What NAME is.", choices=KINDS),
            text("--manifest", "The path of the manifest."),
            switch("--sync", "Copy the fields that the config has too into the manifest."),
        ),
        name="[NAME]", json=True,
    ),
    Command(
        "env", "test", "run the verifier fixture of NAME, or the tests of servers",
        "authoring:test",
        (
            ENTRYPOINT,
            text("--kind", "What NAME is.", choices=KINDS),
            switch("--update-expected", "Write the current results into the fixture."),
        ),
        name="[NAME]", json=True, runs_authors_code=True, replaces="ng_test, ng_test_all",
        same_as=("test",),
    ),
    Command(
        "env", "init", "make the folder of a resources server, an environment or a benchmark",
        "authoring:init",
        (
            ENTRYPOINT,
            text("--environment", "The name of the new environment."),
            text("--benchmark", "The name of the new benchmark."),
            text("--profile", "How the environment is connected."),
            text("--reuse-verifier", "The resources server that verifies."),
            GymFlag(("--reward-range",), "The lowest and highest reward.", kind=FlagKind.RANGE),
            switch("--higher-is-better", "A higher reward is better."),
            switch("--lower-is-better", "A lower reward is better."),
        ),
        replaces="ng_init_resources_server", same_as=("init",),
    ),
    Command(
        "env", "publish", "check all that a published environment needs",
        "authoring:publish", (text("--kind", "What NAME is.", choices=KINDS),),
        name="NAME", json=True, runs_authors_code=True,
    ),
    Command(
        "env", "prefetch", "make the Python environments of all servers, one by one",
        "servers:prefetch", (*CONFIGS, *SELECTED),
    ),
    Command(
        "env", "packages", "list the packages that a server runs with",
        "servers:packages",
        (ENTRYPOINT, switch("--outdated", "Only those with newer versions.", "outdated")),
        json=True, replaces="ng_pip_list", same_as=("pip-list",),
    ),
)  # fmt: skip
EVAL: Final = (
    Command(
        "eval", "prepare", "run the scripts that make the files of benchmarks",
        "evaluation:prepare", (*CONFIGS, BENCHMARK), replaces="ng_prepare_benchmark",
        model="BenchmarkArgs", same_as=("benchmark prepare",),
    ),
    Command(
        "eval", "run", "start the servers, run the datasets of a split, stop the servers",
        "evaluation:run",
        (
            *CONFIGS, *SELECTED, *MODEL,
            text("--split", "train, validation, benchmark or example.", "split"),
            INPUT, OUTPUT,
            text("--agent -a", "The agent for rows without agent_ref.", "agent_name"),
            switch("--no-serve", "Use the servers that are already running."),
            RESUME, LIMIT,
            value("--num-repeats", "Rollouts per task.", "num_repeats"),
            text("--prompt-config", "The prompt template.", "prompt_config"),
            CONCURRENCY,
            value("--temperature", "Of the model.", "responses_create_params.temperature"),
            value("--top-p", "Of the model.", "responses_create_params.top_p"),
            value(
                "--max-output-tokens", "Per answer.", "responses_create_params.max_output_tokens"
            ),
            NO_AGGREGATION,
        ),
        json=True, runs_authors_code=True,
        replaces="ng_e2e_collect_rollouts; --no-serve: ng_collect_rollouts",
        model="CollectArgs", same_as=("eval", "collect"),
    ),
    Command(
        "eval", "aggregate", "merge shards, and ask the running agents for the metrics",
        "evaluation:aggregate",
        (*CONFIGS, text("--input-glob -i", "The shards, quoted.", "input_glob"), OUTPUT),
        replaces="ng_aggregate_rollouts", model="AggregateArgs", same_as=("merge",),
    ),
    Command(
        "eval", "profile", "statistics of the rewards of a run",
        "evaluation:profile",
        (
            INPUTS, ROLLOUTS,
            switch(
                "--allow-partial", "Profile a run that lacks rollouts.", "allow_partial_rollouts"
            ),
        ),
        json=True, replaces="ng_reward_profile", model="ProfileArgs", same_as=("profile",),
    ),
    Command(
        "eval", "reverify", "verify stored responses again",
        "reverification:reverify",
        (
            *CONFIGS, *SELECTED, INPUTS, ROLLOUTS, OUTPUT, CONCURRENCY, LIMIT,
            switch("--force", "Also verifiers that do not say that they are stateless.", "force"),
            switch("--overwrite", "Replace the files at the output.", "overwrite"),
            RESUME, NO_AGGREGATION,
            switch(
                "--judge-failed-only", "Only rollouts whose judge failed.", "judge_failed_only"
            ),
            switch("--append", "Add the rewards to the scored rows themselves.", "append"),
            switch(
                "--with-failures", "Also answers whose verification failed.", "with_failures"
            ),
            text("--judge", "The model of every judge, as palestra reverify names it.", "judge"),
            switch("--fresh-judge", "Ask judges anew, also where answers are stored.", "fresh_judge"),
        ),
        json=True, runs_authors_code=True, same_as=("reverify",),
    ),
    Command(
        "eval", "submit", "submit one Slurm job per benchmark",
        "submission:submit",
        (
            text("--config -c", "The file that describes the jobs (YAML).", required=True),
            switch("--dry-run", "Write the scripts, submit nothing."),
        ),
    ),
)  # fmt: skip
STORAGE: Final = text("--storage", "hf (default) or gitlab.", choices=("hf", "gitlab"))
NAME: Final = text("--name", "The name of the dataset.", "dataset_name")
REVISION: Final = text("--revision", "hf: branch, tag or commit; gitlab: version.")
SPLIT: Final = text("--split", "hf: the split.", "split")
ARTIFACT: Final = text("--artifact", "One file, by its name there.", "artifact_fpath")
REPOSITORY: Final = text("--repo-id", "hf: organization/name.", "repo_id")
PULL_REQUEST: Final = switch("--create-pr", "hf: open a pull request.", "create_pr")
DATASET: Final = (
    Command(
        "dataset", "upload", "upload a file to the Hugging Face hub or to GitLab's registry",
        "data:upload", (STORAGE, NAME, REVISION, SPLIT, INPUT, PULL_REQUEST),
        replaces="ng_upload_dataset_to_hf, ng_upload_dataset_to_gitlab",
        same_as=("dataset upload",),
    ),
    Command(
        "dataset", "download", "download a file or splits",
        "data:download",
        (
            STORAGE, NAME, REVISION, SPLIT, ARTIFACT, REPOSITORY,
            text("--output -o", "The one file.", "output_fpath"),
            text("--output-dir", "hf: the folder.", "output_dirpath"),
        ),
        replaces="ng_download_dataset_from_hf, ng_download_dataset_from_gitlab",
        same_as=("dataset download",),
    ),
    Command(
        "dataset", "rm", "delete a dataset from GitLab's registry, after a question",
        "data:remove", (NAME,), replaces="ng_delete_dataset_from_gitlab",
        same_as=("dataset delete",),
    ),
    Command(
        "dataset", "migrate", "move a dataset from GitLab's registry to the hub",
        "data:migrate", (NAME, REVISION, SPLIT, INPUT, ARTIFACT, PULL_REQUEST),
        replaces="ng_gitlab_to_hf_dataset", same_as=("dataset migrate",),
    ),
    Command(
        "dataset", "render", "fill rows into a prompt template",
        "data:render",
        (INPUT, text("--prompt-config", "The template (YAML).", "prompt_config"), OUTPUT),
        replaces="ng_materialize_prompts", model="RenderArgs", same_as=("render-prompts",),
    ),
    Command(
        "dataset", "collate", "check, measure and write the datasets of agents",
        "data:collate",
        (
            *CONFIGS, RESOURCES_SERVER, MODEL_TYPE,
            text("--mode", "train_preparation or example_validation.", "mode"),
            text("--output-dir", "The folder for the files.", "output_dirpath"),
            switch("--download", "Download files that are missing.", "should_download"),
        ),
        json=True, replaces="ng_prepare_data", model="PrepareArgs", same_as=("prepare",),
    ),
)  # fmt: skip
DEV: Final = (
    Command(
        "dev", "test", "run Palestra's own quick tests, in a checkout of it",
        "development:test", replaces="ng_dev_test",
    ),
)  # fmt: skip
COMMANDS: Final = (*LISTS, SEARCH, *ENV, *EVAL, *DATASET, *DEV)


def command_at(group: str, action: str) -> Command | None:
    """Return the command with these words; None when there is none."""
    return next((c for c in COMMANDS if (c.group, c.action) == (group, action)), None)


def actions_of(group: str) -> list[str]:
    """Return the actions of a group, in the order of the table."""
    return [command.action for command in COMMANDS if command.group == group]

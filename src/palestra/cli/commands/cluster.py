"""`palestra cluster rollouts` and `run-cmd`: a flag for each option of `palestra.cluster`'s."""

# ruff: noqa: ARG001 - the command reads all of its flags from the context

from typing import Annotated

import typer

from palestra.cli.commands.cluster_runs import add_to
from palestra.cli.console import guarded
from palestra.cli.options import Overrides

cluster = typer.Typer(help="Rollouts over many jobs of a cluster.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.add_typer(cluster, name="cluster")
    add_to(cluster)


Text = str | None
# What every command that submits has.
Cluster = Annotated[
    Text, typer.Option(help="Name or file of a cluster config; default: this machine.")
]
ConfigDir = Annotated[Text, typer.Option(help="Where cluster configs are looked for.")]
Partition = Annotated[Text, typer.Option(help="Slurm's.")]
Account = Annotated[Text, typer.Option(help="Slurm's.")]
Qos = Annotated[Text, typer.Option(help="Slurm's.")]
TimeMin = Annotated[Text, typer.Option(help="A shorter one that would do.")]
Exclusive = Annotated[bool | None, typer.Option("--exclusive/--no-exclusive", help="Whole nodes.")]
Sbatch = Annotated[
    list[str] | None, typer.Option(help="KEY=VALUE, or KEY alone, for sbatch; repeatable.")
]
Mounts = Annotated[list[str] | None, typer.Option(help="src:dst[:ro],… besides the cluster's.")]
PostprocessCmd = Annotated[str, typer.Option(help="Bash after it went well.")]
Expname = Annotated[str, typer.Option(help="The run's name.")]
LogDir = Annotated[Text, typer.Option(help="Default OUTPUT_DIR/logs.")]
RunAfter = Annotated[
    list[str] | None, typer.Option(help="A run or a job's id that must end well first.")
]
AllowMissingDep = Annotated[
    bool, typer.Option("--allow-missing-dep", help="Start if it is not known.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Write everything, submit nothing.")]


@cluster.command()
def rollouts(
    context: typer.Context,
    # What is run.
    config_paths: Annotated[
        list[str],
        typer.Option("--config-paths", "-c", help="Config files, with commas or repeated."),
    ],
    input_file: Annotated[str, typer.Option(help="One task a line, JSON.")],
    output_dir: Annotated[str, typer.Option(help="A folder for all files of the run.")],
    agent_name: Annotated[Text, typer.Option(help="For rows without agent_ref.")] = None,
    num_repeats: Annotated[
        int | None, typer.Option(help="Rollouts of a task, for each seed; default 1.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="The first so many tasks of each job.")] = None,
    num_samples_in_parallel: Annotated[
        int | None, typer.Option(help="Rollouts in flight, in each job.")
    ] = None,
    # How it is cut.
    num_random_seeds: Annotated[int | None, typer.Option(help="So many seeds.")] = None,
    starting_seed: Annotated[int | None, typer.Option(help="The first of them; default 0.")] = None,
    random_seeds: Annotated[Text, typer.Option(help="Or a list 0,2,5, or a range 3..9.")] = None,
    num_chunks: Annotated[
        int | None, typer.Option(help="Parts of the tasks: a job for each, and each seed.")
    ] = None,
    chunk_ids: Annotated[Text, typer.Option(help="Only these, from 0: 0,2 or 3..9.")] = None,
    # The model.
    model: Annotated[Text, typer.Option(help="A path inside a mount, or a hub's name.")] = None,
    policy_model_name: Annotated[
        Text, typer.Option(help="Its name in requests; default --model.")
    ] = None,
    server_address: Annotated[
        Text, typer.Option(help="A server that runs already: http://host:port/v1.")
    ] = None,
    policy_api_key_env: Annotated[
        Text, typer.Option(help="The environment variable that holds its key.")
    ] = None,
    policy_api_key: Annotated[
        Text, typer.Option(help="A placeholder such as dummy; a real key only by its variable.")
    ] = None,
    server_type: Annotated[
        Text, typer.Option(help="Start one per job: vllm, sglang, llama_cpp or generic.")
    ] = None,
    server_gpus: Annotated[int, typer.Option(help="GPUs of each of its nodes.")] = 0,
    server_cpu: Annotated[bool, typer.Option("--server-cpu", help="It needs no GPU.")] = False,
    server_nodes: Annotated[int, typer.Option(help="Nodes that it spans.")] = 1,
    server_args: Annotated[str, typer.Option(help="More of its own arguments, quoted.")] = "",
    server_entrypoint: Annotated[
        Text, typer.Option(help="Its command, instead of the type's; may say {host} and {port}.")
    ] = None,
    server_container: Annotated[
        Text, typer.Option(help="Its image, instead of the type's.")
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Let it run code that comes with the model.")
    ] = False,
    # Where it runs.
    cluster: Cluster = None,
    config_dir: ConfigDir = None,
    partition: Partition = None,
    account: Account = None,
    qos: Qos = None,
    time: Annotated[Text, typer.Option(help="Time limit of a job, as Slurm writes it.")] = None,
    time_min: TimeMin = None,
    exclusive: Exclusive = None,
    sbatch: Sbatch = None,
    array_cap: Annotated[int | None, typer.Option(help="Jobs at once, at most.")] = None,
    mounts: Mounts = None,
    check_mounted_paths: Annotated[
        bool,
        typer.Option(
            "--check-mounted-paths", help="Every path that is read is under a mount, and exists."
        ),
    ] = False,
    gym_container: Annotated[Text, typer.Option(help="Palestra's image.")] = None,
    gym_path: Annotated[
        Text,
        typer.Option(
            help="Install this checkout, once per node. In containers, paths that are not here "
            "are looked for below it."
        ),
    ] = None,
    package: Annotated[
        Text, typer.Option(help="The code here, for the jobs: git, dir, installed or none.")
    ] = None,
    with_sandbox: Annotated[
        bool, typer.Option("--with-sandbox", help="A sandbox in each job, for model-written code.")
    ] = False,
    keep_mounts_for_sandbox: Annotated[
        bool, typer.Option("--keep-mounts-for-sandbox", help="It sees the mounts; default none.")
    ] = False,
    ray_nodes: Annotated[
        int, typer.Option(help="Nodes of a Ray cluster in each job, for heavy verifiers.")
    ] = 0,
    installation_command: Annotated[
        str, typer.Option(help="Bash, once per node, before the main step.")
    ] = "",
    preprocess_cmd: Annotated[str, typer.Option(help="Bash before the main step.")] = "",
    postprocess_cmd: PostprocessCmd = "",
    # The run.
    expname: Expname = "rollouts",
    log_dir: LogDir = None,
    run_after: RunAfter = None,
    allow_missing_dep: AllowMissingDep = False,
    dependent_jobs: Annotated[
        int, typer.Option(help="So many more jobs after each, to go on past a time limit.")
    ] = 0,
    rerun_done: Annotated[
        bool, typer.Option("--rerun-done", help="Collect again what is done.")
    ] = False,
    dry_run: DryRun = False,
    serve_override: Annotated[
        list[str] | None, typer.Option(help="A Hydra override of the servers; repeatable.")
    ] = None,
    collect_override: Annotated[
        list[str] | None, typer.Option(help="A Hydra override of the collection; repeatable.")
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Collect rollouts over seeds and chunks, a job each; then merge and profile them."""
    del config_paths, overrides  # read with all others, from the context

    def command() -> int:
        from palestra.cli.clustering.runs import submit

        return submit(context.params)

    guarded(command)


@cluster.command(
    "run-cmd",
    context_settings={
        "allow_interspersed_args": False,  # what follows the options is the command, as it is
        "token_normalize_func": lambda name: name.replace("_", "-"),
    },
)
def run_cmd(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Instead of --command.")
    ] = None,
    command: Annotated[Text, typer.Option(help="A line of bash.")] = None,
    container: Annotated[
        Text, typer.Option(help="A name in the cluster's containers, or an image; default gym.")
    ] = None,
    num_gpus: Annotated[int, typer.Option(help="GPUs of each node.")] = 0,
    num_nodes: Annotated[int, typer.Option(help="Nodes; the command runs on each.")] = 1,
    output_dir: Annotated[
        Text, typer.Option(help="A folder for plan, logs and ledger; default ./EXPNAME.")
    ] = None,
    cluster: Cluster = None,
    config_dir: ConfigDir = None,
    partition: Partition = None,
    account: Account = None,
    qos: Qos = None,
    time: Annotated[Text, typer.Option(help="Time limit, as Slurm writes it.")] = None,
    time_min: TimeMin = None,
    exclusive: Exclusive = None,
    sbatch: Sbatch = None,
    mounts: Mounts = None,
    check_mounted_paths: Annotated[
        bool, typer.Option("--check-mounted-paths", help="Every mount's source exists here.")
    ] = False,
    package: Annotated[
        Text, typer.Option(help="The code here, for the job: git, dir, installed or none.")
    ] = None,
    installation_command: Annotated[str, typer.Option(help="Bash, once per node, first.")] = "",
    preprocess_cmd: Annotated[str, typer.Option(help="Bash before the command.")] = "",
    postprocess_cmd: PostprocessCmd = "",
    expname: Expname = "command",
    log_dir: LogDir = None,
    run_after: RunAfter = None,
    allow_missing_dep: AllowMissingDep = False,
    dry_run: DryRun = False,
) -> None:
    """Run one command as a job, with bash; status, logs and cancel know it as they know rollouts."""

    def submit() -> int:
        from palestra.cli.clustering.runs import submit_command

        return submit_command(context.params)

    guarded(submit)


__all__ = ["register", "rollouts", "run_cmd"]

"""`palestra cluster`: the flags of the commands that submit and follow runs, and of the jobs' main
steps.
"""

from pathlib import Path
from typing import Annotated

import typer

from palestra.cli.console import guarded
from palestra.cli.flags import Flags, Overrides, run, settings_command

Plan = Annotated[Path, typer.Argument(help="The plan.json of a submission.")]
RUNS = "palestra.cli.clustering.runs"
cluster = typer.Typer(help="Rollouts over many jobs of a cluster.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.add_typer(cluster, name="cluster")
    settings_command(cluster, "RunStatusArgs")(status)
    settings_command(cluster, "LogsArgs")(logs)
    settings_command(cluster, "RetryFailedArgs", name="retry-failed")(retry_failed)
    settings_command(cluster, "FollowArgs")(cancel)
    cluster.command(hidden=True)(drive)
    cluster.command("ray-node", hidden=True)(ray_node)
    cluster.command("prepare-inputs", hidden=True)(prepare_inputs)
    settings_command(cluster, "MergeShardsArgs", name="merge-shards")(merge_shards)
    settings_command(cluster, "MergeRunsArgs", name="merge-runs")(merge_runs)
    cluster.command("profile-merged", hidden=True)(profile_merged)


@settings_command(cluster, "RolloutOptions", required=False)  # words may be options, too
def rollouts(flags: Flags, overrides: Overrides = None) -> None:
    """Collect rollouts over seeds and chunks, one job each. Then merge and profile them."""

    def command() -> int:
        from palestra.cli.clustering.runs import submit

        return submit(flags, overrides or ())

    guarded(command)


@settings_command(
    cluster,
    "CommandOptions",
    name="run-cmd",
    required=False,  # the command may follow the options
    context_settings={
        "allow_interspersed_args": False,  # what follows the options is the command, as it is
        "token_normalize_func": lambda name: name.replace("_", "-"),
    },
)
def run_cmd(
    flags: Flags,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Instead of --command.")
    ] = None,
) -> None:
    """Run one command as a job, with bash. status, logs and cancel work for it, too."""

    def command() -> int:
        from palestra.cli.clustering.runs import submit_command

        return submit_command(flags, words or ())

    guarded(command)


def status(flags: Flags) -> None:
    """Print the state of each job and shard of a run. Exits 0 only when all are done."""
    run(f"{RUNS}:status", "RunStatusArgs", flags)


def logs(flags: Flags) -> None:
    """Print the last lines of a run's logs. Of all that failed, or of one shard or job."""
    run(f"{RUNS}:logs", "LogsArgs", flags)


def retry_failed(flags: Flags) -> None:
    """Submit again what is neither done nor running. First shards and jobs, then the merge and the
    profile.
    """
    run(f"{RUNS}:retry_failed", "RetryFailedArgs", flags)


def cancel(flags: Flags) -> None:
    """Cancel every job of a run that has not ended. Collected rollouts stay."""
    run(f"{RUNS}:cancel", "FollowArgs", flags)


def drive(
    plan: Plan, shard: Annotated[str, typer.Argument(help="The name of one of its shards.")]
) -> None:
    """Collect one shard, inside its job."""
    from palestra.cli.clustering.main_steps import drive as collect_shard

    guarded(lambda: collect_shard(plan, shard))


def prepare_inputs(plan: Plan) -> None:
    """Check the configuration and stamp the rows of a run, inside its first job."""
    from palestra.cli.clustering.main_steps import prepare_run

    guarded(lambda: prepare_run(plan))


def ray_node(
    cpus: Annotated[int, typer.Option(min=1)],
    join: Annotated[str, typer.Option(help="HOST:PORT of the first node.")] = "",
    ray_port: Annotated[int, typer.Option()] = 0,
    nodes: Annotated[int, typer.Option(min=1)] = 1,
    host: Annotated[str, typer.Option()] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Tells whether all nodes are there.")] = 0,
) -> None:
    """Run one node of a job's Ray cluster, inside the job."""
    from palestra.cli.clustering.ray_node import first_node, further_node

    if join:
        guarded(lambda: further_node(join, cpus=cpus))
    guarded(lambda: first_node(ray_port, cpus=cpus, nodes=nodes, status=(host, port)))


def merge_shards(flags: Flags) -> None:
    """Merge the shards of a run by hand, also unfinished ones. The run's own jobs merge it by
    themselves.
    """
    run("palestra.cli.clustering.main_steps:merge_by_hand", "MergeShardsArgs", flags)


def merge_runs(flags: Flags) -> None:
    """Merge runs of one plan that are in several folders. They may have other seeds or other
    chunks.
    """
    run("palestra.cli.clustering.main_steps:merge_runs", "MergeRunsArgs", flags)


def profile_merged(plan: Plan) -> None:
    """Profile the merged rollouts of a run."""
    from palestra.cli.clustering.main_steps import profile_run

    guarded(lambda: profile_run(plan))

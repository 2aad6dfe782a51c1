"""`palestra cluster`: submissions, what follows one, and the main steps of its jobs."""

from pathlib import Path
from typing import Annotated

import typer

from palestra.cli.console import guarded
from palestra.cli.flags import Flags, Overrides, settings_command

Plan = Annotated[Path, typer.Argument(help="The plan.json of a submission.")]
RunFolder = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's output folder, or its name.")
]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
cluster = typer.Typer(help="Rollouts over many jobs of a cluster.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.add_typer(cluster, name="cluster")
    cluster.command()(status)
    cluster.command()(logs)
    cluster.command("retry-failed")(retry_failed)
    cluster.command()(cancel)
    cluster.command(hidden=True)(drive)
    cluster.command("ray-node", hidden=True)(ray_node)
    cluster.command("prepare-inputs", hidden=True)(prepare_inputs)
    cluster.command("merge-shards")(merge_shards)
    cluster.command("profile-merged", hidden=True)(profile_merged)


@settings_command(cluster, "RolloutOptions")
def rollouts(flags: Flags, overrides: Overrides = None) -> None:
    """Collect rollouts over seeds and chunks, a job each; then merge and profile them."""

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
    """Run one command as a job, with bash; status, logs and cancel know it as they know rollouts."""

    def command() -> int:
        from palestra.cli.clustering.runs import submit_command

        return submit_command(flags, words or ())

    guarded(command)


def status(run: RunFolder, as_json: AsJson = False) -> None:
    """What has become of each job and shard of a run; exit 0 only once all is done."""
    from palestra.cli.clustering.runs import status as show

    guarded(lambda: show(run, as_json=as_json))


def logs(
    run: RunFolder,
    shard: Annotated[
        str | None, typer.Option("--of", help="A shard's or a job's name; default: what failed.")
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Of each file's end.")] = 20,
    as_json: AsJson = False,
) -> None:
    """The ends of a run's logs: of what has failed, or of one shard or job."""
    from palestra.cli.clustering.runs import logs as show

    guarded(lambda: show(run, shard, lines=lines, as_json=as_json))


def retry_failed(run: RunFolder, as_json: AsJson = False) -> None:
    """Submit again what is neither done nor running, and what comes after it."""
    from palestra.cli.clustering.runs import retry_failed as retry

    guarded(lambda: retry(run, as_json=as_json))


def cancel(run: RunFolder, as_json: AsJson = False) -> None:
    """Cancel every job of a run that has not ended. What is collected stays."""
    from palestra.cli.clustering.runs import cancel as cancel_run

    guarded(lambda: cancel_run(run, as_json=as_json))


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


def merge_shards(
    plan: Plan,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Merge what is there of shards not done.")
    ] = False,
) -> None:
    """Merge the shards of a run by hand, also those not done; jobs do so by themselves."""
    from palestra.cli.clustering.main_steps import merge_run

    guarded(lambda: merge_run(plan, allow_partial=allow_partial))


def profile_merged(plan: Plan) -> None:
    """Profile the merged rollouts of a run."""
    from palestra.cli.clustering.main_steps import profile_run

    guarded(lambda: profile_run(plan))

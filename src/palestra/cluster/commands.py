"""Plan and submit a user's own command as one job of a cluster."""

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import palestra
from palestra.cluster.components import DRIVER, allocations
from palestra.cluster.configs import ClusterConfig
from palestra.cluster.options import name_problems
from palestra.cluster.packaging import code_version
from palestra.cluster.places import merged, parse_mounts, same_place
from palestra.cluster.plan import (
    Collect,
    Component,
    PlannedJob,
    Policy,
    Role,
    Run,
    Setup,
    is_command,
)
from palestra.cluster.planner import check_components, with_time
from palestra.cluster.submitter import Submission, Submitter
from palestra.cluster.units import read_run
from palestra.cluster.writing import Writer
from palestra.config import did_you_mean, raise_problems
from palestra.errors import ConfigError
from palestra.settings import CommandOptions, args_from

JOB = Role.COMMAND.value


def run_cmd(
    *, extra: Sequence[str] = (), report: Callable[[str], None] = lambda _: None, **options: Any
) -> Submission:
    """Run one command as a job of a cluster, with bash.

    `extra`: the words of the command, instead of the option `command`. Raises ConfigError, before
    anything is written: the options are invalid. Raises ClusterUnreachable: the cluster did not
    answer.
    """
    return _CommandSubmitter(checked_command(extra, **options), report).submit()


def checked_command(extra: Sequence[str], **settings: Any) -> CommandOptions:
    """Return the validated options. Raises ConfigError: an option is invalid or conflicts with
    another.
    """
    unknown = [name for name in settings if name not in CommandOptions.model_fields]
    if unknown:
        near = did_you_mean(unknown[0], CommandOptions.model_fields)
        raise ConfigError(f"{', '.join(unknown)}: no such option of run_cmd{near}")
    options = {name: value for name, value in settings.items() if value is not None}
    if extra and options.get("command"):
        raise ConfigError(
            f"a command is given twice: --command, and {shlex.join(extra)!r} after the options",
            hint="give it once",
        )
    if extra:
        # One text is a line of bash; words are a program with its arguments.
        options["command"] = extra[0] if len(extra) == 1 else shlex.join(extra)
    if not str(options.get("command") or "").strip():
        raise ConfigError("run_cmd needs --command, or the command after the options")
    checked = args_from(CommandOptions, options, hint="`ns run_cmd --help` lists all options")
    raise_problems(name_problems(checked))
    return checked


class _CommandSubmitter(Submitter):
    """Performs the steps that submit one command."""

    def __init__(self, options: CommandOptions, report: Callable[[str], None]) -> None:
        super().__init__(options, options.output_dir or options.expname, report)
        self._command = options

    def submit(self) -> Submission:
        self._check_folder()
        run = self._planned()
        writer = Writer(self._options, self._cluster, self._files, self._how, self._cwd, ())
        writer.check(run)
        with self._submission_lock(run.submission):
            return self._submitted(run, writer)

    def _check_folder(self) -> None:
        """Raise ConfigError when the output folder holds a run of rollouts."""
        if self._files.submissions() and not is_command(read_run(self._files)):
            raise ConfigError(
                f"{self._files.output_dir} has a run of rollouts, not of a command",
                hint="choose another --output-dir, or another --expname",
            )

    def _planned(self) -> Run:
        options, cluster = self._command, self._cluster
        number, log_dir = self._next_submission(), self._log_dir()
        component = self._component(number)
        job = PlannedJob(
            JOB,
            (component,),
            allocations((component,), (options.partition or cluster.partition,)),
            after=self._after(),
        )
        run = Run(
            name=options.expname,
            output_dir=self._output.inside,
            log_dir=log_dir.inside,
            submission=number,
            executor=cluster.executor,
            runtime=cluster.runtime,
            python=cluster.python or sys.executable,
            collect=Collect((), ""),
            policy=Policy(""),
            shards=(),
            # Run twice, a command may do harm: Slurm does not start it again by itself.
            jobs=(with_time(job, options, cluster.model_copy(update={"requeue": False})),),
            cluster=self._name,
            secrets=cluster.inherit_env,
            tasks=0,
            rollouts=0,
            code_version=code_version(self._cwd, self._how, palestra.__version__),
            srun_options=cluster.srun_options,
            command_timeout_s=cluster.command_timeout_s,
        )
        check_components(run)
        return run

    def _component(self, number: str) -> Component:
        options, cluster = self._command, self._cluster
        folder = self._files.submission(number)
        code = {"PYTHONPATH": str(folder.code)} if self._places.packaged else {}
        own_places = (same_place(self._output.inside), same_place(self._log_dir().inside))
        return Component(
            JOB,
            Role.COMMAND,
            ("bash", "-c", options.command),
            container=_image(options.container, cluster),
            nodes=options.num_nodes,
            tasks=options.num_nodes,
            cpus=cluster.cpus.get(DRIVER, 1),
            gpus=options.num_gpus,
            mem_mib=cluster.mem_mib.get(DRIVER),
            env={**cluster.env, **code},
            inherit=cluster.inherit_env,
            mounts=merged(
                merged(parse_mounts(cluster.mounts), own_places), parse_mounts(options.mounts)
            ),
            workdir=self._workdir(folder),
            setup=Setup(
                options.installation_command, options.preprocess_cmd, options.postprocess_cmd
            ),
        )


def _image(container: str | None, cluster: ClusterConfig) -> str | None:
    """Return the container image to run in. Raises ConfigError: the cluster cannot run `container`."""
    if cluster.runtime == "none" and container is not None:
        raise ConfigError(
            f"--container {container}: this cluster runs no containers",
            hint="set `runtime` in its config: pyxis, apptainer, singularity, podman or enroot",
        )
    if container is not None and (Path(container).suffix or set("/:") & set(container)):
        return container
    return cluster.container(container or "gym", "--container")

"""Turn a component into the command that runs it. Pure: nothing is started or read here.

executor slurm     srun --overlap …, one step for each component (for each node, when the
                   command differs between nodes)
local, none        the command itself, under a minder
runtime            pyxis: flags of srun; apptainer, singularity, podman, enroot: a command around
                   the command
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from palestra.cluster.plan import Component, Mount, PlannedJob, Run, Shard, read_plan


class BadPlan(Exception):
    """The plan cannot be read, or does not have the job."""


@dataclass(frozen=True)
class JobTask:
    """A job of a run, and the number of its array task. `plan`: the plan's file."""

    plan: Path
    run: Run
    job: PlannedJob
    index: int = 0

    @property
    def output_dir(self) -> Path:
        return Path(self.run.output_dir)

    @property
    def log_dir(self) -> Path:
        return Path(self.run.log_dir)

    @property
    def groups(self) -> int:
        """The number of the job's allocations."""
        return len(self.job.allocations)

    @property
    def array_index(self) -> int | None:
        """The index in the array; None when the job is no array."""
        return self.index if self.job.array else None

    @property
    def shard(self) -> Shard | None:
        """The shard that this task collects; None for a job without shards."""
        return self.run.shard(self.job.shards[self.index]) if self.job.shards else None

    @property
    def unit(self) -> str:
        """The shard's name, else the job's name. Names of logs begin with it."""
        return self.shard.name if self.shard else self.job.name

    @property
    def dependants(self) -> tuple[str, ...]:
        """The jobs that start only if this one succeeds, directly or through other jobs."""
        waiting = [self.job.name]
        for job in self.run.jobs:  # each comes after those it depends on
            if any(after.kind == "afterok" and after.job in waiting for after in job.after):
                waiting.append(job.name)
        return tuple(waiting[1:])


def read_task(plan: Path, job_name: str, index: int) -> JobTask:
    """Read a plan and return task `index` of the job `job_name`. Raises BadPlan."""
    try:
        run = read_plan(plan)
    except OSError as error:
        raise BadPlan(f"{plan}: {error.strerror}") from error
    except ValueError as error:
        raise BadPlan(f"{plan}: {error}") from error
    jobs_of_name = [job for job in run.jobs if job.name == job_name]
    if not jobs_of_name:
        names = ", ".join(job.name for job in run.jobs)
        raise BadPlan(f"{plan} has no job {job_name!r} (jobs: {names})")
    if jobs_of_name[0].shards and index >= len(jobs_of_name[0].shards):
        raise BadPlan(
            f"job {job_name} has {len(jobs_of_name[0].shards)} shards, and no shard with number "
            f"{index}"
        )
    return JobTask(plan, run, jobs_of_name[0], index)


SLURM = "slurm"
SANDBOX = "sandbox"
COMMAND = "command"
SECRET_WORDS = frozenset(
    {"apikey", "authorization", "credentials", "key", "password", "passwd", "secret", "token"}
)
PYXIS, APPTAINER, SINGULARITY, PODMAN = "pyxis", "apptainer", "singularity", "podman"
ENROOT = "enroot"
AROUND = frozenset({APPTAINER, SINGULARITY, PODMAN, ENROOT})
"""The runtimes that are a command around the command."""


@dataclass(frozen=True)
class StepPlace:
    """Where one process of a component runs, and the values of its tokens there."""

    tokens: Mapping[str, str]
    nodes: tuple[str, ...] = ()
    """The nodes of this process. Empty: Slurm chooses among the job's nodes."""
    one_of_many: bool = False
    """Whether other nodes run this component too, with separate commands."""
    rank: int = 0
    """The rank of this node among the component's nodes."""


def argv_of(
    task: JobTask,
    component: Component,
    step_place: StepPlace,
    names: Sequence[str],
    minder: Sequence[str] = (),
) -> list[str]:
    """Return the command of a component. `names`: the variables to pass into a container.

    `minder`: the words that run a Slurm step's command under a minder; not used in containers.
    """
    template = (
        component.worker_argv if step_place.rank and component.worker_argv else component.argv
    )
    tokens = {} if component.role == COMMAND else step_place.tokens
    argv = [replaced(text, tokens) for text in template]
    if component.is_main:
        argv = with_setup(component, argv)
    argv = _in_container(task, component, argv, names)
    if task.run.executor != SLURM:
        return argv
    return [
        *_srun(task, component, step_place),
        *([] if _inside(task, component) else minder),
        *argv,
    ]


def env_of(
    task: JobTask, component: Component, step_place: StepPlace, base: Mapping[str, str]
) -> dict[str, str]:
    """Return the component's environment: the job's variables, without secrets it does not inherit,
    then the component's own.
    """
    hidden = set(task.run.secrets) - set(component.inherit)
    env = {name: value for name, value in base.items() if name not in hidden}
    if component.role == SANDBOX:
        # It runs what a model wrote: what looks like a secret is none of its business.
        env = {name: value for name, value in env.items() if not _is_secret_name(name)}
    env.update({name: replaced(text, step_place.tokens) for name, text in component.env.items()})
    return env


def by_node(component: Component) -> bool:
    """Whether the component needs a separate command on each of its nodes."""
    texts = (*component.argv, *component.env.values())
    differ = bool(component.worker_argv) or any("{node_rank}" in text for text in texts)
    return component.nodes > 1 and differ


def replaced(text: str, tokens: Mapping[str, str]) -> str:
    """Return `text` with its tokens replaced, in one pass. Other braces stay, also those in the
    values.
    """
    pattern = "|".join(map(re.escape, tokens))
    return re.sub(pattern, lambda match: tokens[match[0]], text) if tokens else text


def _is_secret_name(name: str) -> bool:
    return not SECRET_WORDS.isdisjoint(re.split(r"[^a-z]+", name.lower()))


INSTALL = """\
set -e
mark=${TMPDIR:-/tmp}/palestra-install-$UID
(
  flock 9
  if [ ! -e "$mark-$PALESTRA_INSTALL.done" ]; then
    bash -c "$1"
    : > "$mark-$PALESTRA_INSTALL.done"
  fi
) 9> "$mark.lock"
"""
"""The shell script that installs packages once on each node. Other jobs of this user on the node
wait for it; jobs with the same PALESTRA_INSTALL (see `Context._installation`) do not install again.
"""


STEP_AND_AFTER = """\
after=$3
shift 3
if [ -z "$after" ]; then exec "$@"; fi
trap 'kill -TERM "$main" 2>/dev/null' TERM
"$@" &
main=$!
code=0
wait "$main" || code=$?
while kill -0 "$main" 2>/dev/null; do code=0; wait "$main" || code=$?; done
if [ "$code" != 0 ]; then exit "$code"; fi
bash -c "$after"
"""
"""The shell script that runs the main step, then the `after` command.

A shell that only waits would end at SIGTERM and leave the program running. So the program replaces
the shell, or the shell passes SIGTERM on.
"""


def with_setup(component: Component, argv: Sequence[str]) -> list[str]:
    """Return a command that runs the setup commands and `argv` in the same container."""
    setup = component.setup
    if not (setup.install or setup.before or setup.after):
        return list(argv)
    script = INSTALL if setup.install else "set -e\n"
    script += 'if [ -n "$2" ]; then bash -c "$2"; fi\n'
    script += STEP_AND_AFTER
    return ["bash", "-c", script, "palestra", setup.install, setup.before, setup.after, *argv]


def _srun(task: JobTask, component: Component, step_place: StepPlace) -> list[str]:
    parts = component.nodes if step_place.one_of_many else 1
    nodes, tasks = component.nodes // parts, max(1, component.tasks // parts)
    flags = [
        "srun",
        "--overlap",
        "--kill-on-bad-exit=1",
        f"--job-name={component.name}",
        f"--nodes={nodes}",
        f"--ntasks={tasks}",
        f"--cpus-per-task={component.cpus}",
        "--export=ALL",
    ]
    if step_place.nodes:
        flags.append(f"--nodelist={','.join(step_place.nodes)}")
    if component.gpus:
        flags.append(f"--gpus-per-node={component.gpus}")
    if component.mem_mib is not None:
        flags.append(f"--mem={component.mem_mib}M")
    if task.groups > 1:
        flags.append(f"--het-group={component.group}")
    if component.workdir and not _inside(task, component):
        flags.append(f"--chdir={component.workdir}")
    if task.run.runtime == PYXIS and component.container:
        flags += _pyxis(component)
    return [*flags, *task.run.srun_options]


def _pyxis(component: Component) -> list[str]:
    flags = [f"--container-image={component.container}", "--no-container-mount-home"]
    if component.mounts:
        flags.append("--container-mounts=" + ",".join(map(_mount, component.mounts)))
    if component.workdir:
        flags.append(f"--container-workdir={component.workdir}")
    return flags


def _inside(task: JobTask, component: Component) -> bool:
    """Whether the component runs in a container. The working directory is then the container's."""
    return bool(component.container) and task.run.runtime in {PYXIS, *AROUND}


def _in_container(
    task: JobTask, component: Component, argv: Sequence[str], names: Sequence[str]
) -> list[str]:
    if not component.container or task.run.runtime not in AROUND:
        return list(argv)
    gpu = component.gpus > 0
    if task.run.runtime == ENROOT:
        return _in_enroot(component, argv, names)
    if task.run.runtime in {APPTAINER, SINGULARITY}:
        # Singularity is Apptainer's name of old, with the same flags.
        flags = [task.run.runtime, "exec", "--no-home", *(["--nv"] if gpu else [])]
        flags += [f"--bind={_mount(mount)}" for mount in component.mounts]
        flags += [f"--pwd={component.workdir}"] if component.workdir else []
    else:
        flags = ["podman", "run", "--rm", "--network=host", "--entrypoint="]
        flags += ["--device=nvidia.com/gpu=all"] if gpu else []
        flags += [f"--volume={_mount(mount)}" for mount in component.mounts]
        flags += [f"--workdir={component.workdir}"] if component.workdir else []
        # By name alone: the values, secrets among them, stay out of the command line.
        flags += [f"--env={name}" for name in names]
    return [*flags, str(component.container), *argv]


def _in_enroot(component: Component, argv: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` in an image, by enroot without Pyxis.

    Enroot finds the GPUs by itself, and has no flag for the working directory.
    """
    flags = ["enroot", "start", *(f"--mount={_mount(mount)}" for mount in component.mounts)]
    flags += [f"--env={name}" for name in names]
    inside = list(argv)
    if component.workdir:
        inside = ["sh", "-c", 'cd "$0" && exec "$@"', component.workdir, *argv]
    return [*flags, str(component.container), *inside]


def _mount(mount: Mount) -> str:
    return ":".join([mount.source, mount.target, *([",".join(mount.flags)] if mount.flags else [])])

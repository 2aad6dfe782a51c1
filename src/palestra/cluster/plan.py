"""The plan of a run: what every job does, decided before anything is submitted.

The plan is made of frozen values that convert to JSON and back (`to_json`, `from_json`), so tests
of a plan need no cluster. A job's supervisor includes this module, so it uses only the standard
library of Python 3.8 or later.

    Run        one submission of one run: its shards and its jobs
    Shard      one job's share of the rollouts: a seed and a chunk of the tasks
    Job        one submission to the queue; an array when it has several shards
    Component  one program of a job: server, sandbox, driver, merge, profile

Texts in `argv` and `env` may contain these tokens. The supervisor replaces them inside the job when
a component starts, because the values are not known earlier. Other braces stay unchanged.

    {port}         a free port of that node, from `port_range` when it is set
    {host}         the address to listen on, which the job's other nodes can reach
    {nonce}        a random text of this job's start, which servers require as API key
    {server_seed}  the shard's seed for a self-hosted server
    {node_rank}    from 0, for a component on several nodes
    {head_host}    the address of the node of rank 0
    {head_port}    another free port on the node of rank 0, where the component's nodes connect
    {supervisor}   the path of supervisor.pyz
    {plan}         the path of plan.json, as the component sees it
    {job}          the job's name in the plan
    {shard}        the shard's name
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar

FORMAT: Final = 1

KEYED: Final = "--keyed"
"""The flag with which the supervisor's program runs a server that takes its API key as an argument.
The key comes from the variable `KEY_VARIABLE`."""
KEY_VARIABLE: Final = "PALESTRA_SERVER_KEY"

TOKENS: Final = (
    "{port}",
    "{host}",
    "{nonce}",
    "{server_seed}",
    "{node_rank}",
    "{head_host}",
    "{head_port}",
    "{supervisor}",
    "{plan}",
    "{job}",
    "{shard}",
)


class Role(str, Enum):  # noqa: UP042  # Python 3.11 has StrEnum
    """The purpose of a component; `plan.json` contains the value."""

    SERVER = "server"
    """The self-hosted model server. It publishes an endpoint."""
    SANDBOX = "sandbox"
    """Runs model-written code. It publishes an endpoint, gets no secrets, and gets mounts only on
    request."""
    RAY = "ray"
    """The nodes of a Ray cluster, for verifiers that need many cores. It publishes an endpoint that
    returns the cluster's address."""
    PREPARE = "prepare"
    """Checks the configuration and writes the shards' rows, when the submitting machine could not
    read the input. It is alone in its job, which runs before all others."""
    DRIVER = "driver"
    """Collects the rollouts of one shard. The job succeeds if it exits with 0 and the shard is
    done."""
    MERGE = "merge"
    """Merges the shards. It is alone in its job."""
    PROFILE = "profile"
    """Profiles the merged rollouts. It is alone in its job."""
    COMMAND = "command"
    """A user's own command, in which tokens are not replaced. It is alone in its job."""


MAIN_ROLES: Final = frozenset({Role.PREPARE, Role.DRIVER, Role.MERGE, Role.PROFILE, Role.COMMAND})
"""The roles of main steps. Each job has exactly one main step."""


CLOSING_ROLES: Final = frozenset({Role.PREPARE, Role.MERGE, Role.PROFILE})
"""The roles of main steps that need few cores, no GPU and never a whole node."""


class ExitAction(str, Enum):  # noqa: UP042  # as above
    """What the supervisor does when a service exits, even with code 0."""

    FATAL = "fatal"
    """The job fails. The reason names the component, how it ended and its last output."""
    RESTART = "restart"
    """The component is started again, up to `restarts` times. The next exit makes the job fail."""
    IGNORE = "ignore"
    """The job goes on without the component, and the log records the exit."""


@dataclass(frozen=True)
class OnExit:
    """What to do when a component exits. `restarts`: how often to start it again, with RESTART."""

    action: ExitAction = ExitAction.FATAL
    restarts: int = 0


@dataclass(frozen=True)
class Probe:
    """How to check that a service is ready, and later that it still works. All times are in
    seconds.

    The check is a GET of `path` at the published endpoint, with the nonce as bearer token.
    """

    path: str
    expect_status: int = 200
    expect_model: str = ""
    """The model name that the response of `path` must list. Empty: every response is accepted."""
    deadline_s: float = 1800.0
    """The limit for becoming ready, counted from the component's start."""
    attempt_timeout_s: float = 10.0
    interval_s: float = 5.0
    """The time between two attempts, and between two checks once the service is ready."""


@dataclass(frozen=True)
class Mount:
    """A folder of the cluster's file system that is visible in a container. `flags`: for example
    `ro`.
    """

    source: str
    target: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setup:
    """Bash commands of a main step, each run as `bash -c` in the step's container and workdir."""

    install: str = ""
    """Runs once per node of the job, under a lock of that node, before `before`."""
    before: str = ""
    after: str = ""
    """Runs after the main step succeeded. If it fails, the job fails."""


@dataclass(frozen=True)
class Component:
    """One program of a job. `tasks`: in total; `cpus`: per task; `gpus`: per node."""

    name: str
    role: Role
    argv: tuple[str, ...]
    worker_argv: tuple[str, ...] = ()
    """The command on nodes of rank 1 and above, for a component on several nodes. Empty: `argv`
    too."""
    container: str | None = None
    nodes: int = 1
    tasks: int = 1
    cpus: int = 1
    gpus: int = 0
    devices: tuple[int, ...] = ()
    """The GPUs of each node that this program may see, where other programs of its job have the
    others. Empty: all."""
    mem_mib: int | None = None
    env: dict[str, str] = field(default_factory=dict)
    """Literal values of environment variables, without `$` or backtick."""
    inherit: tuple[str, ...] = ()
    """The variables of `Run.secrets` that this component may see, from the job's own environment.
    """
    mounts: tuple[Mount, ...] = ()
    workdir: str | None = None
    on_exit: OnExit = OnExit()
    probe: Probe | None = None
    """The readiness check. Each service has one; the main step starts when all services are ready.
    """
    port_range: tuple[int, int] | None = None
    """The first and last port to choose from. None: any free port."""
    group: int = 0
    """The index of the allocation that it runs in (`--het-group` when the job has several)."""
    setup: Setup = Setup()

    @property
    def is_main(self) -> bool:
        """Whether this is the main step, whose exit ends the job."""
        return self.role in MAIN_ROLES

    @property
    def has_port(self) -> bool:
        """Whether the component listens on a port that the supervisor chooses."""
        texts = (*self.argv, *self.worker_argv, *self.env.values())
        return self.probe is not None or any("{port}" in text for text in texts)

    @property
    def has_head_port(self) -> bool:
        """Whether the component's nodes connect at a second port of their first node."""
        return any("{head_port}" in text for text in (*self.argv, *self.worker_argv))


@dataclass(frozen=True)
class Allocation:
    """The resources that one group of a job requests: the maximum over its components (memory: the
    sum).
    """

    nodes: int = 1
    tasks_per_node: int = 1
    cpus_per_task: int = 1
    gpus_per_node: int = 0
    mem_mib: int | None = None
    """Memory per node. None: the site's default."""
    partition: str | None = None


@dataclass(frozen=True)
class After:
    """A dependency of a job: on another job of the plan (`job`) or on a job id (`job_id`).

    `kind`: Slurm's word. An `aftercorr` lets each task of an array follow the same task of the
    other array when that succeeded, and all of them when the other array has ended in any way. It
    is the only dependency of its job.
    """

    kind: str = "afterok"
    job: str = ""
    job_id: str = ""


@dataclass(frozen=True)
class PlannedJob:
    """One submission to the queue.

    With `shards`, task i of the array (or the only task) runs shard i. A job without shards is the
    `prepare` job, the merge, the profile or a user's command.
    """

    name: str
    components: tuple[Component, ...]
    allocations: tuple[Allocation, ...]
    """One allocation, or several for a heterogeneous job: `Component.group` is an index into them.
    """
    shards: tuple[str, ...] = ()
    array: bool = False
    array_cap: int | None = None
    """The maximum number of the array's tasks that run at the same time."""
    after: tuple[After, ...] = ()
    time_limit: str | None = None
    """The time limit in Slurm's format."""
    signal_s: int = 120
    """How long before the time limit the supervisor gets SIGUSR1, when the job is long enough: see
    `warning_s`. It then starts no new rollouts and waits for the running ones."""
    requeue: bool = True

    @property
    def warning_s(self) -> int:
        """How long before the time limit SIGUSR1 comes: at most a quarter of the limit, since at the
        very beginning of a short job it would let nothing start.
        """
        if self.time_limit is None:
            return self.signal_s
        return min(self.signal_s, max(1, int(seconds_of(self.time_limit)) // 4))

    @property
    def main(self) -> Component:
        """The main step: the component whose exit ends the job."""
        return next(component for component in self.components if component.is_main)

    @property
    def closing(self) -> bool:
        """Whether the job reads or merges rows for the whole run, and collects nothing."""
        return self.main.role in CLOSING_ROLES

    @property
    def services(self) -> tuple[Component, ...]:
        """The components that must be ready before the main step starts."""
        return tuple(component for component in self.components if not component.is_main)


@dataclass(frozen=True)
class Shard:
    """One job's share of the rollouts: one seed, and the tasks of one chunk.

    Its files begin with `name` (see `layout`): `rollouts[-rs{seed}][-chunk{k}]`.
    """

    name: str
    seed: int
    chunk: int = 0
    chunks: int = 1
    server_seed: int = 0
    """The seed for a self-hosted server, derived from the shard's seed and chunk."""
    tasks: int | None = None
    """The number of tasks in this shard. None: not known until a job can read the input."""
    first_task: int | None = None
    last_task: int | None = None
    """The last global task index; `first_task` and `last_task` are included. The shard's tasks are
    contiguous in the order of the indices."""
    rows: int | None = None
    """The number of rollouts expected. None: not known until a job can read the input."""


@dataclass(frozen=True)
class Policy:
    """A model that rollouts ask, such as the one under evaluation: self-hosted when `server` names a component, else at `base_url`.

    For a self-hosted model, the base URL is `http://HOST:PORT/v1` of the published endpoint, and
    the API key is its nonce.
    """

    model: str
    server: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    """The name of the variable that holds the API key. The key itself is in no file."""
    name: str = "policy"
    """The model's name in the configuration: `policy` gives values to `policy_base_url`,
    `policy_api_key` and `policy_model_name`."""


@dataclass(frozen=True)
class Collect:
    """What the driver of every shard does.

    Overrides use Hydra's syntax. `serve_overrides` apply to the servers' configuration,
    `collect_overrides` to the settings of the collection. Each is checked at submission.
    """

    config_paths: tuple[str, ...]
    input_file: str
    agent_name: str | None = None
    num_repeats: int = 1
    limit: int | None = None
    """The maximum number of tasks of each shard. Its rows are cut to these tasks."""
    num_samples_in_parallel: int | None = None
    serve_overrides: tuple[str, ...] = ()
    collect_overrides: tuple[str, ...] = ()
    seeded: bool = False
    """Whether every request carries a sampling seed."""
    materialized: bool = True
    """Whether the shards' rows were written at submission. If not, the input could not be read
    there, and the job `prepare` writes them before any model is loaded (`RunFiles.stamped`)."""


@dataclass(frozen=True)
class Run:
    """One submission of one run. Paths are those of the cluster, outside containers."""

    name: str
    """The experiment's name. When a user's runs share a name, the name means the last one."""
    output_dir: str
    """The output folder. Like `log_dir`, it is mounted at the same path in the containers of main
    steps."""
    log_dir: str
    submission: str
    """The number of this submission, which is its folder below `cluster/`: 0001, 0002, …"""
    executor: str
    """`slurm`, or `none` (also called `local`) for this machine."""
    runtime: str
    """The container runtime: pyxis, apptainer, singularity, podman, enroot or none."""
    python: str
    """The Python that runs the supervisor on the batch node."""
    collect: Collect
    policy: Policy
    shards: tuple[Shard, ...]
    """All shards of the run, also those that no job of this submission runs. A shard's position in
    the tuple is its number."""
    jobs: tuple[PlannedJob, ...]
    """The jobs, each after the jobs that it depends on."""
    cluster: str = "none"
    secrets: tuple[str, ...] = ()
    """The variables that a component sees only when it inherits them."""
    identity: dict[str, str] = field(default_factory=dict)
    """The inputs that make two submissions into one folder the same run: digests of the input and
    of the servers' configuration, seeds, chunks, repeats. No credentials, no endpoints."""
    input_digest: str = ""
    """The digest of all input rows: see `Materialized.input_digest`."""
    tasks: int | None = None
    """The number of tasks of the whole run. `tasks` and `rollouts` are None when the input could
    not be read at submission."""
    rollouts: int | None = None
    rerun_done: bool = False
    code_version: str = ""
    srun_options: tuple[str, ...] = ()
    """Options that are added to every srun, such as a site's `--mpi=none`."""
    further_models: tuple[Policy, ...] = ()
    """Models besides the policy whose servers each job starts, such as a judge."""
    command_timeout_s: float = 60.0
    """The time limit of each Slurm command."""
    format: int = FORMAT

    def job(self, name: str) -> PlannedJob:
        """Return the job named `name`. Raises KeyError."""
        return {job.name: job for job in self.jobs}[name]

    def shard(self, name: str) -> Shard:
        """Return the shard named `name`. Raises KeyError."""
        return {shard.name: shard for shard in self.shards}[name]


def is_command(run: Run) -> bool:
    """Whether the run is a user's own command instead of rollouts."""
    return any(job.main.role is Role.COMMAND for job in run.jobs)


def to_json(run: Run) -> bytes:
    """Return the plan as bytes for `plan.json`. Equal plans give equal bytes."""
    text = json.dumps(asdict(run), indent=2, sort_keys=True, ensure_ascii=False)
    return text.encode() + b"\n"


def from_json(text: bytes) -> Run:
    """Return the plan that `to_json` wrote. Raises ValueError: the text is not a plan."""
    try:
        fields_read = json.loads(text)
        if fields_read["format"] != FORMAT:
            raise ValueError(
                f"its format is {fields_read['format']}, but this Palestra reads format {FORMAT}"
            )
        return _record_from(
            Run,
            fields_read,
            collect=_record_from(Collect, fields_read["collect"]),
            policy=_record_from(Policy, fields_read["policy"]),
            further_models=tuple(
                _record_from(Policy, model) for model in fields_read.get("further_models", ())
            ),
            shards=tuple(_record_from(Shard, shard) for shard in fields_read["shards"]),
            jobs=tuple(map(_job, fields_read["jobs"])),
        )
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"it is not a plan ({error!r})") from error


def _job(fields_read: Mapping[str, Any]) -> PlannedJob:
    return _record_from(
        PlannedJob,
        fields_read,
        components=tuple(map(_component, fields_read["components"])),
        allocations=tuple(
            _record_from(Allocation, allocation) for allocation in fields_read["allocations"]
        ),
        after=tuple(_record_from(After, after) for after in fields_read["after"]),
    )


def _component(fields_read: Mapping[str, Any]) -> Component:
    on_exit, probe = fields_read["on_exit"], fields_read["probe"]
    return _record_from(
        Component,
        fields_read,
        role=Role(fields_read["role"]),
        mounts=tuple(_record_from(Mount, mount) for mount in fields_read["mounts"]),
        on_exit=_record_from(OnExit, on_exit, action=ExitAction(on_exit["action"])),
        probe=_record_from(Probe, probe) if probe else None,
        setup=_record_from(Setup, fields_read["setup"]),
    )


_Made = TypeVar("_Made")
_PLAIN: Final = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}
"""The types that a field accepts, by its annotation."""


def _record_from(cls: type[_Made], fields_read: Mapping[str, Any], **parts: object) -> _Made:
    """Build a `cls` from JSON fields, with lists as tuples. `parts`: fields that are built already."""
    values = {name: tuple(x) if isinstance(x, list) else x for name, x in fields_read.items()}
    for plan_field in fields(cls):  # type: ignore[arg-type]  # each is a dataclass
        allowed = _PLAIN.get(str(plan_field.type))
        if (
            allowed
            and plan_field.name in values
            and not isinstance(values[plan_field.name], allowed)
        ):
            raise TypeError(f"{cls.__name__}.{plan_field.name} is {values[plan_field.name]!r}")
    return cls(**{**values, **parts})


def read_plan(path: Path) -> Run:
    """Read the plan in a file. Raises OSError. Raises ValueError: the file is not a plan."""
    return from_json(path.read_bytes())


def seconds_of(limit: str) -> float:
    """Convert a time in Slurm's format to seconds: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S."""
    days, dash, clock_text = limit.rpartition("-")
    parts = [int(part) for part in clock_text.split(":")]
    if dash:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, (*parts, 0)[:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds

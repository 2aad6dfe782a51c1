"""The plan of a run: what every job does, decided before anything is submitted.

Frozen values that go to JSON and back (`to_json`, `from_json`), so that a plan is tested without
a cluster. A job's supervisor carries this module with it: standard library only, for Python 3.8 and
later.

    Run        one submission of one run: its shards and its jobs
    Shard      one job's share of the rollouts: a seed and a chunk of the tasks
    Job        one submission to the queue; an array when it has several shards
    Component  one program of a job: server, sandbox, driver, merge, profile

Texts in `argv` and `env` may hold these tokens, replaced inside the job where a component starts,
since nobody knows their values earlier (only these exact tokens: other braces stay):

    {port}         a free port of that node, of `port_range` when there is one
    {host}         the address to listen on, so that the job's other nodes reach it
    {nonce}        a random text of this job's start: a server asks it of its callers as API key
    {server_seed}  the shard's seed for a self-hosted server
    {node_rank}    from 0, for a component on several nodes; {head_host} is the address of rank 0,
                   and {head_port} another free port there, where its nodes meet
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
"""Has the supervisor's program run a server that takes its key as an argument, from `KEY_VARIABLE`."""
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
    """What a component is for; `plan.json` holds the value."""

    SERVER = "server"
    """The self-hosted model server. Publishes an endpoint."""
    SANDBOX = "sandbox"
    """Runs model-written code. Publishes an endpoint; gets no secrets and, unless asked, no mounts."""
    RAY = "ray"
    """Nodes of a Ray cluster, for verifiers that need many cores. Publishes an endpoint, which
    tells the cluster's address."""
    PREPARE = "prepare"
    """Checks the configuration and stamps the rows, where the submitting machine could not read
    the input. Alone in its job, which comes before all others."""
    DRIVER = "driver"
    """Collects the rollouts of one shard. Its exit, and the done file, decide the job."""
    MERGE = "merge"
    """Merges the shards. Alone in its job, and decides it."""
    PROFILE = "profile"
    """Profiles the merged rollouts. Alone in its job, and decides it."""
    COMMAND = "command"
    """A user's own command, in which braces are no tokens. Alone in its job, and decides it."""


MAIN_ROLES: Final = frozenset({Role.PREPARE, Role.DRIVER, Role.MERGE, Role.PROFILE, Role.COMMAND})
"""The main step of a job: each job has exactly one."""


class ExitAction(str, Enum):  # noqa: UP042  # as above
    """What the supervisor does when a component that is no main step exits, even with 0."""

    FATAL = "fatal"
    """The job fails, and says which component, how it ended and what it printed last."""
    RESTART = "restart"
    """It is started again, `restarts` times; after that it is fatal."""
    IGNORE = "ignore"
    """The job goes on, and the log says so."""


@dataclass(frozen=True)
class OnExit:
    """The policy of one component. `restarts`: how often, with RESTART."""

    action: ExitAction = ExitAction.FATAL
    restarts: int = 0


@dataclass(frozen=True)
class Probe:
    """How to tell that a service is ready, and later that it still is. All times in seconds.

    GET `path` of the published endpoint, with the nonce as bearer token.
    """

    path: str
    expect_status: int = 200
    expect_model: str = ""
    """The name that must be in the list that `path` answers with; empty: any answer does."""
    deadline_s: float = 1800.0
    """In all, from the component's start."""
    attempt_timeout_s: float = 10.0
    interval_s: float = 5.0
    """Between attempts, and between looks once the service is ready."""


@dataclass(frozen=True)
class Mount:
    """A folder of the cluster's file system inside a container. `flags`: as written, such as ro."""

    source: str
    target: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setup:
    """Bash commands of a main step, each run as `bash -c` in its container and workdir."""

    install: str = ""
    """Once per node of the job, under a lock of that node; then `before`, in each main step."""
    before: str = ""
    after: str = ""
    """After the main step went well; its failure is the job's."""


@dataclass(frozen=True)
class Component:
    """One program of a job. `nodes`, `tasks` (in all), `cpus` and `gpus` (per task, per node)."""

    name: str
    role: Role
    argv: tuple[str, ...]
    worker_argv: tuple[str, ...] = ()
    """What the nodes of rank 1 and above run instead, when there are several; empty: the same."""
    container: str | None = None
    nodes: int = 1
    tasks: int = 1
    cpus: int = 1
    gpus: int = 0
    mem_mib: int | None = None
    env: dict[str, str] = field(default_factory=dict)
    """Literal values: never a `$` or a backtick."""
    inherit: tuple[str, ...] = ()
    """Variables passed on from the job's own environment that not every component may see."""
    mounts: tuple[Mount, ...] = ()
    workdir: str | None = None
    on_exit: OnExit = OnExit()
    probe: Probe | None = None
    """Services have one; the main step starts when all are ready."""
    port_range: tuple[int, int] | None = None
    """First and last port to choose from; None: any free one."""
    group: int = 0
    """Which of the job's allocations it runs in: `--het-group` when there are several."""
    setup: Setup = Setup()

    @property
    def is_main(self) -> bool:
        """Whether its exit decides the job."""
        return self.role in MAIN_ROLES

    @property
    def has_port(self) -> bool:
        """Whether it listens where it is told to."""
        texts = (*self.argv, *self.worker_argv, *self.env.values())
        return self.probe is not None or any("{port}" in text for text in texts)

    @property
    def has_head_port(self) -> bool:
        """Whether its nodes meet at another port of the first."""
        return any("{head_port}" in text for text in (*self.argv, *self.worker_argv))


@dataclass(frozen=True)
class Allocation:
    """What one group of a job asks the queue for: the maximum over its components."""

    nodes: int = 1
    tasks_per_node: int = 1
    cpus_per_task: int = 1
    gpus_per_node: int = 0
    mem_mib: int | None = None
    """Per node; None: the site's default."""
    partition: str | None = None


@dataclass(frozen=True)
class After:
    """A dependency of a job, on another job of the plan (`job`) or on a known id (`job_id`)."""

    kind: str = "afterok"
    job: str = ""
    job_id: str = ""


@dataclass(frozen=True)
class Job:
    """One submission to the queue.

    With `shards`, task i of the array (or the only task) runs shard i; without, it is the merge
    or the profile of the whole run.
    """

    name: str
    components: tuple[Component, ...]
    allocations: tuple[Allocation, ...]
    """One, or several for a heterogeneous job: `Component.group` is an index into them."""
    shards: tuple[str, ...] = ()
    array: bool = False
    array_cap: int | None = None
    """At most so many tasks of the array at once."""
    after: tuple[After, ...] = ()
    time_limit: str | None = None
    """As Slurm writes it."""
    signal_s: int = 120
    """How long before the time limit the supervisor gets SIGUSR1: it stops admission, drains."""
    requeue: bool = True

    @property
    def main(self) -> Component:
        """The component whose exit decides the job."""
        return next(component for component in self.components if component.is_main)

    @property
    def services(self) -> tuple[Component, ...]:
        """The components that the main step needs to be ready."""
        return tuple(component for component in self.components if not component.is_main)


@dataclass(frozen=True)
class Shard:
    """One job's share of the rollouts: of one seed, the tasks of one chunk.

    Its files are named after `name` (see `layout`): `rollouts[-rs{seed}][-chunk{k}]`.
    """

    name: str
    seed: int
    chunk: int = 0
    chunks: int = 1
    server_seed: int = 0
    """For a self-hosted server: derived from the seed and the chunk."""
    tasks: int | None = None
    """How many tasks are its share; None: not known until the job can read the input."""
    first_task: int | None = None
    last_task: int | None = None
    """Global task indices, both included. The share is contiguous in the order of the indices."""
    rows: int | None = None
    """Rollouts expected; None as `tasks`."""


@dataclass(frozen=True)
class Policy:
    """The model that is asked. Self-hosted when `server` names a component, else at `base_url`.

    Self-hosted, the base URL is `http://HOST:PORT/v1` of the published endpoint and the API key
    is its nonce.
    """

    model: str
    server: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    """The variable that holds the key; its value is in no file."""


@dataclass(frozen=True)
class Collect:
    """What the driver of every shard does.

    Overrides are Hydra's. `serve_overrides` go to the servers' configuration, `collect_overrides`
    to the settings of the collection; each was checked when the run was submitted.
    """

    config_paths: tuple[str, ...]
    input_file: str
    agent_name: str | None = None
    num_repeats: int = 1
    limit: int | None = None
    """Tasks of each shard, at most: its rows are cut accordingly."""
    num_samples_in_parallel: int | None = None
    serve_overrides: tuple[str, ...] = ()
    collect_overrides: tuple[str, ...] = ()
    seeded: bool = False
    """Whether every request carries a sampling seed."""
    materialized: bool = True
    """Whether the rows were stamped at submission; if not, the input was out of reach there, and
    the job `prepare` stamps them, before any model is loaded (`RunFiles.stamped`)."""


@dataclass(frozen=True)
class Run:
    """One submission of one run. Paths are those of the cluster, outside containers."""

    name: str
    """The experiment's name: unique among a user's runs."""
    output_dir: str
    """Mounted at this same path in the containers of main steps, as `log_dir` is."""
    log_dir: str
    submission: str
    """The folder of this submission below `cluster/`: 0001, 0002, …"""
    executor: str
    """slurm, or none (also called local): this machine."""
    runtime: str
    """pyxis, apptainer, podman or none."""
    python: str
    """The Python that runs the supervisor on the batch node."""
    collect: Collect
    policy: Policy
    shards: tuple[Shard, ...]
    """All of the run, also those that no job of this submission runs: a shard's place in it is
    its number among them."""
    jobs: tuple[Job, ...]
    """In an order in which each comes after those it depends on."""
    cluster: str = "none"
    secrets: tuple[str, ...] = ()
    """Variables that no component sees unless it inherits them."""
    identity: dict[str, str] = field(default_factory=dict)
    """What makes this the same run as an earlier submission into the same folder: digests of the
    input and of the servers' configuration, seeds, chunks, repeats. No credentials, no endpoints."""
    input_digest: str = ""
    """Of all input rows, as `Materialized.input_digest` has it."""
    tasks: int | None = None
    """Of the whole run; None, as `rollouts`, when the input was out of reach at submission."""
    rollouts: int | None = None
    rerun_done: bool = False
    code_version: str = ""
    srun_options: tuple[str, ...] = ()
    """Added to every srun, such as a site's --mpi=none."""
    command_timeout_s: float = 60.0
    """How long a command of the cluster may take."""
    format: int = FORMAT

    def job(self, name: str) -> Job:
        """The job of that name. Raises KeyError."""
        return {job.name: job for job in self.jobs}[name]

    def shard(self, name: str) -> Shard:
        """The shard of that name. Raises KeyError."""
        return {shard.name: shard for shard in self.shards}[name]


def is_command(run: Run) -> bool:
    """Whether it is a user's own command, and no rollouts."""
    return any(job.main.role is Role.COMMAND for job in run.jobs)


def to_json(run: Run) -> bytes:
    """The plan as `plan.json` holds it: the same bytes for the same plan."""
    text = json.dumps(asdict(run), indent=2, sort_keys=True, ensure_ascii=False)
    return text.encode() + b"\n"


def from_json(text: bytes) -> Run:
    """The plan that `to_json` wrote. Raises ValueError for anything else."""
    try:
        fields_read = json.loads(text)
        if fields_read["format"] != FORMAT:
            raise ValueError(f"it has format {fields_read['format']}, and {FORMAT} is read here")
        return _made(
            Run,
            fields_read,
            collect=_made(Collect, fields_read["collect"]),
            policy=_made(Policy, fields_read["policy"]),
            shards=tuple(_made(Shard, shard) for shard in fields_read["shards"]),
            jobs=tuple(map(_job, fields_read["jobs"])),
        )
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"it is no plan ({error!r})") from error


def _job(fields_read: Mapping[str, Any]) -> Job:
    return _made(
        Job,
        fields_read,
        components=tuple(map(_component, fields_read["components"])),
        allocations=tuple(
            _made(Allocation, allocation) for allocation in fields_read["allocations"]
        ),
        after=tuple(_made(After, after) for after in fields_read["after"]),
    )


def _component(fields_read: Mapping[str, Any]) -> Component:
    on_exit, probe = fields_read["on_exit"], fields_read["probe"]
    return _made(
        Component,
        fields_read,
        role=Role(fields_read["role"]),
        mounts=tuple(_made(Mount, mount) for mount in fields_read["mounts"]),
        on_exit=_made(OnExit, on_exit, action=ExitAction(on_exit["action"])),
        probe=_made(Probe, probe) if probe else None,
        setup=_made(Setup, fields_read["setup"]),
    )


_Made = TypeVar("_Made")
_PLAIN: Final = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}
"""What a field may hold, by its annotation."""


def _made(cls: type[_Made], fields_read: Mapping[str, Any], **parts: object) -> _Made:
    """The record of these fields, of which `parts` are made already; lists are tuples in it."""
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
    """The plan in a file. Raises OSError, and ValueError for what is no plan."""
    return from_json(path.read_bytes())


def seconds_of(limit: str) -> float:
    """A time as Slurm writes it: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S."""
    days, dash, clock_text = limit.rpartition("-")
    parts = [int(part) for part in clock_text.split(":")]
    if dash:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, (*parts, 0)[:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds

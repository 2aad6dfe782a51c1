"""From options and a cluster to a plan: pure, the same answer for the same question.

What has to be read from the world first (paths, rows, versions, what else runs) comes in as
`Facts`.
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from palestra.cluster.configs import ClusterConfig
from palestra.cluster.mounts import merged, parse_mounts, same_place
from palestra.cluster.options import RolloutOptions
from palestra.cluster.plan import (
    After,
    Allocation,
    Collect,
    Component,
    Job,
    Mount,
    OnExit,
    Policy,
    Probe,
    Role,
    Run,
    Setup,
    Shard,
)
from palestra.cluster.problems import refuse
from palestra.cluster.secrets import env_problems
from palestra.cluster.servers import server_command
from palestra.cluster.times import seconds_of
from palestra.errors import ConfigError

SERVER: Final = "server"
SANDBOX: Final = "sandbox"
DRIVER: Final = "driver"
SLURM_ARRAY_SIZE: Final = 1001
"""Slurm's own default of MaxArraySize: tasks of one array."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a plan rests on besides its options. Paths are the cluster's, outside containers.

    `wanted`: shards to run in this submission, of all `shards`.
    """

    output_dir: str
    log_dir: str
    submission: str
    python: str
    config_paths: tuple[str, ...]
    input_file: str
    shards: tuple[Shard, ...]
    wanted: tuple[str, ...]
    serve_overrides: tuple[str, ...] = ()
    collect_overrides: tuple[str, ...] = ()
    workdir: str | None = None
    code: str | None = None
    """The packaged code, first on PYTHONPATH."""
    mounts: tuple[Mount, ...] = ()
    """That paths of the options need, in containers."""
    after: tuple[After, ...] = ()
    complete: bool = True
    """Whether all shards are done once the wanted ones are: only then is there a merge."""
    max_array_size: int = SLURM_ARRAY_SIZE
    code_version: str = ""
    identity: dict[str, str] = field(default_factory=dict)
    input_digest: str = ""
    tasks: int | None = None
    rollouts: int | None = None
    materialized: bool = True


def plan_run(
    options: RolloutOptions, cluster: ClusterConfig, cluster_name: str, facts: Facts
) -> Run:
    """The whole plan. Raises ConfigError for what cannot be planned."""
    parts = _Parts(options, cluster, facts)
    components = parts.collecting()
    preparing = _preparing_jobs(facts, parts)
    if preparing:
        facts = replace(facts, after=(After("afterok", job=preparing[0].name),))
    collecting = _collecting_jobs(options, cluster, facts, components)
    jobs = (
        *preparing,
        *collecting,
        *(_closing_jobs(parts, collecting) if facts.complete else ()),
    )
    run = Run(
        name=options.expname,
        output_dir=facts.output_dir,
        log_dir=facts.log_dir,
        submission=facts.submission,
        executor=cluster.executor,
        runtime=cluster.runtime,
        python=facts.python,
        collect=_collect(options, facts),
        policy=_policy(options),
        shards=facts.shards,
        jobs=tuple(_with_time(job, options, cluster) for job in jobs),
        cluster=cluster_name,
        secrets=parts.secrets,
        identity=facts.identity,
        input_digest=facts.input_digest,
        tasks=facts.tasks,
        rollouts=facts.rollouts,
        rerun_done=options.rerun_done,
        code_version=facts.code_version,
        srun_options=cluster.srun_options,
    )
    refuse(
        [
            problem
            for job in run.jobs
            for component in job.components
            for problem in env_problems(component.env, f"{job.name}/{component.name}")
        ]
    )
    return run


def replan(
    run: Run, shards: Iterable[str], *, submission: str, complete: bool, after: Sequence[After] = ()
) -> Run:
    """The same run submitted again, for some of its shards only.

    `complete`: whether all shards are done once these are; otherwise merge and profile are left
    out. Raises KeyError for a shard that the run has not.
    """
    wanted = tuple(run.shard(name).name for name in shards)
    kept: list[Job] = []
    for job in run.jobs:
        if not job.shards:
            if complete:
                kept.append(job)
        elif own := tuple(name for name in job.shards if name in wanted):
            roots = tuple(after) if not any(a.job for a in job.after) else job.after
            kept.append(replace(job, shards=own, array=job.array and len(own) > 1, after=roots))
    names = {job.name for job in kept}
    jobs = tuple(
        replace(job, after=tuple(a for a in job.after if not a.job or a.job in names))
        for job in kept
    )
    return replace(run, submission=submission, jobs=jobs)


def allocations(
    components: Sequence[Component], partitions: Sequence[str | None]
) -> tuple[Allocation, ...]:
    """What each group of a job needs: the maximum over its components, in whatever order.

    `partitions`: of each group.
    """
    found = []
    for group, partition in enumerate(partitions):
        own = [component for component in components if component.group == group]
        nodes = max(component.nodes for component in own)
        tasks = max(-(-component.tasks // component.nodes) for component in own)
        cpus = max(-(-component.tasks // component.nodes) * component.cpus for component in own)
        memory = [component.mem_mib for component in own if component.mem_mib is not None]
        found.append(
            Allocation(
                nodes=nodes,
                tasks_per_node=tasks,
                cpus_per_task=-(-cpus // tasks),
                gpus_per_node=max(component.gpus for component in own),
                # They run side by side, and unlike cores memory is not shared by taking turns.
                mem_mib=sum(memory) if memory else None,
                partition=partition,
            )
        )
    return tuple(found)


class _Parts:
    """The components that jobs are made of."""

    def __init__(self, options: RolloutOptions, cluster: ClusterConfig, facts: Facts) -> None:
        self._options = options
        self._cluster = cluster
        self._facts = facts
        self._mounts = merged(
            merged(
                parse_mounts(cluster.mounts),
                (same_place(facts.output_dir), same_place(facts.log_dir), *facts.mounts),
            ),
            parse_mounts(options.mounts),
        )
        key = (options.policy_api_key_env,) if options.policy_api_key_env else ()
        self.secrets = tuple(dict.fromkeys((*key, *cluster.inherit_env)))

    def collecting(self) -> tuple[Component, ...]:
        """Services first, then the driver; each in the group of its partition."""
        found = []
        if self._options.self_hosted:
            found.append(self._server())
        if self._options.with_sandbox:
            found.append(self._sandbox())
        found.append(self._main(DRIVER, Role.DRIVER, ("drive", "{plan}", "{shard}"), cpus=DRIVER))
        return tuple(replace(part, group=self._group(part.name, found)) for part in found)

    def partitions(self, components: Sequence[Component]) -> tuple[str | None, ...]:
        """The partition of each group, in order."""
        by_group = {part.group: self._partition(part.name) for part in components}
        return tuple(by_group[group] for group in sorted(by_group))

    def closing(self, role: Role, command: str) -> Component:
        """The merge or the profile, alone in its job."""
        return self._main(role.value, role, (command, "{plan}"), cpus=DRIVER)

    def _partition(self, part: str) -> str | None:
        return (
            self._options.partition or self._cluster.partitions.get(part) or self._cluster.partition
        )

    def _group(self, part: str, components: Sequence[Component]) -> int:
        """Parts of different partitions are allocated as a heterogeneous job.

        The groups are numbered by partition, so that the order of components makes no difference;
        the driver's comes first, since the supervisor runs on the first node of group 0.
        """
        own = self._partition(DRIVER)
        others = {self._partition(component.name) for component in components} - {own}
        ordered = [own, *sorted(others, key=str)]
        return ordered.index(self._partition(part))

    def _probe(self, path: str, model: str = "") -> Probe:
        wait = self._cluster.probe
        return Probe(
            path=path,
            expect_model=model,
            deadline_s=wait.deadline_s,
            attempt_timeout_s=wait.attempt_timeout_s,
            interval_s=wait.interval_s,
        )

    def _server(self) -> Component:
        options, cluster = self._options, self._cluster
        command = server_command(options, python=self._python())
        kind = "gym" if options.server_type == "llama_cpp" else options.server_type
        return Component(
            name=SERVER,
            role=Role.SERVER,
            argv=command.argv,
            worker_argv=command.worker_argv,
            container=self._container(options.server_container, str(kind), "--server-type"),
            nodes=options.server_nodes,
            tasks=options.server_nodes,
            cpus=cluster.cpus.get(SERVER, 1),
            gpus=options.server_gpus,
            mem_mib=cluster.mem_mib.get(SERVER),
            env={**cluster.env, **self._pythonpath(), **command.env},
            inherit=cluster.inherit_env,
            mounts=self._mounts,
            workdir=self._facts.workdir,
            on_exit=cluster.on_exit.get("server", OnExit()),
            probe=self._probe("/v1/models", options.policy_name),
            port_range=cluster.port_range,
        )

    def _sandbox(self) -> Component:
        cluster = self._cluster
        argv = (*self._palestra(), "sandbox", "serve", "--host", "{host}", "--port", "{port}")
        # It runs what a model wrote: nothing of the cluster is in it, unless it was asked for.
        mounts = self._mounts if self._options.keep_mounts_for_sandbox else ()
        return Component(
            name=SANDBOX,
            role=Role.SANDBOX,
            argv=argv,
            container=self._container(
                None, "sandbox" if "sandbox" in cluster.containers else "gym", "--with-sandbox"
            ),
            cpus=cluster.cpus.get(SANDBOX, 1),
            mem_mib=cluster.mem_mib.get(SANDBOX),
            env={**self._pythonpath(), "PALESTRA_SANDBOX_TOKEN": "{nonce}"},
            mounts=mounts,
            on_exit=cluster.on_exit.get("sandbox", OnExit()),
            probe=self._probe("/"),
            port_range=cluster.port_range,
        )

    def _main(self, name: str, role: Role, command: tuple[str, ...], *, cpus: str) -> Component:
        options, cluster = self._options, self._cluster
        collecting = role is Role.DRIVER
        return Component(
            name=name,
            role=role,
            argv=(*self._palestra(), "cluster", *command),
            container=self._container(options.gym_container, "gym", "the main step"),
            cpus=cluster.cpus.get(cpus, 1),
            mem_mib=cluster.mem_mib.get(cpus),
            env={**cluster.env, **self._pythonpath()},
            inherit=self.secrets if collecting else cluster.inherit_env,
            mounts=self._mounts,
            workdir=self._facts.workdir,
            setup=Setup(
                install=self._install(),
                before=options.preprocess_cmd if collecting else "",
                after=options.postprocess_cmd if collecting else "",
            ),
        )

    def _install(self) -> str:
        """Nothing is installed in a job unless it was asked for."""
        path = self._options.gym_path
        commands = [self._options.installation_command]
        if path:
            commands.append(f"{shlex.quote(self._python())} -m pip install -e {shlex.quote(path)}")
        return " && ".join(command for command in commands if command)

    def _container(self, given: str | None, kind: str, wanted_by: str) -> str | None:
        if given is not None:
            if self._cluster.runtime == "none":
                raise ConfigError(
                    f"container {given!r}: this cluster runs none",
                    hint="set `runtime` in its config: pyxis, apptainer or podman",
                )
            return given
        return self._cluster.container(kind, wanted_by)

    def _python(self) -> str:
        inside = "python3" if self._cluster.runtime != "none" else self._facts.python
        return self._cluster.gym_python or inside

    def _palestra(self) -> tuple[str, ...]:
        return (self._python(), "-m", "palestra")

    def _pythonpath(self) -> dict[str, str]:
        code = self._facts.code
        given = self._cluster.env.get("PYTHONPATH", "")
        return {"PYTHONPATH": f"{code}:{given}".rstrip(":")} if code else {}


def _preparing_jobs(facts: Facts, parts: _Parts) -> tuple[Job, ...]:
    """A job that reads the input, where nobody could when it was submitted."""
    if facts.materialized:
        return ()
    component = parts.closing(Role.PREPARE, "prepare-inputs")
    asked = allocations((component,), parts.partitions((component,)))
    return (Job(Role.PREPARE.value, (component,), asked, after=facts.after),)


def _collecting_jobs(
    options: RolloutOptions, cluster: ClusterConfig, facts: Facts, components: tuple[Component, ...]
) -> tuple[Job, ...]:
    """One array, or as many as the site's largest array asks for; each followed by its repeats."""
    parts = _Parts(options, cluster, facts)
    asked = allocations(components, parts.partitions(components))
    # Slurm has no arrays of heterogeneous jobs.
    size = 1 if len(asked) > 1 else facts.max_array_size
    wanted = facts.wanted
    pieces = [wanted[at : at + size] for at in range(0, len(wanted), size)]
    cap = options.array_cap or cluster.array_cap
    jobs: list[Job] = []
    for number, piece in enumerate(pieces):
        name = "collect" if len(pieces) == 1 else f"collect-{number + 1}"
        # Several arrays together keep the cap only one after another.
        after = facts.after
        if cap and number >= (cap if size == 1 else 1):
            earlier = number - (cap if size == 1 else 1)
            after = (*after, After("afterany", job=_last_of(jobs, pieces, earlier)))
        for repeat in range(options.dependent_jobs + 1):
            jobs.append(
                Job(
                    name=name if repeat == 0 else f"{name}-again-{repeat}",
                    components=components,
                    allocations=asked,
                    shards=piece,
                    array=len(piece) > 1,
                    array_cap=cap if len(piece) > 1 else None,
                    after=after,
                )
            )
            after = (After("afterany", job=jobs[-1].name),)
    return tuple(jobs)


def _last_of(jobs: Sequence[Job], pieces: Sequence[Sequence[str]], number: int) -> str:
    """The last job that runs one piece of the shards."""
    return [job.name for job in jobs if job.shards == pieces[number]][-1]


def _closing_jobs(parts: _Parts, collecting: Sequence[Job]) -> tuple[Job, ...]:
    """Merge once every shard is done, then profile what was merged."""
    last = {job.shards: job.name for job in collecting}
    after = tuple(After("afterok", job=name) for name in last.values())
    jobs = []
    for role, command in ((Role.MERGE, "merge-shards"), (Role.PROFILE, "profile-merged")):
        component = parts.closing(role, command)
        asked = allocations((component,), parts.partitions((component,)))
        jobs.append(Job(role.value, (component,), asked, after=after))
        after = (After("afterok", job=role.value),)
    return tuple(jobs)


def _with_time(job: Job, options: RolloutOptions, cluster: ClusterConfig) -> Job:
    limit = options.time or cluster.time
    signal_s = cluster.signal_s
    if limit is not None:
        # A warning at the very beginning of a short job would let nothing start.
        signal_s = min(signal_s, max(1, int(seconds_of(limit)) // 4))
    return replace(
        job,
        time_limit=limit,
        signal_s=signal_s,
        requeue=cluster.requeue,
    )


def _policy(options: RolloutOptions) -> Policy:
    return Policy(
        model=options.policy_name,
        server=SERVER if options.self_hosted else None,
        base_url=options.server_address,
        api_key_env=options.policy_api_key_env,
    )


def _collect(options: RolloutOptions, facts: Facts) -> Collect:
    return Collect(
        config_paths=facts.config_paths,
        input_file=facts.input_file,
        agent_name=options.agent_name,
        num_repeats=options.num_repeats,
        limit=options.limit,
        num_samples_in_parallel=options.num_samples_in_parallel,
        seeded=options.seeds is not None,
        serve_overrides=facts.serve_overrides,
        collect_overrides=facts.collect_overrides,
        materialized=facts.materialized,
    )

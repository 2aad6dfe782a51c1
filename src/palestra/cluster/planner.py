"""Turn options and a cluster into a plan: pure, so equal inputs give equal plans.

Everything that must be read from outside first (paths, rows, versions, other jobs) is passed as
`Facts`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from palestra.cluster.components import SERVER, Facts, Parts, allocations, server_name
from palestra.cluster.configs import ClusterConfig
from palestra.cluster.places import mount_problems
from palestra.cluster.plan import (
    After,
    Collect,
    Component,
    PlannedJob,
    Policy,
    Role,
    Run,
    seconds_of,
)
from palestra.cluster.secrets import env_problems, key_problems
from palestra.config import raise_problems
from palestra.settings import JobOptions, RolloutOptions

CLOSING_TIME: Final = "1:00:00"
"""The longest default time limit of a job that merges or profiles."""


def plan_run(
    options: RolloutOptions, cluster: ClusterConfig, cluster_name: str, facts: Facts
) -> Run:
    """Return the whole plan. Raises ConfigError: the options or the cluster allow no valid plan."""
    parts = Parts(options, cluster, facts)
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
        further_models=tuple(
            Policy(model=server.requested_name, server=server_name(name), name=name)
            for name, server in options.further_servers.items()
        ),
        shards=facts.shards,
        jobs=tuple(with_time(job, options, cluster) for job in jobs),
        cluster=cluster_name,
        secrets=parts.secrets,
        identity=facts.identity,
        input_digest=facts.input_digest,
        tasks=facts.tasks,
        rollouts=facts.rollouts,
        rerun_done=options.rerun_done,
        code_version=facts.code_version,
        srun_options=cluster.srun_options,
        command_timeout_s=cluster.command_timeout_s,
    )
    check_components(run)
    return run


def check_components(run: Run) -> None:
    """Raise ConfigError when a component cannot run as planned."""
    problems = [
        problem
        for job in run.jobs
        for component in job.components
        for problem in _problems(component, job.name, run.executor)
    ]
    raise_problems(list(dict.fromkeys(problems)))


def _problems(component: Component, job: str, executor: str) -> list[str]:
    return [
        *env_problems(component.env, f"{job}/{component.name}"),
        *key_problems((*component.argv, *component.worker_argv), component.name),
        *(
            [f"{component.name} on {component.nodes} nodes: executor {executor} has one"]
            if component.nodes > 1 and executor != "slurm"
            else []
        ),
        *(mount_problems(component.mounts) if component.container else ()),
    ]


def replan(
    run: Run, shards: Iterable[str], *, submission: str, complete: bool, after: Sequence[After] = ()
) -> Run:
    """Return the plan for submitting some of a run's shards again.

    `complete`: whether all shards are done once these are; otherwise merge and profile are left
    out. Raises KeyError: the run does not have a shard.
    """
    wanted_shards = tuple(run.shard(name).name for name in shards)
    kept_jobs: list[PlannedJob] = []
    for job in run.jobs:
        if not job.shards:
            if complete:
                kept_jobs.append(job)
        elif own_shards := tuple(name for name in job.shards if name in wanted_shards):
            roots = tuple(after) if not any(a.job for a in job.after) else job.after
            kept_jobs.append(
                replace(
                    job, shards=own_shards, array=job.array and len(own_shards) > 1, after=roots
                )
            )
    names = {job.name for job in kept_jobs}
    jobs = tuple(
        replace(job, after=tuple(a for a in job.after if not a.job or a.job in names))
        for job in kept_jobs
    )
    return replace(run, submission=submission, jobs=jobs)


def _preparing_jobs(facts: Facts, parts: Parts) -> tuple[PlannedJob, ...]:
    """Return the job that reads the input; none when the input was read at submission."""
    if facts.materialized:
        return ()
    component = parts.closing(Role.PREPARE, "prepare-inputs")
    requested = allocations((component,), parts.partitions((component,)))
    return (PlannedJob(Role.PREPARE.value, (component,), requested, after=facts.after),)


def _collecting_jobs(
    options: RolloutOptions, cluster: ClusterConfig, facts: Facts, components: tuple[Component, ...]
) -> tuple[PlannedJob, ...]:
    """Return the jobs that collect: one array, or several if the site limits the array size.

    With `--dependent-jobs`, each is followed by its repeats.
    """
    parts = Parts(options, cluster, facts)
    requested = allocations(components, parts.partitions(components))
    # Slurm has no arrays of heterogeneous jobs.
    size = 1 if len(requested) > 1 else facts.max_array_size
    wanted_shards = facts.wanted
    pieces = [wanted_shards[at : at + size] for at in range(0, len(wanted_shards), size)]
    cap = options.array_cap or cluster.array_cap
    jobs: list[PlannedJob] = []
    for number, piece in enumerate(pieces):
        name = "collect" if len(pieces) == 1 else f"collect-{number + 1}"
        # Several arrays together keep the cap only one after another.
        after = facts.after
        if cap and number >= (cap if size == 1 else 1):
            earlier = number - (cap if size == 1 else 1)
            after = (*after, After("afterany", job=_last_of(jobs, pieces, earlier)))
        for repeat in range(options.dependent_jobs + 1):
            jobs.append(
                PlannedJob(
                    name=name if repeat == 0 else f"{name}-again-{repeat}",
                    components=components,
                    allocations=requested,
                    shards=piece,
                    array=len(piece) > 1,
                    array_cap=cap if len(piece) > 1 else None,
                    after=after,
                )
            )
            kind = "aftercorr" if jobs[-1].array else "afterany"
            after = (After(kind, job=jobs[-1].name),)
    return tuple(jobs)


def _last_of(jobs: Sequence[PlannedJob], pieces: Sequence[Sequence[str]], number: int) -> str:
    """Return the name of the last job that runs piece `number` of the shards."""
    return [job.name for job in jobs if job.shards == pieces[number]][-1]


def _closing_jobs(parts: Parts, collecting: Sequence[PlannedJob]) -> tuple[PlannedJob, ...]:
    """Return the merge, which starts once every shard is done, and the profile, which starts after
    it.
    """
    last = {job.shards: job.name for job in collecting}
    after = tuple(After("afterok", job=name) for name in last.values())
    jobs = []
    for role, command in ((Role.MERGE, "merge-shards"), (Role.PROFILE, "profile-merged")):
        component = parts.closing(role, command)
        requested = allocations((component,), parts.partitions((component,)))
        jobs.append(PlannedJob(role.value, (component,), requested, after=after))
        after = (After("afterok", job=role.value),)
    return tuple(jobs)


def with_time(job: PlannedJob, options: JobOptions, cluster: ClusterConfig) -> PlannedJob:
    """Return the job with its time limit, and with the time of the warning before the limit."""
    limit = options.time or cluster.time
    if job.closing:
        limit = _closing_time(options, cluster, limit)
    return replace(job, time_limit=limit, signal_s=cluster.signal_s, requeue=cluster.requeue)


def _closing_time(options: JobOptions, cluster: ClusterConfig, limit: str | None) -> str | None:
    """Return the time limit of a job that merges or profiles: its own, or at most an hour."""
    own_limit = options.merge_time if isinstance(options, RolloutOptions) else None
    if own_limit or cluster.merge_time:
        return own_limit or cluster.merge_time
    if limit is None:
        return None
    return limit if seconds_of(limit) <= seconds_of(CLOSING_TIME) else CLOSING_TIME


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

"""What the supervisor needs of `plan.json`, read into values; see `palestra.cluster.plan`.

Raises BadPlan for a file that is no plan of the format it knows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMAT = 1
MAIN_ROLES = frozenset({"prepare", "driver", "merge", "profile", "command"})


class BadPlan(Exception):
    """The plan cannot be read, or has no such job."""


@dataclass(frozen=True)
class ProbeSpec:
    """How to tell that a service is ready; seconds."""

    path: str
    expect_status: int
    expect_model: str
    deadline_s: float
    attempt_timeout_s: float
    interval_s: float


@dataclass(frozen=True)
class SetupSpec:
    """Bash commands around a main step."""

    install: str = ""
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class MountSpec:
    source: str
    target: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class ComponentSpec:
    """One program of the job."""

    name: str
    role: str
    argv: tuple[str, ...]
    worker_argv: tuple[str, ...]
    """On nodes of rank 1 and above; empty: the same."""
    container: str | None
    nodes: int
    tasks: int
    cpus: int
    gpus: int
    mem_mib: int | None
    env: Mapping[str, str]
    inherit: tuple[str, ...]
    mounts: tuple[MountSpec, ...]
    workdir: str | None
    action: str
    restarts: int
    probe: ProbeSpec | None
    port_range: tuple[int, int] | None
    group: int
    setup: SetupSpec

    @property
    def is_main(self) -> bool:
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
class ShardSpec:
    """What this job has of the run's rollouts."""

    name: str
    server_seed: int
    rows: int | None
    first_task: int | None
    last_task: int | None


@dataclass(frozen=True)
class JobSpec:
    """The job of this supervisor, and what it has to know of the run around it."""

    run: str
    plan: Path
    name: str
    output_dir: Path
    log_dir: Path
    submission: str
    executor: str
    runtime: str
    python: str
    code_version: str
    components: tuple[ComponentSpec, ...]
    groups: int
    shard: ShardSpec | None
    task: int | None
    """The index in an array."""
    signal_s: float
    requeue: bool
    rerun_done: bool
    secrets: tuple[str, ...]
    srun_options: tuple[str, ...]
    dependants: tuple[str, ...]
    """Jobs of this submission that start only if this one goes well."""

    @property
    def main(self) -> ComponentSpec:
        return next(component for component in self.components if component.is_main)

    @property
    def services(self) -> tuple[ComponentSpec, ...]:
        return tuple(component for component in self.components if not component.is_main)

    @property
    def unit(self) -> str:
        """What its logs are named after."""
        return self.shard.name if self.shard else self.name


def read_spec(plan: Path, job_name: str, task: int) -> JobSpec:
    """The job named so. Raises BadPlan."""
    try:
        run = json.loads(plan.read_bytes())
        if run["format"] != FORMAT:
            raise BadPlan(f"{plan} has format {run['format']}, and this supervisor reads {FORMAT}")
        found = [job for job in run["jobs"] if job["name"] == job_name]
        if not found:
            names = ", ".join(job["name"] for job in run["jobs"])
            raise BadPlan(f"{plan} has no job {job_name!r} (jobs: {names})")
        return _job(plan, run, found[0], task)
    except OSError as error:
        raise BadPlan(f"{plan}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise BadPlan(f"{plan} is no plan ({error!r})") from error


def _job(plan: Path, run: Mapping[str, Any], job: Mapping[str, Any], task: int) -> JobSpec:
    shards: list[str] = list(job["shards"])
    if shards and task >= len(shards):
        raise BadPlan(f"job {job['name']} has {len(shards)} shards, and no number {task}")
    return JobSpec(
        run=run["name"],
        plan=plan,
        name=job["name"],
        output_dir=Path(run["output_dir"]),
        log_dir=Path(run["log_dir"]),
        submission=run["submission"],
        executor=run["executor"],
        runtime=run["runtime"],
        python=run["python"],
        code_version=run["code_version"],
        components=tuple(_component(held) for held in job["components"]),
        groups=len(job["allocations"]),
        shard=_shard(run, shards[task]) if shards else None,
        task=task if job["array"] else None,
        signal_s=float(job["signal_s"]),
        requeue=bool(job["requeue"]),
        rerun_done=bool(run["rerun_done"]),
        secrets=tuple(run["secrets"]),
        srun_options=tuple(run["srun_options"]),
        dependants=_dependants(run, job["name"]),
    )


def _dependants(run: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Jobs that wait for that one to go well, those that wait for these included."""
    waiting = [name]
    for job in run["jobs"]:  # each comes after those it depends on
        if any(a["kind"] == "afterok" and a["job"] in waiting for a in job["after"]):
            waiting.append(job["name"])
    return tuple(waiting[1:])


def _shard(run: Mapping[str, Any], name: str) -> ShardSpec:
    held = next(shard for shard in run["shards"] if shard["name"] == name)
    return ShardSpec(name, held["server_seed"], held["rows"], held["first_task"], held["last_task"])


def _component(held: Mapping[str, Any]) -> ComponentSpec:
    ports = held["port_range"]
    probe = held["probe"]
    return ComponentSpec(
        name=held["name"],
        role=held["role"],
        argv=tuple(held["argv"]),
        worker_argv=tuple(held["worker_argv"]),
        container=held["container"],
        nodes=held["nodes"],
        tasks=held["tasks"],
        cpus=held["cpus"],
        gpus=held["gpus"],
        mem_mib=held["mem_mib"],
        env=dict(held["env"]),
        inherit=tuple(held["inherit"]),
        mounts=tuple(
            MountSpec(m["source"], m["target"], tuple(m["flags"])) for m in held["mounts"]
        ),
        workdir=held["workdir"],
        action=held["on_exit"]["action"],
        restarts=held["on_exit"]["restarts"],
        probe=ProbeSpec(**probe) if probe else None,
        port_range=(ports[0], ports[1]) if ports else None,
        group=held["group"],
        setup=SetupSpec(**held["setup"]),
    )

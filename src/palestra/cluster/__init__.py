"""Rollouts over many jobs of a cluster: plan, render and submit jobs, run them, record the outcome.

    options.py      the checks of a user's options
    configs.py      cluster config files: executor, containers, mounts, partitions
    overrides.py    overrides that stand for an option; overrides of each stage
    planner.py      options and a cluster -> a `Run`: pure, no Slurm
    commands.py     a user's own command as a `Run` of one job
    nemo_skills/    the names under which the field's scripts import this
    plan.py         the `Run` itself, frozen and serialisable: what the code inside a job reads
    layout.py       the name of every file in a run's output folder
    records.py      JSON objects in files, JSON lines, the last lines of logs
    growth.py       more seeds for a run; runs of one plan as one
    login_node.py   commands and files by ssh, for who submits from a laptop
    uploads.py      what such a submission takes along
    shard.py        a shard's rows and its done file
    lease.py        one writer for each shard
    ports.py        free ports of a node
    render.py       a `Run` -> batch scripts
    writing.py      writes a submission's folder, one command at a time, its plan last
    executors/      batch scripts -> jobs: submit, status, cancel, logs
    supervisor/     the program that runs on a batch node
    ledger.py       what was submitted, and how it ended
    units.py, following.py, resubmit.py
                    the status of a run, and submitting parts of it again
    completeness.py whether a merge may begin, and which rollouts a partial merge lacks

The batch script starts one supervisor, which uses only the standard library and reads `plan.json`.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from palestra.cluster import ledger
from palestra.cluster.commands import run_cmd
from palestra.cluster.completeness import check_shards, write_completeness
from palestra.cluster.configs import ClusterConfig, SshSettings, find_cluster
from palestra.cluster.executors import Executor, executor_for
from palestra.cluster.executors.here import to_stderr
from palestra.cluster.following import (
    RunStatus,
    Standing,
    UnitStatus,
    active_units,
    status_of,
    with_gpu_hours,
)
from palestra.cluster.growth import JoinedRuns, join_runs
from palestra.cluster.layout import JobFiles, RunFiles
from palestra.cluster.lease import CHECK_S, LeaseWatch
from palestra.cluster.ledger import KnownRun, known_run, remember
from palestra.cluster.login_node import LoginNode
from palestra.cluster.options import check_run_name, inherited_variables
from palestra.cluster.overrides import collect_settings
from palestra.cluster.packaging import How, is_checkout, uncommitted
from palestra.cluster.plan import Policy, Role, Run, Shard, read_plan, seconds_of
from palestra.cluster.ports import PortLocks, address_here, answered
from palestra.cluster.records import read_object, tail
from palestra.cluster.resubmit import resubmit
from palestra.cluster.shard import ShardCounter
from palestra.cluster.stamping import remember_stamped, stamp, with_stamped
from palestra.cluster.submit import rollouts
from palestra.cluster.submitter import Submission
from palestra.cluster.units import folder_of, read_run
from palestra.cluster.uploads import CLUSTER_FILE, CODE, pack, send, version_there
from palestra.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Arguments:
    """Overrides as they would stand on a command line after the flags."""

    args: tuple[str, ...]
    text: str = ""
    """The text before it was split."""


def wrap_arguments(text: str) -> Arguments:
    """Split `text` (`+key=value ++other.key=value …`, quoted as in a shell) for the parameter
    `ctx`.

    Raises ConfigError: a quote is not closed.
    """
    try:
        return Arguments(tuple(shlex.split(text)), text)
    except ValueError as error:
        raise ConfigError(f"wrap_arguments: {error}") from None  # the text may hold a key


def nemo_gym_rollouts(ctx: Arguments | None = None, **options: Any) -> Submission:
    """Call `rollouts` with the signature of the field's function: `ctx` holds the overrides.

    Prints notices to stderr.
    """
    extra: Sequence[str] = ctx.args if ctx is not None else ()
    return rollouts(extra=extra, report=to_stderr, **options)


__all__ = [
    "CHECK_S",
    "CLUSTER_FILE",
    "CODE",
    "Arguments",
    "ClusterConfig",
    "Executor",
    "How",
    "JobFiles",
    "JoinedRuns",
    "KnownRun",
    "LeaseWatch",
    "LoginNode",
    "Policy",
    "PortLocks",
    "Role",
    "Run",
    "RunFiles",
    "RunStatus",
    "Shard",
    "ShardCounter",
    "SshSettings",
    "Standing",
    "Submission",
    "UnitStatus",
    "active_units",
    "address_here",
    "answered",
    "check_run_name",
    "check_shards",
    "collect_settings",
    "executor_for",
    "find_cluster",
    "folder_of",
    "inherited_variables",
    "is_checkout",
    "join_runs",
    "known_run",
    "ledger",
    "nemo_gym_rollouts",
    "pack",
    "read_object",
    "read_plan",
    "read_run",
    "remember",
    "remember_stamped",
    "resubmit",
    "rollouts",
    "run_cmd",
    "seconds_of",
    "send",
    "stamp",
    "status_of",
    "tail",
    "uncommitted",
    "version_there",
    "with_gpu_hours",
    "with_stamped",
    "wrap_arguments",
    "write_completeness",
]

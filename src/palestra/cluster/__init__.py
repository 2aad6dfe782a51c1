"""Rollouts over many jobs of a cluster: plan, render, submit; what runs inside a job; the ledger.

    options.py      what a user asks for, checked
    configs.py      cluster config files: executor, containers, mounts, partitions
    filling.py      overrides that name what an option decides
    planner.py      options and a cluster -> a `Run`: pure, no Slurm
    commands.py     a user's own command as a `Run` of one job
    nemo_skills/    the names under which the field's scripts import this
    plan.py         the `Run` itself, frozen and serialisable: the contract with what runs in a job
    layout.py       the name of every file in a run's output folder
    records.py      objects in files, lines of JSON, ends of logs
    shard.py, lease.py, ports.py
                    a shard's rows and its done file; one writer for each; free ports of a node
    render.py       a `Run` -> batch scripts
    executors/      batch scripts -> jobs: submit, status, cancel, logs
    supervisor/     what runs on a batch node
    alone.py        one submission at a time, its plan whole or absent
    ledger.py       what was submitted, and how it ended
    units.py, following.py, resubmit.py
                    what has become of a run, and what is submitted again
    completeness.py what a merge may begin with, and what a partial one lacks

The batch script starts one supervisor, of the standard library only, which reads `plan.json`.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from palestra.cluster.commands import run_cmd
from palestra.cluster.executors.here import to_stderr
from palestra.cluster.submit import rollouts
from palestra.cluster.submitter import Submission
from palestra.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Arguments:
    """Overrides as a command line has them after its flags."""

    args: tuple[str, ...]
    text: str = ""
    """As it was given."""


def wrap_arguments(text: str) -> Arguments:
    """`+key=value ++other.key=value …` for `nemo_gym_rollouts(ctx=…)`, quoted as in a shell.

    Raises ConfigError for a quote that is not closed.
    """
    try:
        return Arguments(tuple(shlex.split(text)), text)
    except ValueError as error:
        raise ConfigError(f"wrap_arguments: {error}") from None  # the text may hold a key


def nemo_gym_rollouts(ctx: Arguments | None = None, **options: Any) -> Submission:
    """`rollouts`, as its users of today call it: overrides come wrapped in `ctx`.

    What is worth knowing goes to stderr.
    """
    extra: Sequence[str] = ctx.args if ctx is not None else ()
    return rollouts(extra=extra, tell=to_stderr, **options)


__all__ = [
    "Arguments",
    "Submission",
    "nemo_gym_rollouts",
    "rollouts",
    "run_cmd",
    "wrap_arguments",
]

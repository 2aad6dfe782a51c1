"""Turn a plan into batch scripts: sbatch directives, and one line that starts the supervisor.

All values are quoted. Directives are read by sbatch, not by a shell, and sbatch uses double quotes.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from palestra.cluster.configs import ClusterConfig
from palestra.cluster.layout import RunFiles
from palestra.cluster.plan import After, Allocation, PlannedJob, Run
from palestra.config import did_you_mean
from palestra.errors import ConfigError
from palestra.settings import JobOptions

_PLAIN: Final = re.compile(r"[\w./:,=@%+*~\[\]-]+")
_KEY: Final = re.compile(r"[a-z][a-z0-9-]*")
OWNED: Final = frozenset(
    {
        "job-name",
        "output",
        "error",
        "open-mode",
        "array",
        "dependency",
        "kill-on-invalid-dep",
        "nodes",
        "ntasks-per-node",
        "ntasks",
        "cpus-per-task",
        "gres",
        "gpus-per-node",
        "mem",
        "partition",
        "account",
        "qos",
        "time",
        "time-min",
        "exclusive",
        "signal",
        "requeue",
        "no-requeue",
        "wrap",
        "parsable",
        "wait",
        "hetjob",
    }
)
"""The directives that an option or the plan sets. Users cannot set them through `sbatch`."""
_MAIL_TYPES: Final = (
    *("NONE", "ALL", "BEGIN", "END", "FAIL", "REQUEUE", "INVALID_DEPEND", "STAGE_OUT"),
    *("TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS"),
)
_INSTEAD: Final = {
    "job-name": "--expname",
    "output": "--log-dir",
    "error": "--log-dir",
    "array": "--array-cap",
    "dependency": "--run-after",
    "nodes": "--server-nodes",
    "cpus-per-task": "`cpus` in the cluster's file",
    "gres": "--server-gpus",
    "gpus-per-node": "--server-gpus",
    "mem": "`mem_mib` in the cluster's file",
    **{
        name: f"--{name}"
        for name in ("partition", "account", "qos", "time", "time-min", "exclusive")
    },
    "signal": "`signal_s` in the cluster's file",
    "requeue": "`requeue` in the cluster's file",
    "no-requeue": "`requeue` in the cluster's file",
}
"""What sets a directive of `OWNED` instead, where users may set it."""


def script(run: Run, job: PlannedJob, options: JobOptions, cluster: ClusterConfig) -> str:
    """Return the batch script of one job. Raises ConfigError: a directive cannot be written."""
    files = RunFiles(Path(run.output_dir)).submission(run.submission)
    lines = ["#!/bin/bash", *_directives(run, job, options, cluster), ""]
    command = (run.python, str(files.supervisor), str(files.plan), job.name)
    return "\n".join([*lines, f"exec {shlex.join(command)}", ""])


def submit_script(run: Run) -> str:
    """Return the script that submits every job, with its dependencies, when a user runs it by hand."""
    files = RunFiles(Path(run.output_dir)).submission(run.submission)
    lines = ["#!/bin/bash", "set -euo pipefail", ""]
    for number, job in enumerate(run.jobs):
        depends = _dependency_by_hand(run, job)
        words = ["sbatch", "--parsable", *depends, shlex.quote(str(files.script(job.name)))]
        lines.append(f"job_{number}=$({' '.join(words)})")
        # With several clusters, sbatch appends which one.
        lines.append(f'job_{number}="${{job_{number}%%;*}}"')
        lines.append(_recorded_by_hand(run, job, f'"$job_{number}"'))
        lines.append(f'echo {shlex.quote(job.name)}" $job_{number}"')
    return "\n".join([*lines, ""])


def _recorded_by_hand(run: Run, job: PlannedJob, job_id: str) -> str:
    """Return the command that records a job in the ledger. `job_id`: an expression of bash."""
    event = {"event": "submitted", "submission": run.submission, "job": job.name}
    fields = json.dumps({**event, "shards": list(job.shards)})[1:-1]
    time_and_id = f"""'{{"time":'"$(date +%s)"',"job_id":"'{job_id}"""
    line = time_and_id + shlex.quote(f'",{fields}}}')
    ledger = RunFiles(Path(run.output_dir)).ledger
    return f"printf '%s\\n' {line} >> {shlex.quote(str(ledger))}"


def _dependency_by_hand(run: Run, job: PlannedJob) -> list[str]:
    number = {earlier.name: at for at, earlier in enumerate(run.jobs)}
    parts = [
        _depends_on(a.kind, f"${{job_{number[a.job]}}}" if a.job else shlex.quote(a.job_id))
        for a in job.after
    ]
    return [f'--dependency="{",".join(parts)}"'] if parts else []


def dependency(after: Sequence[After], ids: Mapping[str, str]) -> str:
    """Return the value of `--dependency`; empty without dependencies. `ids`: job name -> job id."""
    return ",".join(_depends_on(a.kind, ids[a.job] if a.job else a.job_id) for a in after)


def _depends_on(kind: str, job_id: str) -> str:
    # `aftercorr` alone would leave the followers of a task that failed waiting for ever.
    also = f"?afterany:{job_id}" if kind == "aftercorr" else ""
    return f"{kind}:{job_id}{also}"


def _directives(
    run: Run, job: PlannedJob, options: JobOptions, cluster: ClusterConfig
) -> Iterator[str]:
    for key, value in _whole_job(run, job, options, cluster).items():
        yield directive(key, value)
    for group, allocation in enumerate(job.allocations):
        if group:
            yield "#SBATCH hetjob"
        for key, value in _allocation(allocation, options, cluster).items():
            if not (key == "exclusive" and job.closing) and not _is_mail(key):
                yield directive(key, value)
    if job is run.jobs[-1]:
        for key, value in _mail(options, cluster).items():
            yield directive(key, value)


def _whole_job(
    run: Run, job: PlannedJob, options: JobOptions, cluster: ClusterConfig
) -> dict[str, str]:
    if "\\" in run.log_dir and run.executor == "slurm":
        raise ConfigError(
            f"--log-dir {run.log_dir}: Slurm gives a backslash in the name of a log a special "
            "meaning",
            hint="choose a folder without a backslash in its path",
        )
    number = "%A_%a" if job.array else "%j"
    directives = {
        "job-name": f"{run.name}-{job.name}",
        "output": f"{run.log_dir.replace('%', '%%')}/{job.name}_batch_{number}.log",
        # A requeued job goes on in the same file.
        "open-mode": "append",
        "kill-on-invalid-dep": "yes",
        "signal": f"B:USR1@{job.warning_s}",
        ("requeue" if job.requeue else "no-requeue"): "",
    }
    if job.array:
        cap = f"%{job.array_cap}" if job.array_cap else ""
        directives["array"] = f"0-{len(job.shards) - 1}{cap}"
    if job.time_limit:
        directives["time"] = job.time_limit
    shortest = options.time_min or cluster.time_min
    if shortest and not job.closing:
        directives["time-min"] = shortest
    return directives


def _allocation(
    allocation: Allocation, options: JobOptions, cluster: ClusterConfig
) -> dict[str, str]:
    exclusive = cluster.exclusive if options.exclusive is None else options.exclusive
    directives = {
        "partition": allocation.partition or "",
        "account": options.account or cluster.account or "",
        "qos": options.qos or cluster.qos or "",
        "nodes": str(allocation.nodes),
        "ntasks-per-node": str(allocation.tasks_per_node),
        "cpus-per-task": str(allocation.cpus_per_task),
        "mem": f"{allocation.mem_mib}M" if allocation.mem_mib else "",
    }
    gpus = allocation.gpus_per_node
    if gpus and cluster.gpu_directive == "gres":
        directives["gres"] = f"gpu:{gpus}"
    elif gpus:
        directives["gpus-per-node"] = str(gpus)
    directives = {key: value for key, value in directives.items() if value}
    if exclusive:
        directives["exclusive"] = ""
    return {
        **directives,
        **_own_variables(cluster.sbatch, "sbatch"),
        **_own_variables(options.sbatch_settings, "--sbatch"),
    }


def _is_mail(key: str) -> bool:
    return key.startswith("mail-")


def _mail(options: JobOptions, cluster: ClusterConfig) -> dict[str, str]:
    """Return the mail directives, which only the last job of a run has: one mail for each event.

    The last job never begins when an earlier one failed, so its mail covers that event too.
    """
    directives = {**cluster.sbatch, **options.sbatch_settings}
    mail = {key: value for key, value in directives.items() if _is_mail(key)}
    types = [part for part in mail.get("mail-type", "").split(",") if part]
    if not types and "mail-user" in options.sbatch_settings:
        raise ConfigError(
            "--sbatch mail-user without mail-type: Slurm would send no mail",
            hint="add --sbatch mail-type=END,FAIL",
        )
    for part in types:
        if part.upper() not in _MAIL_TYPES:  # Slurm ignores it where another one is right
            raise ConfigError(
                f"--sbatch: {part!r} is not a type of mail{did_you_mean(part.upper(), _MAIL_TYPES)}",
                hint=f"mail-type is a list of {', '.join(_MAIL_TYPES)}",
            )
    if types and not {"NONE", "ALL", "INVALID_DEPEND"} & {part.upper() for part in types}:
        mail["mail-type"] = ",".join([*types, "INVALID_DEPEND"])
    return mail


def _own_variables(variables: Mapping[str, str], where: str) -> Mapping[str, str]:
    for key in variables:
        if not _KEY.fullmatch(key):
            raise ConfigError(f"{where}: {key!r} is not an option of sbatch", hint="KEY=VALUE")
        if key in OWNED:
            raise ConfigError(
                f"{where}: {key} is set by Palestra and cannot be changed here",
                hint=f"set it by {_INSTEAD[key]}" if key in _INSTEAD else "",
            )
    return variables


def directive(key: str, value: str) -> str:
    """Return one `#SBATCH` line. Raises ConfigError: the value contains a line break or the like."""
    if not value:
        return f"#SBATCH --{key}"
    if not value.isprintable():
        raise ConfigError(
            f"--{key}: {value!r} has a character that cannot be printed, such as a line break"
        )
    if _PLAIN.fullmatch(value):
        return f"#SBATCH --{key}={value}"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'#SBATCH --{key}="{escaped}"'

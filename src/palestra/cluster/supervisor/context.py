"""The data that all parts of the supervisor share: the job, where it runs, its files."""

from __future__ import annotations

import hashlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from palestra.cluster.layout import JobFiles, RunFiles, log_name
from palestra.cluster.plan import Component
from palestra.cluster.ports import NoFreePort, PortLocks, address_here
from palestra.cluster.records import append_line
from palestra.cluster.supervisor import processes, slurm, steps
from palestra.cluster.supervisor.steps import JobTask
from palestra.system import run, start

PORT = "--port"
PORT_S = 60.0


@dataclass
class Context:
    """One start of one job. `env`: the job's environment variables."""

    task: JobTask
    env: Mapping[str, str]
    ports: PortLocks
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))
    nodes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """The nodes of each allocation; empty without Slurm."""
    lease: tuple[Path, int] | None = None
    """The lease file of this start, and the lease's number."""

    @property
    def slurm_id(self) -> str:
        """The job's id in Slurm, for a task of an array `ARRAYID_TASK`; empty without Slurm.

        The last task of an array has the array's own SLURM_JOB_ID, so that number stands for the
        whole array wherever Slurm reads it.
        """
        if self.task.run.executor != steps.SLURM:
            return ""
        array = self.env.get("SLURM_ARRAY_JOB_ID")
        if array:
            return f"{array}_{self.env.get('SLURM_ARRAY_TASK_ID', '0')}"
        return self.env.get("SLURM_JOB_ID", "")

    @property
    def job_id(self) -> str:
        """The job's id as users see it: Slurm's id or a local one."""
        return self.slurm_id or self.env.get("PALESTRA_JOB_ID") or str(os.getpid())

    @property
    def restart(self) -> int:
        """The number of earlier starts of this job by Slurm."""
        return int(self.env.get("SLURM_RESTART_COUNT") or 0) if self.slurm_id else 0

    @property
    def run(self) -> RunFiles:
        return RunFiles(self.task.output_dir)

    @property
    def files(self) -> JobFiles:
        return self.run.submission(self.task.run.submission).job(
            self.task.job.name, self.task.array_index
        )

    @property
    def drain_file(self) -> Path:
        """The file that, once it exists, makes the main step start no more rollouts."""
        return self.files.folder / "drain"

    @property
    def single_node(self) -> bool:
        """Whether all components run on this node."""
        return len({node for nodes in self.nodes.values() for node in nodes}) <= 1

    def say(self, text: str) -> None:
        """Print a line to the supervisor's own log."""
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: T201  # its log

    def record(self, event: str, **fields: object) -> None:
        """Append an event to the run's ledger. An error is only logged, so that it does not end the
        job.
        """
        task = self.task
        record = {
            "event": event,
            "time": time.time(),
            "submission": task.run.submission,
            "job": task.job.name,
            "task": task.array_index,
            "shard": task.shard.name if task.shard else None,
            "job_id": self.job_id,
            "restart": self.restart,
            **fields,
        }
        try:
            append_line(self.run.ledger, record)
        except OSError as error:
            self.say(f"cannot write to the ledger: {error}")

    def environment(self, component: Component, step_place: steps.StepPlace) -> dict[str, str]:
        """Return the environment variables of a component."""
        ours = {
            "PALESTRA_JOB_ID": self.job_id,
            "PALESTRA_RESTART": str(self.restart),
            "PALESTRA_JOB_NAME": self.task.job.name,
            "PALESTRA_JOB_DIR": str(self.files.folder),
            "PALESTRA_NONCE": self.nonce,
        }
        if component.is_main:
            ours["PALESTRA_DRAIN_FILE"] = str(self.drain_file)
            ours["PALESTRA_INSTALL"] = self._installation(component)
            if self.lease is not None:
                path, number = self.lease
                ours.update(PALESTRA_LEASE=str(path), PALESTRA_LEASE_NUMBER=str(number))
        # Logs are files: wide, and without colours.
        terminal = {"COLUMNS": "160", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
        return {**terminal, **steps.env_of(self.task, component, step_place, self.env), **ours}

    def _installation(self, component: Component) -> str:
        """Return an id of the place where packages are installed, so that each place installs them
        once.

        Without a container: this node, for all jobs of a submission. In a container: this start of
        this job.
        """
        if component.container and self.task.run.runtime != "none":
            return f"{self.job_id}-{self.restart}"
        folder = str(self.run.submission(self.task.run.submission).folder)
        return hashlib.sha256(folder.encode()).hexdigest()[:16]

    def start(
        self, component: Component, step_place: steps.StepPlace, started: int
    ) -> tuple[subprocess.Popen[bytes], Path]:
        """Start a component. Return its process and log file. `started`: how often it was started
        before.
        """
        env = self.environment(component, step_place)
        variable_names = [
            *component.env,
            *component.inherit,
            *(n for n in env if n.startswith("PALESTRA_")),
        ]
        minder = processes.step_minder(self.task.run.python, service=not component.is_main)
        argv = steps.argv_of(self.task, component, step_place, variable_names, minder)
        if self.task.run.executor != steps.SLURM:
            inside = component.container and self.task.run.runtime != "none"
            argv = processes.minded(argv, None if inside else component.workdir)
        log, path = processes.open_log(
            self.task.log_dir, self._log_names(component.name, self.restart + started)
        )
        with log:
            return self._started(argv, log, env), path

    def _started(
        self, argv: list[str], log: IO[bytes], env: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        return start(argv, stdout=log, stderr=subprocess.STDOUT, env=env)

    def _log_names(self, component: str, first: int) -> Iterator[str]:
        number = first
        while True:
            yield log_name(self.job_id, self.task.unit, component, number)
            number += 1

    def nodes_for(self, component: Component) -> tuple[str, ...]:
        """Return the nodes that a component runs on: the first of its allocation; empty without
        Slurm.
        """
        return self.nodes.get(component.group, ())[: component.nodes]

    def port_on(self, node: str, component: Component) -> tuple[int, str]:
        """Return a free port of a node, and the node's address. Raises NoFreePort.

        `node`: empty for this node.
        """
        if node in {"", self.env.get("SLURMD_NODENAME", "")}:
            own_address = "127.0.0.1" if self.single_node else address_here()
            return self.ports.choose(component.port_range), own_address
        low, high = component.port_range or (0, 0)
        command = ["srun", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={node}"]
        if self.task.groups > 1:
            command.append(f"--het-group={component.group}")
        command += [self.task.run.python, sys.argv[0], PORT, str(low), str(high)]
        try:
            process = run(command, timeout_s=PORT_S)
            port, address = process.text.split()
            return int(port), address
        except OSError as error:
            raise NoFreePort(f"cannot find a free port on {node}: {error}") from error
        except ValueError:
            complaint = process.complaint or process.text
            raise NoFreePort(f"cannot find a free port on {node}: {complaint}") from None

    def tokens(self, rank: int, head: str, port: int, head_port: int = 0) -> dict[str, str]:
        """Return the values of the tokens in a component's texts, for the node of rank `rank`."""
        shard = self.task.shard
        return {
            "{port}": str(port),
            "{host}": "127.0.0.1" if self.single_node else "0.0.0.0",  # noqa: S104  # other nodes call
            "{nonce}": self.nonce,
            "{server_seed}": str(shard.server_seed if shard else 0),
            "{node_rank}": str(rank),
            "{head_host}": head,
            "{head_port}": str(head_port),
            "{supervisor}": str(self.run.submission(self.task.run.submission).supervisor),
            "{plan}": str(self.task.plan),
            "{job}": self.task.job.name,
            "{shard}": shard.name if shard else "",
        }


def nodes_of(task: JobTask, env: Mapping[str, str]) -> dict[int, tuple[str, ...]]:
    """Return the nodes of each allocation; empty without Slurm. Raises slurm.SlurmUnreachable."""
    if task.run.executor != steps.SLURM:
        return {}
    if task.groups == 1:
        return {0: slurm.hostnames(env["SLURM_JOB_NODELIST"])}
    return {
        group: slurm.hostnames(env[f"SLURM_JOB_NODELIST_HET_GROUP_{group}"])
        for group in range(task.groups)
    }

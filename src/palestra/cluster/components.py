"""Build the components of jobs and compute the resources that they need. Pure: no files, no Slurm."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from palestra.cluster.configs import ClusterConfig
from palestra.cluster.places import merged, parse_mounts, same_place
from palestra.cluster.plan import (
    CLOSING_ROLES,
    After,
    Allocation,
    Component,
    Mount,
    OnExit,
    Probe,
    Role,
    Setup,
    Shard,
)
from palestra.cluster.servers import server_command
from palestra.errors import ConfigError
from palestra.settings import ModelServer, RolloutOptions

SERVER: Final = "server"
SANDBOX: Final = "sandbox"
DRIVER: Final = "driver"
RAY: Final = "ray"
MERGE: Final = "merge"
"""The part of a cluster's configuration that holds for the jobs that prepare, merge and profile."""
CLOSING_CPUS: Final = 2
SHARED_WITH_RAY: Final = ("/tmp", "/dev/shm")  # noqa: S108 - where Ray's processes of a node meet
SLURM_ARRAY_SIZE: Final = 1001
"""Slurm's default for MaxArraySize: the largest number of tasks of one array."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The inputs of a plan besides the options. Paths are those of the cluster, outside containers.

    `wanted`: the shards to run in this submission; `shards`: all shards of the run.
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
    """The folder of the packaged code; it comes first on PYTHONPATH."""
    mounts: tuple[Mount, ...] = ()
    """The mounts that containers need for paths in the options."""
    after: tuple[After, ...] = ()
    complete: bool = True
    """Whether all shards are done once the `wanted` ones are. Only then is a merge planned."""
    max_array_size: int = SLURM_ARRAY_SIZE
    code_version: str = ""
    identity: dict[str, str] = field(default_factory=dict)
    input_digest: str = ""
    tasks: int | None = None
    rollouts: int | None = None
    materialized: bool = True


def allocations(
    components: Sequence[Component], partitions: Sequence[str | None]
) -> tuple[Allocation, ...]:
    """Return what each group of a job needs: the maximum over its components (memory: the sum).

    `partitions`: the partition of each group.
    """
    requested = []
    for group, partition in enumerate(partitions):
        members = [component for component in components if component.group == group]
        nodes = max(component.nodes for component in members)
        tasks = max(-(-component.tasks // component.nodes) for component in members)
        cpus = max(-(-component.tasks // component.nodes) * component.cpus for component in members)
        memory = [component.mem_mib for component in members if component.mem_mib is not None]
        requested.append(
            Allocation(
                nodes=nodes,
                tasks_per_node=tasks,
                cpus_per_task=-(-cpus // tasks),
                gpus_per_node=max(component.gpus for component in members),
                # They run side by side, and unlike cores memory is not shared by taking turns.
                mem_mib=sum(memory) if memory else None,
                partition=partition,
            )
        )
    return tuple(requested)


def server_name(model: str) -> str:
    """Return the name of the component that serves a model besides the policy."""
    return f"{SERVER}-{model}"


def _with_devices(components: Sequence[Component]) -> Iterator[Component]:
    """Yield the components of a job, with GPUs of its own for each that needs some.

    Where two programs of a group need GPUs, each step is given all of them, because the steps of a
    job overlap, and sees only its own.
    """
    first_free: Counter[int] = Counter()
    total: Counter[int] = Counter()
    for component in components:
        total[component.group] += component.gpus
    for component in components:
        first, in_group = first_free[component.group], total[component.group]
        first_free[component.group] += component.gpus
        if not component.gpus or component.gpus == in_group:
            yield component
            continue
        devices = tuple(range(first, first + component.gpus))
        restricted = ("env", f"CUDA_VISIBLE_DEVICES={','.join(map(str, devices))}")
        yield replace(
            component,
            gpus=in_group,
            devices=devices,
            argv=(*restricted, *component.argv),
            worker_argv=(*restricted, *component.worker_argv) if component.worker_argv else (),
        )


class Parts:
    """Builds the components of jobs."""

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
        """Return the components of a collecting job: services first, then the driver, with their
        groups.
        """
        parts = []
        if self._options.self_hosted:
            parts.append(self._server(SERVER, self._options.policy_server))
        for name, server in self._options.further_servers.items():
            parts.append(self._server(server_name(name), server))
        if self._options.with_sandbox:
            parts.append(self._sandbox())
        if self._options.ray_nodes:
            parts.append(self._ray())
        parts.append(self._main(DRIVER, Role.DRIVER, ("drive", "{plan}", "{shard}"), cpus=DRIVER))
        grouped = [replace(part, group=self._group(part, parts)) for part in parts]
        return tuple(_with_devices(grouped))

    def partitions(self, components: Sequence[Component]) -> tuple[str | None, ...]:
        """Return the partition of each group of components that share one, in the order of the
        groups.
        """
        by_group = {part.group: self._partition(part) for part in components}
        return tuple(by_group[group] for group in sorted(by_group))

    def closing(self, role: Role, command: str) -> Component:
        """Return the component that is alone in its job, such as the merge or the profile."""
        return self._main(role.value, role, (command, "{plan}"), cpus=MERGE)

    def _partition(self, part: Component) -> str | None:
        """Return the partition of a component. A Ray cluster is in the driver's partition."""
        options, partitions = self._options, self._cluster.partitions
        if part.role in CLOSING_ROLES:
            own_partition = options.merge_partition or partitions.get(MERGE)
            if own_partition:
                return own_partition
        kind = part.role.value if part.role in {Role.SERVER, Role.SANDBOX} else DRIVER
        return options.partition or partitions.get(kind) or self._cluster.partition

    def _group(self, part: Component, components: Sequence[Component]) -> int:
        """Return the group of a component: one per partition. Several groups make a heterogeneous
        job.

        The driver's partition is group 0, because the supervisor runs on the first node of group 0.
        The others are sorted, so the order of components makes no difference.
        """
        driver = next(component for component in components if component.role is Role.DRIVER)
        driver_partition = self._partition(driver)
        others = {self._partition(component) for component in components} - {driver_partition}
        ordered = [driver_partition, *sorted(others, key=str)]
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

    def _server(self, name: str, server: ModelServer) -> Component:
        cluster = self._cluster
        command = server_command(server, python=self._python())
        kind = "gym" if server.type == "llama_cpp" else server.type
        return Component(
            name=name,
            role=Role.SERVER,
            argv=command.argv,
            worker_argv=command.worker_argv,
            container=self._container(server.container, kind, "--server-type"),
            nodes=server.nodes,
            tasks=server.nodes,
            cpus=cluster.cpus.get(SERVER, 1),
            gpus=server.gpus,
            mem_mib=cluster.mem_mib.get(SERVER),
            env={**cluster.env, **self._pythonpath(), **command.env},
            inherit=cluster.inherit_env,
            mounts=self._mounts,
            workdir=self._facts.workdir,
            on_exit=cluster.on_exit.get("server", OnExit()),
            probe=self._probe("/v1/models", server.requested_name),
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

    def _ray(self) -> Component:
        """Return the Ray component. Its first node is the driver's node: a process that uses Ray
        needs a Ray node on its own machine.
        """
        cluster, nodes = self._cluster, self._options.ray_nodes
        cores = cluster.cpus.get(RAY, 1)
        program = (*self._palestra(), "cluster", "ray-node", "--cpus", str(cores))
        head = ("--nodes", str(nodes), "--host", "{host}", "--port", "{port}")
        return Component(
            name=RAY,
            role=Role.RAY,
            argv=(*program, "--ray-port", "{head_port}", *head),
            worker_argv=(*program, "--join", "{head_host}:{head_port}") if nodes > 1 else (),
            container=self._container(self._options.gym_container, "gym", "--ray-nodes"),
            nodes=nodes,
            tasks=nodes,
            cpus=cores,
            mem_mib=cluster.mem_mib.get(RAY),
            env={
                **cluster.env,
                **self._pythonpath(),
                "RAY_AUTH_MODE": "token",
                "RAY_AUTH_TOKEN": "{nonce}",
                "RAY_USAGE_STATS_ENABLED": "0",
                # When it is ended nothing is left to wait for.
                "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
            },
            inherit=cluster.inherit_env,
            mounts=self._mounts_with_ray(),
            workdir=self._facts.workdir,
            on_exit=cluster.on_exit.get("ray", OnExit()),
            probe=self._probe("/"),
            port_range=cluster.port_range,
        )

    def _mounts_with_ray(self) -> tuple[Mount, ...]:
        return merged(tuple(map(same_place, SHARED_WITH_RAY)), self._mounts)

    def _main(self, name: str, role: Role, command: tuple[str, ...], *, cpus: str) -> Component:
        options, cluster = self._options, self._cluster
        collecting = role is Role.DRIVER
        return Component(
            name=name,
            role=role,
            argv=(*self._palestra(), "cluster", *command),
            container=self._container(options.gym_container, "gym", "the main step"),
            cpus=cluster.cpus.get(cpus, CLOSING_CPUS if cpus == MERGE else 1),
            mem_mib=cluster.mem_mib.get(cpus),
            env={**cluster.env, **self._pythonpath()},
            inherit=self.secrets if collecting else cluster.inherit_env,
            mounts=self._mounts_with_ray() if collecting and options.ray_nodes else self._mounts,
            workdir=self._facts.workdir,
            setup=Setup(
                install=self._install(),
                before=options.preprocess_cmd if collecting else "",
                after=options.postprocess_cmd if collecting else "",
            ),
        )

    def _install(self) -> str:
        """Return the installation command; empty unless the user asked for an installation."""
        path = self._options.gym_path
        commands = [self._options.installation_command]
        if path:
            commands.append(f"{shlex.quote(self._python())} -m pip install -e {shlex.quote(path)}")
        return " && ".join(command for command in commands if command)

    def _container(self, container: str | None, kind: str, wanted_by: str) -> str | None:
        if container is not None:
            if self._cluster.runtime == "none":
                raise ConfigError(
                    f"container {container!r}: this cluster runs no containers",
                    hint="set `runtime` in its config: pyxis, apptainer, singularity, podman or enroot",
                )
            return container
        return self._cluster.container(kind, wanted_by)

    def _python(self) -> str:
        inside = "python3" if self._cluster.runtime != "none" else self._facts.python
        return self._cluster.gym_python or inside

    def _palestra(self) -> tuple[str, ...]:
        return (self._python(), "-m", "palestra")

    def _pythonpath(self) -> dict[str, str]:
        code = self._facts.code
        own_path = self._cluster.env.get("PYTHONPATH", "")
        return {"PYTHONPATH": f"{code}:{own_path}".rstrip(":")} if code else {}

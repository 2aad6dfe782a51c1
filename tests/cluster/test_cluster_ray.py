"""A Ray cluster in each job: planned, told to the driver, and really started."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from planning import HOSTED, PYXIS, cluster, options, planned
from slurm_site import wait_until

from palestra.cli.clustering.main_steps import _ray_settings
from palestra.cli.clustering.ray_node import address_of_cluster
from palestra.cluster.layout import JobFiles
from palestra.cluster.plan import Component, Role
from palestra.cluster.ports import address_here
from palestra.cluster.supervisor.steps import replaced
from palestra.errors import ConfigError, RunFailed

KEY = "0123456789abcdef0123456789abcdef"
NODES = 2
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


def ray_of(**given: object) -> Component:
    run = planned(options(ray_nodes=NODES), cluster(cpus={"ray": 1}, **given))
    return next(part for part in run.jobs[0].components if part.role is Role.RAY)


def test_a_ray_cluster_begins_on_the_node_of_the_driver() -> None:
    on = cluster(partition="gpu", partitions={"driver": "cpu"}, cpus={"ray": 32})
    job = planned(options(**HOSTED, ray_nodes=3), on).jobs[0]

    groups = {part.name: part.group for part in job.components}
    assert groups == {"server": 1, "ray": 0, "driver": 0}
    assert (job.allocations[0].nodes, job.allocations[0].cpus_per_task) == (3, 32)
    assert job.allocations[0].partition == "cpu"


def test_no_job_has_a_ray_cluster_unless_it_is_asked_for() -> None:
    assert {part.name for part in planned().jobs[0].components} == {"driver"}


def test_the_key_of_a_ray_cluster_stands_in_none_of_its_arguments() -> None:
    part = ray_of()

    assert part.env["RAY_AUTH_TOKEN"] == "{nonce}"
    assert not any("nonce" in word for word in (*part.argv, *part.worker_argv))


def test_in_containers_the_driver_sees_what_the_processes_of_ray_share() -> None:
    job = planned(options(ray_nodes=1), cluster(**PYXIS)).jobs[0]

    for part in job.components:
        assert {"/tmp", "/dev/shm"} <= {mount.target for mount in part.mounts}, part.name


def test_several_nodes_are_not_to_be_had_on_one_machine() -> None:
    with pytest.raises(ConfigError, match="ray on 2 nodes: executor local has one"):
        planned(options(ray_nodes=2), cluster(executor="local"))


def test_a_driver_asks_the_cluster_of_its_own_job_for_the_address(tmp_path: Path) -> None:
    run = planned(options(ray_nodes=1))
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        gone = sock.getsockname()[1]
    told = {"host": "127.0.0.1", "port": gone, "nonce": KEY}
    JobFiles(tmp_path).endpoint("ray").write_text(json.dumps(told))
    environment = {"PALESTRA_JOB_NAME": "collect", "PALESTRA_NONCE": KEY}

    with pytest.raises(RunFailed, match=r"address of .* cannot be read"):
        _ray_settings(run, JobFiles(tmp_path), environment)

    assert _ray_settings(planned(), JobFiles(tmp_path), environment) == {}


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        return [sock.getsockname()[1] for sock in socks]


@contextlib.contextmanager
def started(argv: Sequence[str], tokens: dict[str, str], log: Path) -> Iterator[None]:
    """One node, as a job's script starts it; everything of it is ended."""
    env = {**os.environ, **ray_of().env, "RAY_AUTH_TOKEN": KEY}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [replaced(word, tokens) for word in argv],
            env=env,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


CALLS = """
import asyncio, sys
from palestra.sandbox import Returned, open_workers

async def main():
    workers = open_workers(ray_address=sys.argv[1])
    found = await asyncio.gather(*(workers.call("os:getppid", limit_s=30) for _ in range(2)))
    await workers.close()
    print(len({one.value for one in found if isinstance(one, Returned)}))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
@needs_ray
def test_nodes_that_a_job_starts_become_one_cluster_that_takes_calls(tmp_path: Path) -> None:
    before = [path.name for path in Path("/tmp").glob(f"ray-{os.getuid()}-*")]
    ray_port, port = free_ports(2)
    part = ray_of(python=sys.executable, gym_python=sys.executable)
    tokens = {"{head_host}": address_here(), "{head_port}": str(ray_port)}
    tokens |= {"{host}": "127.0.0.1", "{port}": str(port)}

    def address(key: str = KEY) -> str:
        with contextlib.suppress(RunFailed):
            return address_of_cluster("127.0.0.1", port, key)
        return ""

    with (
        started(part.worker_argv, tokens, tmp_path / "worker.log"),  # the later one may be first
        started(part.argv, tokens, tmp_path / "head.log"),
    ):
        wait_until(lambda: bool(address()), seconds=150)
        done = subprocess.run(
            [sys.executable, "-c", CALLS, address()],
            env={**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": KEY},
            capture_output=True,
            text=True,
            check=False,
            timeout=80,
        )
        assert done.stdout == f"{NODES}\n", done.stderr[-2000:]
        assert address(key="another job") == ""
    assert [path.name for path in Path("/tmp").glob(f"ray-{os.getuid()}-*")] == before
    assert KEY not in (tmp_path / "head.log").read_text() + (tmp_path / "worker.log").read_text()

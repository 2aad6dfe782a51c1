"""A Ray cluster of two nodes on this machine, and calls that are spread over it.

Run as a program, in a session of its own, so that whoever started it can end all of Ray's
processes at once. Writes one JSON object; or `no cluster: …` when Ray itself did not start.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from palestra.sandbox import OutOfMemory, Returned, TimedOut, open_workers


def raylet_above() -> int:
    """The process of the node that runs this: an ancestor's child whose name is raylet."""
    pid = os.getpid()
    while pid > 1:
        status = Path(f"/proc/{pid}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        if fields["Name"] == "raylet":
            return pid
        pid = int(fields["PPid"])
    raise LookupError("no raylet above")


def work() -> int:
    """Half a second of a core, somewhere."""
    until = time.process_time() + 0.5
    while time.process_time() < until:
        pass
    return raylet_above()


async def use(address: str) -> dict[str, Any]:
    workers = open_workers(ray_address=address)
    try:
        spread = await asyncio.gather(
            *(workers.call("ray_cluster:work", limit_s=20) for _ in range(6))
        )
        killed = await workers.call("chores:never_ends_in_native_code", limit_s=0.3)
        hungry = await workers.call("chores:allocate", 4000, limit_s=20)
        after = await workers.call("operator:neg", 1, limit_s=20)
    finally:
        await workers.close()
    return {
        "all free": await all_cores_free_after_closing(address),
        "nodes": [outcome.value for outcome in spread if isinstance(outcome, Returned)],
        "killed": killed == TimedOut(0.3),
        "hungry": isinstance(hungry, OutOfMemory),
        "after": after == Returned(-1),
    }


async def all_cores_free_after_closing(address: str) -> bool:
    """Whether no host is left when workers were closed while calls ran, and one waited."""
    import ray

    ray.init(address=address, log_to_driver=False)  # a connection that `close` does not end
    workers = open_workers(ray_address=address)
    assert await workers.call("operator:neg", 1, limit_s=20) == Returned(-1)
    calls = [asyncio.ensure_future(workers.call("time:sleep", 60, limit_s=120)) for _ in range(3)]
    assert await become_free(0)
    await workers.close()
    await asyncio.wait(calls)
    free = await become_free(2)
    ray.shutdown()
    return free


async def become_free(cores: int) -> bool:
    """Whether so many cores of the cluster are free before long."""
    import ray

    until = time.monotonic() + 30
    while ray.available_resources().get("CPU", 0) != cores:
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.1)
    return True


def main() -> None:
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    try:
        cluster = Cluster(initialize_head=True, head_node_args=node)
        cluster.add_node(**node)
    except Exception as error:
        sys.exit(f"no cluster: {error}")
    try:
        sys.stdout.write(json.dumps(asyncio.run(use(cluster.address))))
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()

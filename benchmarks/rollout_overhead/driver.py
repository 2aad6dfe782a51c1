"""One contender in a process of its own: `python -m ...driver NAME UPSTREAM_URL`.

Says `ready`, then for each line `WAY<tab>ROLLOUTS` runs a chunk and answers with the CPU
nanoseconds that its processes took, the upstream's left out.
"""

import importlib
import os
import sys
from typing import Any

import uvloop

from benchmarks.machine import cpu_ns
from benchmarks.rollout_overhead.chunks import Contender

MODULES = {
    "floor": "benchmarks.rollout_overhead.floor",
    "embedded": "benchmarks.rollout_overhead.embedded",
    "seven_hops": "benchmarks.rollout_overhead.seven_hops.collector",
    "field": "benchmarks.rollout_overhead.seven_hops.vendor_collector",
}


def import_contender(name: str) -> Any:
    """The module of a contender. One process imports one of them."""
    return importlib.import_module(MODULES[name])


def _spent(contender: Contender, own: int) -> int:
    return sum(cpu_ns(pid) for pid in (own, *contender.pids))


async def drive(name: str, upstream: str) -> None:
    """Answer chunk after chunk until standard input ends."""
    async with import_contender(name).contender(upstream) as contender:
        print("ready", flush=True)
        # Reading blocks the loop on purpose: between its chunks a contender does nothing.
        while line := sys.stdin.readline():
            way, _, rollouts = line.rstrip("\n").partition("\t")
            before = _spent(contender, os.getpid())
            rewards = await contender.ways[way](int(rollouts))
            spent = _spent(contender, os.getpid()) - before
            print(spent, rewards, flush=True)


if __name__ == "__main__":
    uvloop.run(drive(sys.argv[1], sys.argv[2]))

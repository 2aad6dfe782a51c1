"""`python -m benchmarks.http_client.burst`: 16,000 requests at the same moment, each 5 s long.

A client and its upstream have a process each, fresh for every client. A request that fails is
counted, and not sent again: what the upstream saw beyond 16,000 was sent twice by the client.
"""

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from pathlib import Path

import uvloop

from benchmarks import machine
from benchmarks.http_client.driver import CLIENTS, Post
from benchmarks.processes import Helper, helper
from benchmarks.samples import table
from palestra.system import raise_descriptor_limit

PACKAGE = "benchmarks.http_client"
TITLES = {
    "plain": "our client",
    "bare": "bare protocol, connects unthrottled",
    "session": "aiohttp session, limit=0",
}


def peak_mib() -> float:
    """The most memory this process ever had resident."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("this kernel does not tell a process its peak memory")


async def burst(post: Post, count: int, patience_s: float) -> Counter[str]:
    """How many ended in which way."""

    async def one() -> str:
        try:
            async with asyncio.timeout(patience_s):
                await post()
        except Exception as error:
            return type(error).__name__
        return "completed"

    return Counter(await asyncio.gather(*(one() for _ in range(count))))


async def client(name: str, url: str, count: int, patience_s: float) -> None:
    """One client's burst; prints the figures."""
    raise_descriptor_limit()
    async with CLIENTS[name](url + "/chat/completions") as post:
        print("ready", flush=True)
        sys.stdin.readline()
        before_mib = peak_mib()
        wall, cpu = time.monotonic(), machine.cpu_ns(os.getpid())
        ends = await burst(post, count, patience_s)
        wall, cpu = time.monotonic() - wall, machine.cpu_ns(os.getpid()) - cpu
        failed = ", ".join(f"{n} {what}" for what, n in ends.items() if what != "completed")
        figures = (ends["completed"], failed or "none", f"{wall:.1f}", f"{cpu / 1e9:.2f}")
        memory = (f"{peak_mib():.0f}", f"{(peak_mib() - before_mib) * 1024 / count:.1f}")
        print(*figures, *memory, sep="\t", flush=True)


def row(name: str, upstream: Helper, driver: Helper, count: int) -> tuple[str, ...]:
    """One line of the table."""
    completed, failed, wall, cpu, peak, per_request = driver.ask("go").split("\t")
    seen, connections, most_open = (int(number) for number in upstream.ask("").split())
    return (
        TITLES[name],
        completed,
        failed,
        str(max(0, seen - count)),
        wall,
        cpu,
        peak,
        per_request,
        str(connections),
        str(most_open),
    )


def main() -> None:
    """Run the clients one after the other, print."""
    parser = argparse.ArgumentParser(prog=f"python -m {PACKAGE}.burst", description=__doc__)
    parser.add_argument("--requests", type=int, default=16_000)
    parser.add_argument("--latency", type=float, default=5.0, help="seconds before an answer")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds for one request")
    parser.add_argument("--clients", nargs="+", choices=list(TITLES), default=list(TITLES))
    given = parser.parse_args()
    print(machine.description())
    print(f"load average before: {machine.load()}")
    rows = []
    for name in given.clients:
        with helper(f"{PACKAGE}.slow_upstream", str(given.latency)) as upstream:
            order = (name, upstream.greeting, str(given.requests), str(given.patience))
            with helper(f"{PACKAGE}.burst", *order) as driver:
                rows.append(row(name, upstream, driver, given.requests))
    print(f"load average after:  {machine.load()}")
    print()
    header = (
        f"{given.requests} at once, {given.latency:g} s each",
        "completed",
        "failed",
        "sent twice",
        "wall s",
        "CPU s",
        "peak MiB",
        "KiB each",
        "connections",
        "open at once",
    )
    print(table(header, rows))


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] in CLIENTS:
        uvloop.run(client(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
    else:
        main()

"""`python -m benchmarks.http_client [--seconds N]`: all clients, interleaved.

Without uvloop every client has two levels, some 14 us apart (11 and 25 of the bare protocol): the
standard library reads into a fresh buffer of 256 KiB, and whether glibc maps that anew each time
depends on what the process allocated before.
"""

import argparse
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks import machine
from benchmarks.processes import Helper, helper
from benchmarks.samples import p10, summary, table

PACKAGE = "benchmarks.http_client"


@dataclass(slots=True)
class Client:
    """One row of the table: exchanges per chunk, and CPU us per exchange."""

    title: str
    name: str
    loop: str
    exchanges: int
    values: list[float] = field(default_factory=list)


def clients() -> list[Client]:
    """Chunks take about 10 ms."""
    return [
        Client("bare asyncio.Protocol + httptools", "bare", "uvloop", 1280),
        Client("our client", "plain", "uvloop", 640),
        Client("aiohttp session, bare", "session", "uvloop", 160),
        Client("bare, without uvloop", "bare", "asyncio", 640),
        Client("our client, without uvloop", "plain", "asyncio", 320),
        Client("aiohttp session, without uvloop", "session", "asyncio", 160),
    ]


def chunk(driver: Helper, client: Client) -> float:
    """CPU us per exchange of one chunk."""
    spent, received = (int(number) for number in driver.ask(str(client.exchanges)).split())
    if not received:
        raise SystemExit(f"{client.title}: nothing came")
    return spent / 1e3 / client.exchanges


def report(found: list[Client]) -> str:
    """The table, ratios by p10."""
    floor, aiohttp = p10(found[0].values), p10(found[2].values)
    rows = []
    for client in found:
        low, middle, mean = summary(client.values)
        rows.append(
            (
                client.title,
                f"{low:.2f}",
                f"{middle:.2f}",
                f"{mean:.2f}",
                f"{low / floor:.2f}",
                f"{aiohttp / low:.1f}",
                str(len(client.values)),
            )
        )
    return table(
        ("CPU us per exchange", "p10", "median", "mean", "x bare", "aiohttp / this", "chunks"),
        rows,
    )


def main() -> None:
    """Start everything, measure, print."""
    parser = argparse.ArgumentParser(prog=f"python -m {PACKAGE}", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="how long to measure")
    seconds = parser.parse_args().seconds
    found = clients()
    print(machine.description())
    print(f"load average before: {machine.load()}")
    with ExitStack() as stack:
        url = stack.enter_context(helper("benchmarks.rollout_overhead.fake_upstream")).greeting
        drivers = [
            stack.enter_context(helper(f"{PACKAGE}.driver", client.name, url, client.loop))
            for client in found
        ]
        pairs = list(zip(drivers, found, strict=True))
        for driver, client in pairs * 4:
            chunk(driver, client)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for driver, client in pairs:
                client.values += [chunk(driver, client) for _ in range(3)]
    print(f"load average after:  {machine.load()}")
    print()
    print(report(found))


if __name__ == "__main__":
    main()

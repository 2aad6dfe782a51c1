"""`python -m benchmarks.rollout_overhead [--seconds N]`: all contenders, interleaved."""

import argparse
import time
from dataclasses import dataclass, field

from benchmarks import machine
from benchmarks.processes import Helper, helper
from benchmarks.samples import p10, summary, table

PACKAGE = "benchmarks.rollout_overhead"

COLLECTED = 192
"""Rollouts of one collection: few enough for a short chunk, while a run has thousands per sync."""


@dataclass(slots=True)
class Way:
    """One row of the table: where it runs, rollouts per chunk, and CPU ms per rollout."""

    title: str
    driver: str
    way: str
    rollouts: int
    chunks_per_round: int = 4
    values: list[float] = field(default_factory=list)
    traffic: str = ""


def ways() -> list[Way]:
    """Chunks take about 10 ms; of `collect` 50, for it syncs once each, and of the hops 100."""
    return [
        Way("floor: aiohttp + msgspec", "floor", "floor", 64),
        Way("floor that reads and writes rows", "floor", "floor with rows", 64),
        Way("Palestra embedded: /run", "embedded", "run", 48),
        Way("Palestra embedded: Collector.collect", "embedded", "collect", COLLECTED),
        Way("  of which per collection, not per rollout", "embedded", "collect nothing", COLLECTED),
        Way("seven-hop layout, slim types", "seven_hops", "seven hops", 8, chunks_per_round=1),
        Way("seven-hop layout, the field's types", "field", "seven hops", 8, chunks_per_round=1),
    ]


def chunk(driver: Helper, way: Way) -> float:
    """CPU ms per rollout of one chunk."""
    spent, rewards = driver.ask(f"{way.way}\t{way.rollouts}").split()
    expected = 0 if way.way == "collect nothing" else way.rollouts
    if float(rewards) != expected:
        raise SystemExit(f"{way.title}: {rewards} of {expected} rollouts were rewarded")
    return int(spent) / 1e6 / way.rollouts


def warm_up(drivers: dict[str, Helper], upstream: Helper, found: list[Way], chunks: int) -> None:
    """Connections, caches and allocators; and a look at what each contender sends."""
    for way in found:
        upstream.ask("")
        for _ in range(chunks):
            chunk(drivers[way.driver], way)
        requests, sent, received = (int(n) for n in upstream.ask("").split())
        rollouts = chunks * way.rollouts
        way.traffic = (
            f"{requests / rollouts:.2f} exchanges per rollout, "
            f"{sent / requests:.0f} bytes out, {received / requests:.0f} in, on average"
            if requests
            else "no exchanges"
        )


def measure(drivers: dict[str, Helper], found: list[Way], seconds: float) -> int:
    """Round by round, each contender in turn; the number of rounds."""
    end = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < end:
        for way in found:
            way.values += [chunk(drivers[way.driver], way) for _ in range(way.chunks_per_round)]
        rounds += 1
    return rounds


def report(found: list[Way]) -> str:
    """The table, ratios by p10."""
    floor, *_, slim, field_types = (p10(way.values) for way in found)
    rows = []
    for way in found:
        low, middle, mean = summary(way.values)
        rows.append(
            (
                way.title,
                f"{low:.4f}",
                f"{middle:.4f}",
                f"{mean:.4f}",
                f"{low / floor:.2f}",
                "" if way.way == "collect nothing" else f"{slim / low:.1f}",
                "" if way.way == "collect nothing" else f"{field_types / low:.1f}",
                str(len(way.values)),
            )
        )
    header = (
        "CPU ms per rollout (2 model calls, 1 tool call)",
        "p10",
        "median",
        "mean",
        "x floor",
        "slim hops / this",
        "field's hops / this",
        "chunks",
    )
    return table(header, rows)


def main() -> None:
    """Start everything, measure, print."""
    parser = argparse.ArgumentParser(prog=f"python -m {PACKAGE}", description=__doc__)
    parser.add_argument("--seconds", type=float, default=50, help="how long to measure")
    seconds = parser.parse_args().seconds
    found = ways()
    print(machine.description())
    print(f"load average before: {machine.load()}")
    with helper(f"{PACKAGE}.fake_upstream") as upstream:
        url = upstream.greeting
        with (
            helper(f"{PACKAGE}.driver", "floor", url) as floor,
            helper(f"{PACKAGE}.driver", "embedded", url) as embedded,
            helper(f"{PACKAGE}.driver", "seven_hops", url) as seven_hops,
            helper(f"{PACKAGE}.driver", "field", url) as field_types,
        ):
            drivers = {
                "floor": floor,
                "embedded": embedded,
                "seven_hops": seven_hops,
                "field": field_types,
            }
            warm_up(drivers, upstream, found, chunks=8)
            rounds = measure(drivers, found, seconds)
    print(f"load average after:  {machine.load()}   ({rounds} rounds)")
    print()
    print(report(found))
    print()
    for way in found:
        print(f"{way.title.strip()}: {way.traffic}")


if __name__ == "__main__":
    main()

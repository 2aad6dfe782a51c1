"""`python -m benchmarks.scale in-flight|long`: a burst that is all in flight, or a long run."""

import argparse
import tempfile
from pathlib import Path

from benchmarks import machine
from benchmarks.processes import helper
from benchmarks.samples import table
from benchmarks.scale.collection import Sample, Watched, collect, write_tasks

UPSTREAM = "benchmarks.scale.slow_upstream"


def in_flight(folder: Path, rollouts: int, latency_s: float) -> None:
    """All rollouts at once against an upstream that answers after `latency_s`."""
    write_tasks(folder / "tasks.jsonl", rollouts)
    with helper(UPSTREAM, str(latency_s)) as upstream:
        done = collect(folder, upstream.greeting, "--progress", "plain")
        requests, most = (int(n) for n in upstream.ask("").split())
    bound = latency_s + 1.5 * done.cpu_s
    retries = requests - rollouts
    print(done.line)
    print(
        table(
            ("", "measured", "bound"),
            [
                ("requests waiting upstream at once", str(most), ""),
                ("requests sent again", str(retries), "0"),
                ("wall s, whole command", f"{done.wall_s:.1f}", f"{bound:.1f}"),
                ("wall s, first start to last row", f"{done.collecting_s:.1f}", ""),
                ("CPU s, whole command", f"{done.cpu_s:.1f}", ""),
                ("peak resident MiB", f"{done.peak_mib:.0f}", "2048"),
            ],
        )
    )
    if done.exit_code or retries or done.wall_s > bound or done.peak_mib > 2048:
        raise SystemExit(
            f"a bound is not kept (exit code {done.exit_code})\n{done.notices[-3000:]}"
        )


def long_run(folder: Path, rollouts: int, concurrency: int) -> None:
    """Many rollouts, a bounded number in flight, against an upstream without latency."""
    write_tasks(folder / "tasks.jsonl", rollouts // 16)
    with helper(UPSTREAM, "0") as upstream:
        done = collect(
            folder,
            upstream.greeting,
            *("--repeats", "16", "--concurrency", str(concurrency), "--progress", "plain"),
            "++disable_aggregation=true",
        )
    print(done.line)
    print(f"wall {done.wall_s:.0f} s, CPU {done.cpu_s:.0f} s, peak {done.peak_mib:.0f} MiB")
    print(table(("rollouts", "per second", "resident MiB"), _tenths(done, rollouts)))
    if done.exit_code:
        raise SystemExit(done.notices[-3000:])


def _tenths(done: Watched, rollouts: int) -> list[tuple[str, str, str]]:
    """Rate and memory in each tenth of the run."""
    rows = []
    running = [s for s in done.samples if s.rows > 0]
    for tenth in range(10):
        low, high = rollouts * tenth / 10, rollouts * (tenth + 1) / 10
        within = [s for s in running if low <= s.rows <= high]
        if len(within) < 2:
            continue
        rows.append((f"{low:.0f}-{high:.0f}", f"{_rate(within):.0f}", f"{_most(within):.0f}"))
    return rows


def _rate(samples: list[Sample]) -> float:
    spent = samples[-1].seconds - samples[0].seconds
    return (samples[-1].rows - samples[0].rows) / spent if spent else 0.0


def _most(samples: list[Sample]) -> float:
    return max(sample.rss_mib for sample in samples)


def main() -> None:
    """Measure one of the two and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("what", choices=["in-flight", "long"])
    parser.add_argument("--rollouts", type=int)
    parser.add_argument("--latency", type=float, default=5.0, help="seconds, of in-flight")
    parser.add_argument("--concurrency", type=int, default=1024, help="of the long run")
    asked = parser.parse_args()
    print(machine.description())
    print(f"load average before: {machine.load()}")
    with tempfile.TemporaryDirectory() as folder:
        if asked.what == "in-flight":
            in_flight(Path(folder), asked.rollouts or 16_000, asked.latency)
        else:
            long_run(Path(folder), asked.rollouts or 320_000, asked.concurrency)
    print(f"load average after:  {machine.load()}")


if __name__ == "__main__":
    main()

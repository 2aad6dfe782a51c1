"""`python -m benchmarks.profiling [--tasks N] [--rollouts N] [--row-bytes B …]`: medians."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import orjson

from benchmarks import machine
from benchmarks.profiling.rows import write_run
from benchmarks.samples import table

MIB = 1 << 20


@dataclass(slots=True)
class Way:
    """Measurements of one contender, by phase."""

    wall_s: dict[str, list[float]] = field(default_factory=dict)
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    peak_mib: float = 0.0

    def run(self, name: str, folder: Path) -> None:
        """One process, from start to exit."""
        command = [sys.executable, "-m", "benchmarks.profiling.contender", name, str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{name} ended with exit code {process.returncode}")
        for phase, (wall, cpu) in orjson.loads(said).items():
            self.wall_s.setdefault(phase, []).append(wall)
            self.cpu_s.setdefault(phase, []).append(cpu)
        self.peak_mib = max(self.peak_mib, used.ru_maxrss / 1024)

    def row(self, title: str, phase: str, against: float) -> tuple[str, ...]:
        """One line of the table; the ratio is of wall times."""
        wall, cpu = median(self.wall_s[phase]), median(self.cpu_s[phase])
        return title, f"{wall / against:.2f}", f"{wall:.3f}", f"{cpu:.3f}", f"{self.peak_mib:,.0f}"


@contextmanager
def run_files(options: argparse.Namespace, row_bytes: int) -> Iterator[Path]:
    """A folder with a run of rows of that size."""
    with tempfile.TemporaryDirectory(prefix="profiling-", dir=options.folder) as name:
        size = write_run(
            Path(name), tasks=options.tasks, rollouts=options.rollouts, row_bytes=row_bytes
        )
        rows = options.tasks * options.rollouts
        print(
            f"\n{options.tasks:,} tasks x {options.rollouts} rollouts, {size / rows:,.0f} bytes a "
            f"row: {size / MIB:,.0f} MiB of rollouts"
        )
        yield Path(name)


def measure(folder: Path, rounds: int) -> None:
    """Scan and profile in turn, and print."""
    scan, ours = Way(), Way()
    for _ in range(rounds):
        scan.run("scan", folder)
        ours.run("palestra", folder)
    bare = median(scan.wall_s["scan"])
    print(
        table(
            ("phase", "x scan", "wall s", "CPU s", "peak MiB"),
            [
                scan.row("orjson scan of both files", "scan", bare),
                ours.row("palestra: load", "load", bare),
                ours.row("palestra: statistics, written", "statistics", bare),
            ],
        )
    )


def compare(folder: Path) -> None:
    """Ours and pandas from columns to a dict per task, once each."""
    titles = {
        "numbers": "palestra",
        "agg": "pandas groupby.agg",
        "bare": "pandas groupby.apply",
        "apply": "pandas groupby.apply, histograms",
    }
    ways = {name: Way() for name in titles}
    for name, way in ways.items():
        way.run(name, folder)
    ours = median(ways["numbers"].wall_s["statistics"])
    rows = [way.row(titles[name], "statistics", ours) for name, way in ways.items()]
    print(table(("statistics per task", "x ours", "wall s", "CPU s", "peak MiB"), rows))


def main() -> None:
    """Write a run of each size, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiling", description=__doc__)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--rollouts", type=int, default=16)
    parser.add_argument("--row-bytes", type=int, nargs="+", default=[1_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--pandas", action="store_true", help="also pandas, on the first size: a minute more"
    )
    parser.add_argument("--folder", type=Path, help="where the files go; default the system's")
    options = parser.parse_args()
    print(machine.description())
    print(f"load average before: {machine.load()}")
    for place, row_bytes in enumerate(options.row_bytes):
        with run_files(options, row_bytes) as folder:
            measure(folder, options.rounds)
            if options.pandas and place == 0:
                print()
                compare(folder)
    print(f"\nload average after:  {machine.load()}   ({options.rounds} rounds)")


if __name__ == "__main__":
    main()

"""`python -m benchmarks.startup [--rounds N]`: whole processes, interleaved, medians."""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks import machine
from benchmarks.samples import table

PYTHON = sys.executable
PALESTRA = str(Path(PYTHON).with_name("palestra"))
READY = "benchmarks.startup.fleet_ready"


@dataclass(slots=True)
class Start:
    """One thing to start. With `says_when`, the time is what the process prints, not its end."""

    title: str
    command: Sequence[str]
    budget_s: float | None = None
    says_when: bool = False
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


def starts() -> list[Start]:
    """The baseline first."""
    return [
        Start("python -c pass", (PYTHON, "-c", "pass")),
        Start("import palestra", (PYTHON, "-c", "import palestra"), 0.3),
        Start("palestra --help", (PALESTRA, "--help"), 0.5),
        Start("fleet ready, embedded", (PYTHON, "-m", READY, "embedded"), 3.0, says_when=True),
        Start("fleet ready, a process each", (PYTHON, "-m", READY, "process"), says_when=True),
    ]


def run_once(start: Start) -> None:
    """One process, its wall time, and the CPU time of it and its children."""
    before, cpu_before = time.perf_counter(), _children_cpu()
    done = subprocess.run(start.command, stdout=subprocess.PIPE, check=True, text=True)
    wall = time.perf_counter() - before
    start.wall_s.append(float(done.stdout.splitlines()[-1]) if start.says_when else wall)
    start.cpu_s.append(_children_cpu() - cpu_before)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(found: list[Start]) -> str:
    """Medians, and ratios to the baseline."""
    baseline = median(found[0].wall_s)
    rows = [
        (
            start.title,
            f"{median(start.wall_s):.3f}",
            f"{min(start.wall_s):.3f}",
            f"{median(start.cpu_s):.3f}",
            f"{median(start.wall_s) / baseline:.1f}",
            "" if start.budget_s is None else f"{start.budget_s:.1f}",
        )
        for start in found
    ]
    header = ("seconds", "median", "least", "CPU median", "x baseline", "budget")
    return table(header, rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    found = starts()
    print(machine.description())
    print(f"load average before: {machine.load()}")
    for start in found:
        run_once(start)  # fills the page cache and __pycache__, and is not counted
        start.wall_s.clear()
        start.cpu_s.clear()
    for _ in range(rounds):
        for start in found:
            run_once(start)
    print(f"load average after:  {machine.load()}   ({rounds} rounds)")
    print()
    print(report(found))


if __name__ == "__main__":
    main()

"""`python -m benchmarks.prepare [--rows N] [--row-bytes B] [--naive]`: interleaved, medians."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks import machine
from benchmarks.prepare.rows import write_dataset
from benchmarks.ways import MIB, Way, report

LOOK_EVERY_S = 0.05


def ways(*, naive: bool) -> list[Way]:
    """The baseline first."""
    found = [
        Way("orjson over the rows, nothing else", "parse"),
        Way("json over the rows, nothing else", "json"),
        Way("palestra prepare", "prepare"),
    ]
    return [*found, Way("pydantic and json, all rows in memory", "naive")] if naive else found


def run_once(way: Way, folder: Path) -> None:
    """One process, from start to exit; its children are counted in.

    The peak is that of all its processes together, what they share counted once for each.
    """
    shutil.rmtree(folder / way.way, ignore_errors=True)
    for left in folder.glob("rows_*"):
        left.unlink()
    os.sync()
    command = [sys.executable, "-m", "benchmarks.prepare.contender", way.way, str(folder)]
    began = time.perf_counter()
    process = subprocess.Popen(command, start_new_session=True)
    peak = Peak(process.pid)
    peak.start()
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began
    peak.ended.set()
    peak.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{way.title} ended with exit code {process.returncode}")
    way.wall_s.append(wall_s)
    way.cpu_s.append(max(used.ru_utime + used.ru_stime, peak.cpu_s))
    way.peak_mib.append(peak.mib)


class Peak(threading.Thread):
    """Looks at the processes of a session, now and then, for the memory they have of their own."""

    def __init__(self, session: int) -> None:
        super().__init__(daemon=True)
        self._session = session
        self.ended = threading.Event()
        self.mib = 0.0
        self.cpu_s = 0.0

    def run(self) -> None:
        """Until it has ended."""
        ticks = os.sysconf("SC_CLK_TCK")
        cpu: dict[int, float] = {}
        while not self.ended.wait(LOOK_EVERY_S):
            memory = 0.0
            for pid in self._processes():
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                except OSError:
                    continue
                cpu[pid] = (int(fields[11]) + int(fields[12])) / ticks
                memory += int(rollup.split("Pss:")[1].split()[0]) / 1024
            self.mib = max(self.mib, memory)
        self.cpu_s = sum(cpu.values())

    def _processes(self) -> list[int]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.getsid(int(folder.name)) == self._session:
                    found.append(int(folder.name))
            except OSError:
                continue
        return found


def main() -> None:
    """Write rows, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prepare", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--row-bytes", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--naive", action="store_true", help="also all rows in memory")
    parser.add_argument("--folder", type=Path, help="where the files go; default the system's")
    options = parser.parse_args()
    print(machine.description())
    with tempfile.TemporaryDirectory(prefix="prepare-", dir=options.folder) as name:
        folder = Path(name)
        write_dataset(folder / "rows.jsonl", rows=options.rows, row_bytes=options.row_bytes)
        size = (folder / "rows.jsonl").stat().st_size
        print(f"{options.rows} rows of {size / options.rows:,.0f} bytes: {size / MIB:,.0f} MiB")
        print(f"load average before: {machine.load()}")
        found = ways(naive=options.naive)
        for _ in range(options.rounds):
            for way in found:
                run_once(way, folder)
        print(f"load average after:  {machine.load()}   ({options.rounds} rounds)")
        print()
        print(report(found, rows=options.rows, size=size, ratio="x parse"))


if __name__ == "__main__":
    main()

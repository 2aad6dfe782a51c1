"""`python -m benchmarks.merge [--rows N] [--row-bytes B] [--shards S]`: interleaved, medians."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine
from benchmarks.merge.shards import write_shards
from benchmarks.ways import MIB, Way, report


@dataclass(slots=True)
class MergeWay(Way):
    """`fresh`: what it wrote is removed before each round."""

    fresh: bool = True


def ways(*, naive: bool) -> list[MergeWay]:
    """The baseline first; merging again comes after merging."""
    found = [
        MergeWay("cat into one file, synced", "cat"),
        MergeWay("orjson over the scored rows, nothing written", "scan"),
        MergeWay("coreutils sort, 512 MiB", "sort"),
        MergeWay("palestra merge", "merge"),
        MergeWay("palestra merge, already there", "merge", fresh=False),
    ]
    return [*found, MergeWay("all rows in memory", "naive")] if naive else found


def run_once(way: MergeWay, folder: Path) -> None:
    """One process, from start to exit; its children are counted in."""
    if way.fresh:
        shutil.rmtree(folder / way.way, ignore_errors=True)
        os.sync()
    command = [sys.executable, "-m", "benchmarks.merge.contender", way.way, str(folder)]
    began = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{way.title} ended with exit code {process.returncode}")
    way.wall_s.append(time.perf_counter() - began)
    way.cpu_s.append(used.ru_utime + used.ru_stime)
    way.peak_mib.append(used.ru_maxrss / 1024)


def main() -> None:
    """Write shards, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.merge", description=__doc__)
    parser.add_argument("--rows", type=int, default=320_000)
    parser.add_argument("--row-bytes", type=int, default=5_000)
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--naive", action="store_true", help="also all rows in memory")
    parser.add_argument("--folder", type=Path, help="where the files go; default the system's")
    options = parser.parse_args()
    print(machine.description())
    with tempfile.TemporaryDirectory(prefix="merge-", dir=options.folder) as name:
        folder = Path(name)
        (folder / "shards").mkdir()
        shards = write_shards(
            folder / "shards", rows=options.rows, row_bytes=options.row_bytes, of=options.shards
        )
        scored = sum(shard.stat().st_size for shard in shards)
        total = sum(path.stat().st_size for path in (folder / "shards").iterdir())
        print(
            f"{options.rows} rows in {options.shards} shards: {scored / MIB:,.0f} MiB of scored "
            f"rows, {total / MIB:,.0f} MiB in all"
        )
        print(f"load average before: {machine.load()}")
        found = ways(naive=options.naive)
        for _ in range(options.rounds):
            for way in found:
                run_once(way, folder)
        print(f"load average after:  {machine.load()}   ({options.rounds} rounds)")
        print()
        print(report(found, rows=options.rows, size=scored, ratio="x cat", rate="scored MiB/s"))


if __name__ == "__main__":
    main()

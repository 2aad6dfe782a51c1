"""`python -m benchmarks.viewer [--tasks N] [--rollouts N] [--row-bytes B]`: one run in the viewer."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson

from benchmarks import machine
from benchmarks.profiling.rows import INPUTS, ROLLOUTS, write_run
from benchmarks.samples import table
from benchmarks.viewer import pages

MIB = 1 << 20


def run(way: str, folder: Path) -> dict[str, Any]:
    """What one way prints."""
    command = [sys.executable, "-m", "benchmarks.viewer.contender", way, str(folder)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    result: dict[str, Any] = orjson.loads(output)
    return result


def building(folder: Path, rows: int, size: int) -> None:
    """The index pass against `RowReader`, and the size of the index."""
    reader_s = run("reader", folder)["seconds"]["reader"][0]
    built = run("build", folder)
    build_s = built["seconds"]["build"][0]
    again = run("reopen", folder)["seconds"]
    index_bytes = sum(path.stat().st_size for path in (folder / "cache").rglob("*"))
    print(
        table(
            ("building", "CPU s", "MB/s", "rows/s", "x reader", "anonymous MiB"),
            [
                (*rate("RowReader alone", reader_s, size, rows, reader_s), ""),
                (*rate("index", build_s, size, rows, reader_s), f"{built['anonymous_mib']:.0f}"),
            ],
        )
    )
    print(
        f"{index_bytes / rows:.0f} bytes a rollout; open {again['open'][0]:.2f} s, first numbers "
        f"{1e3 * again['first numbers'][0]:.0f} ms"
    )


def waiting(folder: Path, collected: int) -> None:
    """What a user waits for, with the server and over HTTP; and what a collection pays."""
    lines = [
        *pages.first_pages(folder),
        *pages.long_transcripts(folder / "long"),
        *pages.row_to_page(folder / "live"),
    ]
    if collected:
        lines += pages.cost_to_a_collection(folder / "collecting", collected, rounds=3)
    print(table(("what, by the clock", "figure", "target"), lines))


def rate(name: str, seconds: float, size: int, rows: int, against: float) -> tuple[str, ...]:
    """One line of the table; the ratio is of speeds."""
    return (
        name,
        f"{seconds:.2f}",
        f"{size / seconds / 1e6:,.0f}",
        f"{rows / seconds:,.0f}",
        f"{against / seconds:.2f}",
    )


def asking(folder: Path) -> None:
    """What the pages ask of the index: median and 95th percentile."""
    answers = run("questions", folder)
    seconds = answers["seconds"]
    rows = [
        (
            name,
            f"{1e3 * pages.percentiles(values)[0]:.1f}",
            f"{1e3 * pages.percentiles(values)[1]:.1f}",
        )
        for name, values in seconds.items()
        if not name.startswith("text")
    ]
    print(table(("question, CPU", "median ms", "95th %"), rows))
    read_s = min(run("reading", folder)["seconds"]["reading"])
    read_speed = (folder / ROLLOUTS).stat().st_size / read_s
    for name in ("text exact", "text folded"):
        speed = seconds[f"{name} bytes"][0] / min(seconds[name])
        print(
            f"{name}: {speed / 1e6:,.0f} MB/s of transcripts, {speed / read_speed:.2f} of reading "
            "them and counting their lines"
        )
    print(f"anonymous memory after all questions: {answers['anonymous_mib']:.0f} MiB")


def main() -> None:
    """Write a run, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.viewer", description=__doc__)
    parser.add_argument("--tasks", type=int, default=62_500)
    parser.add_argument("--rollouts", type=int, default=16)
    parser.add_argument("--row-bytes", type=int, default=1_000)
    parser.add_argument(
        "--collected", type=int, default=10_000, help="rollouts of each watched collection"
    )
    parser.add_argument("--folder", type=Path, help="where the files go; default the system's")
    options = parser.parse_args()
    print(machine.description())
    print(f"load average before: {machine.load()}")
    with tempfile.TemporaryDirectory(prefix="viewer-", dir=options.folder) as name:
        folder = Path(name)
        size = write_run(
            folder, tasks=options.tasks, rollouts=options.rollouts, row_bytes=options.row_bytes
        )
        size += (folder / INPUTS).stat().st_size
        rows = options.tasks * options.rollouts
        print(f"{rows:,} rollouts, {size / MIB:,.0f} MiB of inputs and rollouts\n")
        building(folder, rows, size)
        print()
        asking(folder)
        print()
        waiting(folder, options.collected)
    print(f"\nload average after:  {machine.load()}")


if __name__ == "__main__":
    main()

"""One way, in a process of its own: `python -m benchmarks.viewer.contender WAY FOLDER`.

reader     every row of both files through `RowReader`, nothing kept: what `build` is held against
build      a new index of the run
reopen     the same index again: from the call to the first numbers
questions  what the pages ask of it
reading    the bytes of the rollouts, read in blocks and counted: what `text=` is held against

Prints one JSON object: `seconds` by phase (CPU), and `anonymous_mib`, the most memory without mapped
files.
"""

import sys
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import orjson

from benchmarks.profiling.rows import INPUTS, ROLLOUTS

ROUNDS = 21
TEXT_ROUNDS = 3
Phases = dict[str, list[float]]


def timed(phases: Phases, name: str, work: Callable[[], Any]) -> Any:
    """What `work` returns; the CPU seconds that it took go to `phases`."""
    began = time.process_time()
    result = work()
    phases.setdefault(name, []).append(time.process_time() - began)
    return result


def anonymous_mib() -> float:
    """The memory of this process that no file backs."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0.0


def reader(folder: Path, phases: Phases) -> None:
    """Decode the fields of every row."""
    from palestra.analysis import RowReader

    def each() -> None:
        for name in (INPUTS, ROLLOUTS):
            for _ in RowReader().blocks(folder / name):
                pass

    timed(phases, "reader", each)


def build(folder: Path, phases: Phases) -> None:
    """Index the run in steps, as the server does."""
    from palestra.viewer.index import open_index

    with open_index([folder / ROLLOUTS], cache=folder / "cache") as index:

        def all_steps() -> None:
            index.refresh(0.5)
            while index.progress.bytes_indexed < index.progress.bytes_total:
                index.refresh(0.5)
            index.refresh(inf)

        timed(phases, "build", all_steps)


def reopen(folder: Path, phases: Phases) -> None:
    """Open an index that is complete."""
    from palestra.viewer.index import open_index

    with open_index([folder / ROLLOUTS], cache=folder / "cache") as index:
        snapshot = timed(phases, "open", lambda: index.refresh(inf))
        timed(phases, "first numbers", lambda: snapshot.rollouts.numbers("reward").mean())


def questions(folder: Path, phases: Phases) -> None:
    """Ask what a table's page asks."""
    from palestra.analysis import parse_query
    from palestra.viewer.index import open_index
    from palestra.viewer.query import search_text

    with open_index([folder / ROLLOUTS], cache=folder / "cache") as index:
        snapshot = index.refresh(inf)
        table = snapshot.rollouts
        fields = ["task", "rollout", "outcome", "reward", "tokens.out", "agent", "last_answer"]
        for turn in range(ROUNDS):
            low = 100 * turn
            query = f"outcome:scored reward<1 tokens.out>{low}"
            rows = timed(phases, "filter", lambda q=query: table.select(q))
            ordered = timed(phases, "sort", lambda r=rows: table.sort(r, "-tokens.out"))
            start = len(ordered) // 2
            timed(
                phases,
                "deep page",
                lambda o=ordered, s=start: table.page(o, start=s, count=100, fields=fields),
            )
            names = ("outcome", "agent", "family", "class", "layer")
            timed(phases, "five facets", lambda r=rows, n=names: [table.facet(r, x) for x in n])
            timed(phases, "histogram", lambda r=rows: table.histogram(r, "tokens.out"))
            timed(phases, "word", lambda t=turn: table.select(f'"no such word {t}"'))
            timed(phases, "task page", lambda: snapshot.tasks.select("pass_rate:0.1..0.9"))
        rows = table.select("task:0..5000")
        for name, query in (("text exact", "text=zzyzx"), ("text folded", "text:zzyzx")):
            parsed = parse_query(query)
            for _ in range(TEXT_ROUNDS):
                hits = timed(
                    phases, name, lambda p=parsed, r=rows: list(search_text(snapshot, p, r))
                )
            phases[f"{name} bytes"] = [float(hits[-1])]


def reading(folder: Path, phases: Phases) -> None:
    """Read the bytes of the rollouts, and count their lines: what a search is held against."""

    def each() -> None:
        with (folder / ROLLOUTS).open("rb", buffering=0) as file:
            while data := file.read(4 << 20):
                data.count(b"\n")

    for _ in range(TEXT_ROUNDS):
        timed(phases, "reading", each)


WAYS = {
    "reader": reader,
    "build": build,
    "reopen": reopen,
    "questions": questions,
    "reading": reading,
}


def main() -> None:
    """Run one way and print what it took."""
    phases: Phases = {}
    WAYS[sys.argv[1]](Path(sys.argv[2]), phases)
    result = {"seconds": phases, "anonymous_mib": anonymous_mib()}
    sys.stdout.write(orjson.dumps(result).decode())


if __name__ == "__main__":
    main()

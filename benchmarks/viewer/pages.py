"""What a user waits for: the first page, tables, long transcripts, and rows as they are written."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

import orjson

from benchmarks.processes import helper
from benchmarks.profiling.rows import ROLLOUTS, write_run
from benchmarks.scale.collection import collect, write_tasks
from benchmarks.viewer.server import ViewerServer, viewer

ROUNDS = 21
LONG_ROWS = ((5_000, 10_000), (29_600, 2_700))
"""Transcripts: how many items, and the bytes of each."""
ROWS_A_SECOND = 1_000
WRITTEN_S = 10

Line = tuple[str, str, str]
"""What, its figure, its target."""


def first_pages(folder: Path) -> list[Line]:
    """A run that was never indexed, and again when it is; then its tables, and the memory."""
    run, cache = folder / ROLLOUTS, folder / "served"
    with viewer(run, cache) as server:
        page_s = server.when(server.only_run(), bool)
        indexed_s = server.when(server.only_run(), lambda page: page["base"]["complete"])
        cold_mib = server.most_memory_mib()
    with viewer(run, cache) as server:
        path = server.only_run()
        again_s = server.when(path, lambda page: page["base"]["complete"])
        cpu_s = server.cpu_s()
        lines = _tables(server, path)
        warm_mib = server.most_memory_mib()
    return [
        ("the command's imports alone", f"{_imports_cpu_s():.2f} s CPU", ""),
        ("never indexed: command to the run's page", f"{page_s:.2f} s", "2 s"),
        ("never indexed: command to all of it", f"{indexed_s:.1f} s", ""),
        ("indexed: command to first numbers", f"{again_s:.2f} s ({cpu_s:.2f} s CPU)", "2 s"),
        *lines,
        ("most memory without mapped files: indexing", f"{cold_mib:.0f} MiB", "300 MiB"),
        ("most memory without mapped files: with all tables", f"{warm_mib:.0f} MiB", "300 MiB"),
    ]


def _imports_cpu_s() -> float:
    """The CPU of a process that only imports what the command does: the start of each page."""
    code = "import time, palestra.cli.viewing; print(time.process_time())"
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def _tables(server: ViewerServer, path: str) -> list[Line]:
    def query(turn: int) -> str:
        return quote(f"outcome:scored reward<1 tokens.out>{100 * turn}")

    asked: dict[str, Callable[[int], str]] = {
        "table page, sorted, in the middle": lambda n: (
            f"{path}/rollouts?q={query(n)}&sort=-tokens.out&offset={10_000 * n}&limit=100"
        ),
        "facets": lambda n: f"{path}/facets?q={query(n)}",
        "histograms": lambda n: f"{path}/histograms?q={query(n)}",
        "a group": lambda n: f"{path}/t/{n}",
        "a rollout": lambda n: f"{path}/t/{n}/1",
    }
    targets = {"a group": "500 ms", "a rollout": "300 ms"}
    lines = []
    for name, of_turn in asked.items():
        server.get(of_turn(0))
        middle, slow = percentiles([_seconds(server, of_turn(n)) for n in range(ROUNDS)])
        figure = f"{1e3 * middle:.0f}, {1e3 * slow:.0f} ms"
        lines.append((f"{name}: median, 95th percentile", figure, targets.get(name, "150 ms")))
    return lines


def _seconds(server: ViewerServer, path: str) -> float:
    began = time.perf_counter()
    server.get(path)
    return time.perf_counter() - began


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th percentile."""
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2], ordered[(19 * len(ordered)) // 20]


def long_transcripts(folder: Path) -> list[Line]:
    """Rows of 50 and 80 MB: from the click to the first text, then an item and an outline page
    anywhere.
    """
    return [
        line for shape in LONG_ROWS for line in _long_transcript(folder / str(shape[0]), *shape)
    ]


def _long_transcript(folder: Path, count: int, item_bytes: int) -> list[Line]:
    folder.mkdir(parents=True)
    write_run(folder, tasks=1, rollouts=1, row_bytes=1_000)
    run = folder / ROLLOUTS
    row = orjson.loads(run.read_bytes())
    [message] = row["response"]["output"]
    part = message["content"][0] | {"text": "a line of text\n" * (item_bytes // 15)}
    row["response"]["output"] = [message | {"content": [part]}] * count
    run.write_bytes(orjson.dumps(row) + b"\n")
    with viewer(run, folder / "served") as server:
        path = server.only_run()
        server.when(path, lambda page: page["base"]["complete"])
        rollout = f"{path}/t/0/0"
        opened = (rollout, f"{rollout}/outline?start=0", f"{rollout}/item?at=1&start=0")
        first_s = sum(_seconds(server, request) for request in opened)
        places = [count * n // ROUNDS for n in range(ROUNDS)]
        item = _times(server, [f"{rollout}/item?at={at}&start=0" for at in places])
        page = _times(server, [f"{rollout}/outline?start={at}" for at in places])
        mib = server.most_memory_mib()
    name = f"transcript of {count * item_bytes / 1e6:.0f} MB, {count:,} items"
    return [
        (f"{name}: to its first text", f"{first_s:.2f} s", "1 s"),
        ("any item of it: median, 95th percentile", item, "200 ms"),
        ("any page of its outline: median, 95th percentile", page, "200 ms"),
        ("most memory without mapped files with it", f"{mib:.0f} MiB", "300 MiB"),
    ]


def _times(server: ViewerServer, paths: Sequence[str]) -> str:
    """The median and the 95th percentile of requests, and the server's CPU for each."""
    before = server.cpu_s()
    middle, slow = percentiles([_seconds(server, path) for path in paths])
    cpu_s = (server.cpu_s() - before) / len(paths)
    return f"{1e3 * middle:.0f}, {1e3 * slow:.0f} ms ({1e3 * cpu_s:.0f} ms CPU)"


def row_to_page(folder: Path) -> list[Line]:
    """Rows written at a steady rate: how long until the server counts them, and its CPU."""
    folder.mkdir()
    write_run(folder, tasks=WRITTEN_S * ROWS_A_SECOND, rollouts=1, row_bytes=1_000)
    rows = (folder / ROLLOUTS).read_bytes().splitlines(keepends=True)
    run = folder / ROLLOUTS
    run.write_bytes(rows[0])
    written: list[float] = [time.monotonic()]
    with viewer(run, folder / "served") as server:
        path = server.only_run()
        query = f"{path}/rollouts?q=outcome:scored&limit=1"
        server.when(path, lambda page: page["base"]["complete"])
        before = server.cpu_s()
        writer = threading.Thread(target=_write, args=(run, rows[1:], written))
        writer.start()
        delays = _delays(server, query, written, len(rows))
        writer.join()
        cpu_s = server.cpu_s() - before
    middle, slow = percentiles(delays)
    return [
        ("row written to the page: median, 95th percentile", f"{middle:.2f}, {slow:.2f} s", "2 s"),
        ("the viewer's CPU while 1,000 rows a second come", f"{cpu_s / WRITTEN_S:.0%}", ""),
    ]


def _write(run: Path, rows: Sequence[bytes], written: list[float]) -> None:
    at_once = ROWS_A_SECOND // 20
    with run.open("ab") as file:
        for start in range(0, len(rows), at_once):
            file.write(b"".join(rows[start : start + at_once]))
            file.flush()
            written.extend([time.monotonic()] * len(rows[start : start + at_once]))
            time.sleep(1 / 20)


def _delays(server: ViewerServer, query: str, written: list[float], rows: int) -> list[float]:
    """For each reply that counts more rows, the age of the first row that it counts newly."""
    seen, delays = 1, []
    ends = time.monotonic() + 60
    while seen < rows and time.monotonic() < ends:
        matches = int(server.get(query)["matches"])
        if matches > seen:
            delays.append(time.monotonic() - written[seen])
            seen = matches
        time.sleep(0.1)
    if seen < rows:
        raise SystemExit(f"the page has {seen} of {rows} rows after a minute")
    return delays


def cost_to_a_collection(folder: Path, rollouts: int, rounds: int) -> list[Line]:
    """The CPU of collections with a page open on them, against collections without."""
    cpu_s: dict[bool, list[float]] = {False: [], True: []}
    with helper("benchmarks.scale.slow_upstream", "0") as upstream:
        for number in range(rounds):
            for is_watched in (False, True) if number % 2 else (True, False):
                place = folder / f"collected{number}{is_watched}"
                place.mkdir(parents=True)
                write_tasks(place / "tasks.jsonl", rollouts)
                cpu_s[is_watched].append(_collecting(place, upstream.greeting, is_watched))
    ratio = min(cpu_s[True]) / min(cpu_s[False])
    rate = rollouts / min(cpu_s[False])
    return [
        (
            f"CPU of a collection with a page open ÷ without ({rate:,.0f} rows a CPU s)",
            f"{ratio:.3f}",
            "1.02",
        )
    ]


def _collecting(place: Path, upstream: str, is_watched: bool) -> float:
    extra = ("--concurrency", "64", "--progress", "plain", "++disable_aggregation=true")
    if not is_watched:
        return _cpu_of(place, upstream, extra)
    ending = threading.Event()
    watcher = threading.Thread(target=_watch, args=(place, ending))
    watcher.start()
    try:
        return _cpu_of(place, upstream, extra)
    finally:
        ending.set()
        watcher.join()


def _cpu_of(place: Path, upstream: str, extra: Sequence[str]) -> float:
    done = collect(place, upstream, *extra)
    if done.exit_code:
        raise SystemExit(done.notices[-2000:])
    return done.cpu_s


def _watch(place: Path, ending: threading.Event) -> None:
    """Open the run when it has rows, and ask what an open page asks, each second."""
    run = place / "rollouts.jsonl"
    while not (run.exists() and run.stat().st_size):
        if ending.wait(0.1):
            return
    with viewer(run, place / "served") as server:
        path = server.only_run()
        while not ending.wait(1.0):
            server.get(path)
            server.get(f"{path}/rollouts?limit=100")

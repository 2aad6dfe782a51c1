"""One way of going over all rows: `python -m ...contender WAY FOLDER`, in a process of its own.

cat    the scored rows of all shards into one file, synced: what the disk and the kernel take
scan   every scored row through orjson, nothing kept and nothing written
sort   coreutils' sort over the scored rows, as bytes, with a buffer of 512 MiB
naive  every scored row in memory as Python objects, sorted by key, written again
merge  `palestra.rollouts.merge`: all files of all shards, checked; again when it is there
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import orjson

BUFFER_BYTES = 1 << 20


def cat(shards: list[Path], output: Path) -> None:
    """Copy and sync."""
    with output.open("wb") as into:
        for shard in shards:
            with shard.open("rb") as file:
                shutil.copyfileobj(file, into, BUFFER_BYTES)
        into.flush()
        os.fsync(into.fileno())


def scan(shards: list[Path], _output: Path) -> None:
    """Decode."""
    for shard in shards:
        with shard.open("rb", buffering=BUFFER_BYTES) as file:
            for line in file:
                orjson.loads(line)


def sort(shards: list[Path], output: Path) -> None:
    """Sort lines."""
    command = ["sort", "--buffer-size=512M", f"--temporary-directory={output.parent}"]
    environment = {**os.environ, "LC_ALL": "C"}
    subprocess.run([*command, "-o", output, *shards], check=True, env=environment)


def naive(shards: list[Path], output: Path) -> None:
    """What a script of ten lines does."""
    rows = [orjson.loads(line) for shard in shards for line in shard.open("rb")]
    rows.sort(key=lambda row: (row["_ng_task_index"], row["_ng_rollout_index"]))
    with output.open("wb") as into:
        into.writelines(orjson.dumps(row) + b"\n" for row in rows)


def merge(shards: list[Path], output: Path) -> None:
    """Ours."""
    from palestra.rollouts import merge as merge_shards

    accounting = merge_shards(output, [*shards]).accounting
    accounting.check()


WAYS = {"cat": cat, "scan": scan, "sort": sort, "naive": naive, "merge": merge}


def main(way: str, folder: Path) -> None:
    """Run it once."""
    shards = sorted(p for p in (folder / "shards").glob("shard*.jsonl") if "_" not in p.stem)
    output = folder / way.replace(" ", "-") / "run.jsonl"
    output.parent.mkdir(exist_ok=True)
    WAYS[way](shards, output)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

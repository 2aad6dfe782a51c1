"""Write the rows of every shard with their global indices and seeds, before any job collects.

The input is materialized once and checked completely. Each shard's rows are then copied from it,
with the rollout indices of the shard's seed. Rows are streamed: memory grows with the number of
tasks, not of rollouts.

Each seed has a block of rollout indices: with n rollouts per task and seed, the block of seed s
begins at s * n. So shards of different seeds never share an index, even if seeds are added later.
"""

import contextlib
import hashlib
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

import orjson

from palestra.cluster.layout import RunFiles, shard_name
from palestra.cluster.plan import Run, Shard
from palestra.errors import InputDataError, KnownCause
from palestra.rollouts import StaleRun, materialize, whole_or_absent, with_seed, write_json
from palestra.schema import (
    CREATE_PARAMS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    JsonDict,
    JsonObject,
    read_jsonl,
)
from palestra.settings import LARGEST_SEED, CollectSettings, Share


def shards_of(seeds: tuple[int, ...] | None, num_chunks: int | None) -> tuple[Shard, ...]:
    """Return every shard of a run: one for each seed and chunk."""
    return tuple(
        Shard(
            name=shard_name(seed if seeds is not None else None, chunk if num_chunks else None),
            seed=seed,
            chunk=chunk,
            chunks=num_chunks or 1,
            server_seed=derived_seed("server", seed, chunk),
        )
        for seed in seeds or (0,)
        for chunk in range(num_chunks or 1)
    )


def share_of(chunk: int, chunks: int, tasks: Sequence[int]) -> Sequence[int]:
    """Return the tasks of chunk `chunk`. `tasks`: all tasks in the order of their indices."""
    return tasks[Share(chunk, chunks).share(len(tasks))]


def derived_seed(*parts: object) -> int:
    """Return a seed that depends only on `parts`, from 0 to `LARGEST_SEED`.

    It is a hash, so similar parts give unrelated seeds.
    """
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") & LARGEST_SEED


def request_seed(seed: int, task: int, repeat: int) -> int:
    """Return the sampling seed of one rollout."""
    return derived_seed(seed, task, repeat)


AT_ONCE: Final = 64
"""The number of files written in one pass over the input, far below any limit on open files."""


@dataclass(frozen=True, slots=True)
class Stamped:
    """The result of `stamp`. `tasks` and `rollouts`: the numbers of the whole run, over all its
    seeds.
    """

    shards: tuple[Shard, ...]
    input_digest: str
    tasks: int
    rollouts: int


def stamp(
    settings: CollectSettings,
    shards: Sequence[Shard],
    files: RunFiles,
    *,
    agents: Collection[str],
    seeded: bool,
    limit: int | None = None,
    check: Callable[[Stamped], None] = lambda _: None,
) -> Stamped:
    """Write and count the rows of `shards`. `limit`: the maximum number of tasks of each shard.

    `agents`: the names of the existing agents. `seeded`: add a seed to every request. `check` is
    called before anything is written and may raise. Raises InputDataError: rows are invalid (lists
    all of them), or there are more chunks than tasks.
    """
    with tempfile.TemporaryDirectory(prefix="palestra-") as folder:
        rows = Path(folder) / "rows.jsonl"
        materialized = materialize(settings, rows, agents=agents)
        tasks = sorted(materialized.repeats)
        tasks_of_chunk = {
            chunk: _share(shards, chunk, tasks, limit) for chunk in {s.chunk for s in shards}
        }
        counted = tuple(
            _counted(shard, tasks_of_chunk[shard.chunk], materialized.repeats) for shard in shards
        )
        stamped = Stamped(
            counted,
            materialized.input_digest,
            sum(map(len, tasks_of_chunk.values())),
            sum(shard.rows or 0 for shard in counted),
        )
        check(stamped)
        cut = _Cut(rows, materialized.repeats, tasks_of_chunk, seeded=seeded)
        for group in _groups(counted):
            cut.write(group, files)
    return stamped


def _share(
    shards: Sequence[Shard], chunk: int, tasks: Sequence[int], limit: int | None
) -> Sequence[int]:
    """Return the tasks of one chunk. Raises InputDataError: there are more chunks than tasks."""
    chunks = shards[0].chunks
    if len(tasks) < chunks:
        raise InputDataError(
            f"{len(tasks)} tasks cannot be cut into {chunks} chunks",
            hint=f"--num-chunks {len(tasks)} is the most",
        )
    return share_of(chunk, chunks, tasks)[:limit]


def _counted(shard: Shard, own_tasks: Sequence[int], repeats: Mapping[int, int]) -> Shard:
    return replace(
        shard,
        tasks=len(own_tasks),
        first_task=own_tasks[0],
        last_task=own_tasks[-1],
        rows=sum(repeats[task] for task in own_tasks),
    )


def _groups(shards: Sequence[Shard]) -> Iterator[Sequence[Shard]]:
    remaining = iter(shards)
    while group := tuple(islice(remaining, AT_ONCE)):
        yield group


@dataclass(frozen=True, slots=True)
class _Cut:
    """One materialized input, and the tasks of each chunk, from which the shards' rows are written."""

    rows: Path
    repeats: Mapping[int, int]
    tasks: Mapping[int, Sequence[int]]
    """The tasks of each chunk."""
    seeded: bool

    def write(self, shards: Sequence[Shard], files: RunFiles) -> None:
        chunk_of = {task: chunk for chunk, own_tasks in self.tasks.items() for task in own_tasks}
        with contextlib.ExitStack() as stack:
            outputs = {
                (shard.chunk, shard.seed): stack.enter_context(
                    whole_or_absent(files.given_inputs(shard.name))
                )[0]
                for shard in shards
            }
            for line in read_jsonl(self.rows):
                chunk = chunk_of.get(line.row[TASK_INDEX])
                for (of_chunk, seed), output in outputs.items():
                    if of_chunk == chunk:
                        output.write(orjson.dumps(self._stamped(line.row, seed)) + b"\n")

    def _stamped(self, row: JsonObject, seed: int) -> JsonDict:
        task, repeat = row[TASK_INDEX], row[ROLLOUT_INDEX]
        stamped_row = {**row, ROLLOUT_INDEX: seed * self.repeats[task] + repeat}
        if self.seeded:
            stamped_row[CREATE_PARAMS] = with_seed(
                row[CREATE_PARAMS], request_seed(seed, task, repeat)
            )
        return stamped_row


def remember_stamped(stamped: Stamped, files: RunFiles, *, anew: bool = False) -> None:
    """Write the counts and digest of the rows to a file for the jobs that follow.

    Raises StaleRun: an earlier submission had other input rows, and `anew` (collect again) is
    False.
    """
    if files.stamped.exists() and not anew:
        earlier = orjson.loads(files.stamped.read_bytes())
        if earlier["input_digest"] != stamped.input_digest:
            raise StaleRun(
                f"the run in {files.output_dir} was made from other input rows",
                hint="undo the changes, or choose another --output-dir",
                cause=KnownCause.STALE_INPUTS,
            )
    write_json(files.stamped, asdict(stamped))


def with_stamped(run: Run) -> Run:
    """Return the run with the counts that its job `prepare` wrote; unchanged when there is no such
    job.

    Raises InputDataError: the job `prepare` has not ended.
    """
    if run.collect.materialized:
        return run
    path = RunFiles(Path(run.output_dir)).stamped
    try:
        fields = orjson.loads(path.read_bytes())
        return replace(
            run,
            shards=tuple(Shard(**shard) for shard in fields["shards"]),
            input_digest=fields["input_digest"],
            tasks=fields["tasks"],
            rollouts=fields["rollouts"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputDataError(
            f"{path} cannot be read: {error}",
            hint="the job `prepare` writes this file: see the log of that job",
        ) from error

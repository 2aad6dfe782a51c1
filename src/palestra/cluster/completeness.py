"""How complete a run's shards are: whether a merge may begin, and what a partial merge lacks."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import orjson

from palestra.cluster.layout import RunFiles
from palestra.cluster.plan import Run
from palestra.cluster.shard import NotDone, count, is_done
from palestra.errors import InputDataError
from palestra.rollouts import MergeIncomplete
from palestra.schema import FAILURE_TERMINAL, TASK_INDEX, RolloutKey, key_of, read_jsonl
from palestra.system import replacing

MOST_NAMED = 10
T = TypeVar("T")


def check_shards(run: Run, files: RunFiles, *, allow_partial: bool) -> list[str]:
    """Return the names of the shards to merge: all, or with `allow_partial` those that have begun.

    Raises MergeIncomplete: some shards are not done (the message lists them). Raises
    InputDataError: no shard has begun.
    """
    names = [shard.name for shard in run.shards]
    open_shards = [name for name in names if not is_done(files.shard(name))]
    if open_shards and not allow_partial:
        described = first_named(
            open_shards, lambda name: f"{name}: {_how_far(files, name)}", between="\n  "
        )
        raise MergeIncomplete(
            f"{len(open_shards)} of {len(names)} shards are not done\n  {described}",
            hint=f"`palestra cluster retry-failed {files.output_dir}` runs them again; "
            f"`palestra cluster merge-shards {files.output_dir} --allow-partial` merges what is there",
        )
    begun_shards = [name for name in names if files.shard(name).manifest.exists()]
    if not begun_shards:
        raise InputDataError(f"no shard in {files.output_dir} has begun")
    return begun_shards


def _how_far(files: RunFiles, name: str) -> str:
    if not files.shard(name).manifest.exists():
        return "has not begun"
    try:
        return count(files.shard(name)).said()
    except (NotDone, OSError, ValueError, KeyError) as error:
        return str(error)


def write_completeness(run: Run, files: RunFiles, *, allow_partial: bool) -> Sequence[str]:
    """Write, for each task, how many rollouts were requested and how many have ended.

    The file is next to the merged rollouts and exists only while rollouts are missing. Returns the
    lines to print.
    """
    if not allow_partial:
        files.completeness.unlink(missing_ok=True)
        return ()
    requested_of_task: Counter[int] = Counter()
    ended_of_task: Counter[int] = Counter()
    for shard in run.shards:  # of which no two have a key in common: only one's are held at once
        shard_files = files.shard(shard.name)
        requested_keys = set(_keys(files.given_inputs(shard.name), only_terminal=False))
        ended_keys = set(_keys(shard_files.output, only_terminal=False))
        ended_keys.update(_keys(shard_files.failures, only_terminal=True))
        requested_of_task.update(key.task for key in requested_keys)
        ended_of_task.update(key.task for key in ended_keys & requested_keys)
    short = [
        task for task in sorted(requested_of_task) if ended_of_task[task] < requested_of_task[task]
    ]
    if not short:
        files.completeness.unlink(missing_ok=True)
        return ()
    lines = (
        orjson.dumps(
            {TASK_INDEX: task, "requested": requested_of_task[task], "ended": ended_of_task[task]}
        )
        + b"\n"
        for task in sorted(requested_of_task)
    )
    with replacing(files.completeness) as file:
        file.writelines(lines)
    described = first_named(
        short, lambda task: f"{task}: {ended_of_task[task]} of {requested_of_task[task]}"
    )
    return (
        f"{len(short)} of {len(requested_of_task)} tasks lack rollouts: {described}",
        f"how many each task has is in {files.completeness}",
    )


def first_named(
    items: Sequence[T], text_of: Callable[[T], str] = str, *, between: str = ", "
) -> str:
    """Return the first items as texts for a message, and how many more there are."""
    hidden = [f"and {len(items) - MOST_NAMED} more"] if len(items) > MOST_NAMED else []
    return between.join([*map(text_of, items[:MOST_NAMED]), *hidden])


def _keys(path: Path, *, only_terminal: bool) -> Iterator[RolloutKey]:
    with suppress(FileNotFoundError):
        for line in read_jsonl(path):
            if not line.ended or line.error:
                continue  # what a kill has left of a row
            if not only_terminal or line.row.get(FAILURE_TERMINAL):
                yield key_of(line.row)

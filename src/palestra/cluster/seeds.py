"""Seeds and chunks: which rollouts are whose, and with which seeds they are sampled.

A seed is a block of rollout indices: with n rollouts of a task per seed, seed s has the indices
from s * n on. So the shards of any two seeds, also of seeds added later, have no index in common.
"""

import hashlib
from collections.abc import Sequence

from palestra.cluster.layout import shard_name
from palestra.cluster.plan import Shard
from palestra.settings import LARGEST_SEED
from palestra.settings import Shard as Share


def shards_of(seeds: tuple[int, ...] | None, num_chunks: int | None) -> tuple[Shard, ...]:
    """Every shard of a run: each seed, and in it each chunk."""
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
    """The tasks of a chunk, of all tasks in the order of their indices."""
    return tasks[Share(chunk, chunks).share(len(tasks))]


def derived_seed(*parts: object) -> int:
    """A seed that the parts alone decide, 0 to `LARGEST_SEED`; unrelated for neighbouring parts."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") & LARGEST_SEED


def request_seed(seed: int, task: int, repeat: int) -> int:
    """The seed that one rollout is sampled with."""
    return derived_seed(seed, task, repeat)

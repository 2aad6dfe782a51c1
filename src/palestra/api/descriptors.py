"""Compares the number of rollouts in flight with the limit on open files."""

import math
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from palestra.errors import ConfigError
from palestra.fleet import LOOPBACK
from palestra.settings import AUTO, CollectSettings
from palestra.transport import Target

RESERVE: Final = 256
"""Open files that rollouts do not use: listening sockets, logs, libraries, child processes."""


def files_per_rollout(targets: Collection[Target]) -> float:
    """Return how many sockets one rollout needs, in the process that needs most of them.

    In this process it is one: to the model's endpoint, or to the agent's process. A server process
    on this machine has the same limit and needs two: one to its caller, one to the server that it
    calls. Several workers of a server share them.
    """
    shares = [2 / len(t.urls) for t in targets if t.local is None and _is_here(t)]
    return max([1.0, *shares])


def _is_here(target: Target) -> bool:
    return any(urlsplit(url).hostname in LOOPBACK for url in target.urls)


def most_in_flight(targets: Collection[Target], limit: int) -> int:
    """Return how many rollouts can be in flight at once with at most `limit` open files."""
    return max(1, int((limit - RESERVE) / files_per_rollout(targets)))


def check_descriptors(
    settings: CollectSettings, remaining: int, targets: Collection[Target], limit: int
) -> str:
    """Return a warning when all rollouts at once need more than `limit` open files; else an empty
    text.

    Raises ConfigError: the concurrency that the user set needs more.
    """
    fits = most_in_flight(targets, limit)
    sockets_needed = min(remaining, settings.bound or remaining)
    if sockets_needed <= fits or settings.num_samples_in_parallel == AUTO:
        return ""
    needed = math.ceil(sockets_needed * files_per_rollout(targets)) + RESERVE
    short = (
        f"{sockets_needed} rollouts in flight need about {needed} open files in one process, and the "
        f"limit is {limit}"
    )
    ways = f"raise it (ulimit -Hn {needed}, as root or in limits.conf), or --concurrency {fits}"
    if settings.bound is not None:
        raise ConfigError(short, hint=ways)
    return f"{short}: some may fail with `Too many open files`; {ways}"

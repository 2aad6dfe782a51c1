"""Whether so many rollouts fit into the limit on open files, said before the first one starts."""

import math
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from palestra.errors import ConfigError
from palestra.fleet import LOOPBACK
from palestra.settings import AUTO, CollectSettings
from palestra.transport import Target

RESERVE: Final = 256
"""Files that have nothing to do with rollouts: listening sockets, logs, libraries, children."""


def files_per_rollout(targets: Collection[Target]) -> float:
    """Sockets that one rollout holds in the process that holds most of them.

    Here it is one: to the model's endpoint, or to the agent's process. A server process on this
    machine, which has the same limit, holds the caller's and one to whom it calls itself; several
    workers share them.
    """
    shares = [2 / len(t.urls) for t in targets if t.local is None and _is_here(t)]
    return max([1.0, *shares])


def _is_here(target: Target) -> bool:
    return any(urlsplit(url).hostname in LOOPBACK for url in target.urls)


def most_in_flight(targets: Collection[Target], limit: int) -> int:
    """How many rollouts fit into a limit of so many open files."""
    return max(1, int((limit - RESERVE) / files_per_rollout(targets)))


def check_descriptors(
    settings: CollectSettings, remaining: int, targets: Collection[Target], limit: int
) -> str:
    """A warning when everything at once does not fit into `limit` open files; else empty.

    Raises ConfigError when the number that was asked for does not fit.
    """
    fits = most_in_flight(targets, limit)
    wanted = min(remaining, settings.bound or remaining)
    if wanted <= fits or settings.num_samples_in_parallel == AUTO:
        return ""
    needed = math.ceil(wanted * files_per_rollout(targets)) + RESERVE
    short = (
        f"{wanted} rollouts in flight need about {needed} open files in one process, and the "
        f"limit is {limit}"
    )
    ways = f"raise it (ulimit -Hn {needed}, as root or in limits.conf), or --concurrency {fits}"
    if settings.bound is not None:
        raise ConfigError(short, hint=ways)
    return f"{short}: some may fail with `Too many open files`; {ways}"

"""Count the processors that this process may use."""

import math
import os
from pathlib import Path

from palestra.sandbox.keeping.cgroups import ROOT, processors_allowed


def usable_processors(root: Path = ROOT) -> int:
    """Return how many processors this process may use: its CPU affinity, limited by its control
    group's quota.

    The quota is rounded up: a container that may use 1.5 of a machine's 64 processors has 2.
    """
    try:
        bound = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        bound = os.cpu_count() or 1
    allowed = processors_allowed(root)
    return bound if allowed is None else max(1, min(bound, math.ceil(allowed)))

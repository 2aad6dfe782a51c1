"""How many processors we have: places for programs, and no more."""

import math
import os
from pathlib import Path

from palestra.sandbox.keeping.cgroups import ROOT, processors_allowed


def usable_processors(root: Path = ROOT) -> int:
    """Processors that this process may use: those it is bound to, within its group's quota.

    A container that may use one and a half of a machine's 64 has two.
    """
    try:
        bound = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        bound = os.cpu_count() or 1
    allowed = processors_allowed(root)
    return bound if allowed is None else max(1, min(bound, math.ceil(allowed)))

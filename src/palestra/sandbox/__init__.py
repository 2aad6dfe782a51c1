"""Work that must not run on the event loop: heavy CPU work in killable workers.

`open_workers` gives the CPU workers: on this machine's cores, or spread over a Ray cluster.
"""

from palestra.sandbox.workers import (
    Crashed,
    LocalWorkers,
    Outcome,
    OutOfMemory,
    Raised,
    Returned,
    TimedOut,
    Workers,
    WorkersBroken,
    open_workers,
)

__all__ = [
    "Crashed",
    "LocalWorkers",
    "OutOfMemory",
    "Outcome",
    "Raised",
    "Returned",
    "TimedOut",
    "Workers",
    "WorkersBroken",
    "open_workers",
]

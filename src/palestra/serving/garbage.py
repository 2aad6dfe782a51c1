"""`RARE_COLLECTIONS`: how often a process of ours looks for garbage that refers to itself."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARE_COLLECTIONS = (20_000, 50, 50)
"""Thresholds of Python's three generations, of which 700, 10 and 10 are the defaults.

Rollouts leave next to no cycles behind, and thousands in flight are millions of live objects,
each of which every full collection walks over: with 8,000 in flight the defaults took half of
all CPU time and stopped the event loop for up to 1.4 s."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect rarely while the body runs. For whoever owns the process, not for a library."""
    before = gc.get_threshold()
    gc.set_threshold(*RARE_COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*before)

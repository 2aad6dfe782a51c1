"""How the time of some work grows with its size, whatever the machine does besides."""

import time
from collections.abc import Callable


def growth(work: Callable[[int], object], small: int, large: int) -> float:
    """How many times the CPU of `work(small)` the one of `work(large)` takes."""
    return _least_cpu_s(work, large) / _least_cpu_s(work, small)


def _least_cpu_s(work: Callable[[int], object], size: int) -> float:
    taken = []
    for _ in range(3):
        began = time.thread_time()
        work(size)
        taken.append(time.thread_time() - began)
    return max(min(taken), 1e-4)

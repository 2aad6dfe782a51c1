"""How the C library keeps memory that is freed."""

import ctypes
from typing import Final

# parameters of mallopt(3)
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
_LARGE: Final = 1 << 20


def keep_little_freed_memory() -> None:
    """Have freed blocks of at least 1 MiB returned to the operating system at once, and all threads
    share one pool for smaller blocks.

    By default glibc keeps blocks of up to 32 MiB once some were freed, and a pool for each thread, so
    that a process whose threads make and drop large arrays holds several times what it uses. Does
    nothing with another C library.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE)
        mallopt(_ARENA_MAX, 1)

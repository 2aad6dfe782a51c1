"""Let this process exit soon after its work."""

import atexit
import gc


def exit_quickly() -> None:
    """Make this process free less when it exits.

    The interpreter's own last collections take apart every module, which is most of the time that a
    server process needs to exit. One collection before them still finalizes what the program itself
    has left, such as open files.
    """
    atexit.register(_collect_for_the_last_time)


def _collect_for_the_last_time() -> None:
    gc.collect()
    gc.freeze()

"""The limit of open files."""

import resource


def raise_descriptor_limit() -> int:
    """Raise this process's limit of open files to its maximum, and return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard

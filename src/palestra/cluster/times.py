"""Times as Slurm writes them."""


def seconds_of(limit: str) -> float:
    """A time as Slurm writes it: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S."""
    days, dash, rest = limit.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, (*parts, 0)[:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds

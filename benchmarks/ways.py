"""Ways of doing the same to a file, measured as whole processes and shown beside the first."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.samples import table

MIB = 1 << 20


@dataclass(slots=True)
class Way:
    """One row of the table. `way` is its name on the command line and for its folder."""

    title: str
    way: str
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    peak_mib: list[float] = field(default_factory=list)


def report(found: Sequence[Way], *, rows: int, size: int, ratio: str, rate: str = "MiB/s") -> str:
    """Medians, and ratios to the first; `size` in bytes, `ratio` and `rate` are headings."""
    floor = median(found[0].wall_s)
    lines = [
        (
            way.title,
            f"{median(way.wall_s) / floor:.2f}",
            f"{median(way.wall_s):.2f}",
            f"{median(way.cpu_s):.2f}",
            f"{rows / median(way.wall_s):,.0f}",
            f"{size / MIB / median(way.wall_s):,.0f}",
            f"{max(way.peak_mib):,.0f}",
        )
        for way in found
    ]
    return table(("way", ratio, "wall s", "CPU s", "rows/s", rate, "peak MiB"), lines)

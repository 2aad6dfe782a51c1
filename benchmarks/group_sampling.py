"""`python -m benchmarks.group_sampling [--groups 2000]`: whether over-sampling favours short answers.

Simulated rollouts whose time is in proportion to their length, which has a long tail. Each way of
choosing 7 of 8 is held against all rollouts: the distance of the lengths (Kolmogorov-Smirnov), the
shift of their mean with a 95 % interval, and when the last needed rollout of the batch has ended.
"""

import argparse
import math
import random
from collections.abc import Callable, Iterator
from statistics import fmean, stdev

from msgspec.structs import replace

from benchmarks.samples import table
from palestra.training import Completed, OverSampling, RawRow, RolloutRequest, Timings
from palestra.training.sampling.drawing import Drawing

MEMBERS, NEEDED = 8, 7
Lengths = dict[tuple[int, int], float]
Chosen = tuple[list[float], float, float]
"""The lengths that are returned, when the last of them ended, and the stated bound."""


def first_to_end(lengths: Lengths, groups: int) -> Chosen:
    """The first 7 of 8."""
    returned = [
        length
        for group in range(groups)
        for length in sorted(lengths[group, index] for index in range(MEMBERS))[:NEEDED]
    ]
    return returned, max(returned), math.nan


def drawn(fraction: float) -> Callable[[Lengths, int], Chosen]:
    """Over-sampling as Palestra has it."""

    def choose(lengths: Lengths, groups: int) -> Chosen:
        asked = [
            RolloutRequest(row={}, task_id=group, rollout_index=index) for group, index in lengths
        ]
        drawing = Drawing(asked, OverSampling(needed=NEEDED, max_slow_fraction=fraction))
        returned: list[float] = []
        for key in sorted(lengths, key=lengths.__getitem__):
            for group in drawing.end(
                replace(ENDED, task_id=key[0], rollout_index=key[1], group_id=key[0])
            ):
                members = group.result.outcomes if group.result is not None else []
                returned += [lengths[member.key] for member in members]  # type: ignore[index]
            if drawing.is_decided:
                return returned, lengths[key], drawing.counts["replaced_slow"] / NEEDED / groups
        raise AssertionError("not every group was decided")

    return choose


ENDED = Completed(
    task_id=0,
    rollout_index=0,
    group_id=0,
    attempt=1,
    reward=1.0,
    timings=Timings(0.0, 1.0),
    raw=RawRow({}),
)


def distance(sample: list[float], everything: list[float]) -> float:
    """The Kolmogorov-Smirnov distance of two samples."""
    marked = sorted(
        [(value, 1 / len(sample)) for value in sample]
        + [(value, -1 / len(everything)) for value in everything]
    )
    height, most = 0.0, 0.0
    for position, (value, step) in enumerate(marked):
        height += step
        if position + 1 == len(marked) or marked[position + 1][0] != value:
            most = max(most, abs(height))
    return most


def rows(groups: int) -> Iterator[tuple[str, ...]]:
    """The lines of the table."""
    chance = random.Random(1)
    lengths = {
        (group, index): chance.lognormvariate(5, 1.0)
        for group in range(groups)
        for index in range(MEMBERS)
    }
    everything = list(lengths.values())
    ways: dict[str, Callable[[Lengths, int], Chosen]] = {
        "the first 7 of 8 to end": first_to_end,
        "7 of 8, drawn before the start": drawn(0.0),
        "the same, max_slow_fraction=0.01": drawn(0.01),
        "the same, max_slow_fraction=0.05": drawn(0.05),
    }
    for name, choose in ways.items():
        returned, ends, bound = choose(lengths, groups)
        mean = fmean(everything)
        shift = fmean(returned) / mean - 1
        half = 1.96 * stdev(returned) / math.sqrt(len(returned)) / mean
        yield (
            name,
            f"{distance(returned, everything):.4f}",
            "-" if math.isnan(bound) else f"{bound:.4f}",
            f"{shift:+.1%} ± {half:.1%}",
            f"{ends / max(everything):.2f}",
        )


def main() -> None:
    """Simulate, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.group_sampling")
    parser.add_argument("--groups", type=int, default=2000)
    groups = parser.parse_args().groups
    header = ("returned", "distance", "bound", "shift of the mean", "time of the batch")
    print(table(header, list(rows(groups))))


if __name__ == "__main__":
    main()

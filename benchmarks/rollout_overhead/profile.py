"""Where an embedded rollout's CPU goes: `python -m benchmarks.rollout_overhead.profile`.

Two views, because neither alone is true. The sampler interrupts every few milliseconds of CPU
and charges the innermost Python function, with the C calls it makes: shares are right, small
functions blur. cProfile counts calls and charges every function, and inflates cheap ones.
"""

import argparse
import cProfile
import io
import pstats
import signal
import time
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Self

import uvloop

from benchmarks.machine import load
from benchmarks.processes import helper
from benchmarks.rollout_overhead.chunks import RunChunk
from benchmarks.rollout_overhead.driver import MODULES, import_contender
from benchmarks.samples import table

EVERY_S = 0.001
CHUNK = 48


class Sampler:
    """Counts, per function, the samples in which it was innermost, and in which it took part."""

    def __init__(self) -> None:
        self.own: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        self.samples = 0

    def __enter__(self) -> Self:
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _sample(self, _number: int, frame: FrameType | None) -> None:
        self.samples += 1
        if frame is not None:
            self.own[_name(frame.f_code)] += 1
        seen = set()
        while frame is not None:
            seen.add(_name(frame.f_code))
            frame = frame.f_back
        self.total.update(seen)


def _name(code: CodeType) -> str:
    path = Path(code.co_filename)
    return f"{path.parent.name}/{path.name}:{code.co_firstlineno} {code.co_qualname}"


async def _repeat(run: RunChunk, rollouts: int) -> None:
    for _ in range(rollouts // CHUNK):
        await run(CHUNK)


async def _profile(name: str, way: str, url: str, rollouts: int, top: int) -> None:
    async with import_contender(name).contender(url) as contender:
        run = contender.ways[way]
        await _repeat(run, 20 * CHUNK)
        rollouts -= rollouts % CHUNK
        before = time.process_time()
        with Sampler() as sampler:
            await _repeat(run, rollouts)
        us = (time.process_time() - before) / rollouts * 1e6
        print(f"{way}: {us:.0f} us of CPU per rollout with the sampler on; load {load()}")
        rows = [
            (
                function,
                f"{us * count / sampler.samples:.1f}",
                f"{us * sampler.total[function] / sampler.samples:.1f}",
            )
            for function, count in sampler.own.most_common(top)
        ]
        print(table(("sampled", "own us", "with callees us"), rows))
        by_total = [
            (function, f"{us * count / sampler.samples:.1f}")
            for function, count in sampler.total.most_common(top)
        ]
        print()
        print(table(("sampled, by total", "with callees us"), by_total))
        await _count_calls(run, rollouts, top)


async def _count_calls(run: RunChunk, rollouts: int, top: int) -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    await _repeat(run, rollouts)
    profiler.disable()
    text = io.StringIO()
    stats = pstats.Stats(profiler, stream=text).stats  # type: ignore[attr-defined]
    found = sorted(stats.items(), key=lambda item: -item[1][2])[:top]
    rows = [
        (
            f"{'/'.join(Path(file).parts[-2:])}:{line} {function}",
            f"{calls / rollouts:.1f}",
            f"{own / rollouts * 1e6:.1f}",
            f"{total / rollouts * 1e6:.1f}",
        )
        for (file, line, function), (_, calls, own, total, _) in found
    ]
    print()
    print(table(("cProfile (inflated)", "calls", "own us", "with callees us"), rows))


def main() -> None:
    """Profile one way of one contender."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contender", choices=list(MODULES), default="embedded")
    parser.add_argument("--way", default="collect")
    parser.add_argument("--rollouts", type=int, default=12_000)
    parser.add_argument("--top", type=int, default=45)
    given = parser.parse_args()
    with helper("benchmarks.rollout_overhead.fake_upstream") as upstream:
        uvloop.run(
            _profile(given.contender, given.way, upstream.greeting, given.rollouts, given.top)
        )


if __name__ == "__main__":
    main()

"""A process that calls math-verify as its documentation shows: so many answers per line it reads."""

import sys
import time
from collections.abc import Sequence

from math_verify import parse, verify

from benchmarks.math_verification.answers import pairs


def grade(answers: Sequence[tuple[str, str]]) -> int:
    """How many are right."""
    return sum(verify(parse(rf"\boxed{{{expected}}}"), parse(text)) for expected, text in answers)


def main() -> None:
    """For each line, a number: the seconds it took and how many were right."""
    print("ready", flush=True)
    for line in sys.stdin:
        answers = pairs(int(line))
        started = time.perf_counter()
        right = grade(answers)
        print(time.perf_counter() - started, right, flush=True)


if __name__ == "__main__":
    main()

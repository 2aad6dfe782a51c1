"""How much of two texts is the same, by difflib: a program that `limited_child.py` runs.

Imports nothing of ours. The matcher's time grows with the square of the texts and worse.
"""

import json
import resource
import sys
from difflib import SequenceMatcher
from typing import Final

CPU_LIMIT_S: Final = 5
MEMORY_LIMIT: Final = 1 << 30


def _main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answer, expected = json.load(sys.stdin)
    json.dump(SequenceMatcher(None, answer, expected).ratio(), sys.stdout)


if __name__ == "__main__":
    _main()

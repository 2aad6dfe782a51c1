"""What authors' functions do, good and bad, and how the rollouts of each must end."""

import ctypes
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from author_deeds import (
    backtrack,
    backtrack_deaf,
    close_output,
    fail,
    leave_a_sleeper,
    set_an_alarm,
    spin,
)

SEED = 20261122
SHARE_OF_FINE = 0.5


def fork_and_return() -> None:
    os.fork()


def stay_here() -> None:
    if Path.cwd() == Path("/"):
        raise RuntimeError("another call has changed the working directory")


FINE: dict[str, Callable[[], Any]] = {
    "fine": stay_here,
    "prints": lambda: os.write(1, b"a line of an author\n"),
    "chdir": lambda: os.chdir("/"),
    "fork": fork_and_return,
    "forked sleeper": leave_a_sleeper,
    "closes output": close_output,
    "alarm": set_an_alarm,
}
RAISES: dict[str, Callable[[], Any]] = {
    "raises": fail,
    "sys.exit": lambda: sys.exit(3),
    "memory": lambda: bytearray(2**36),
}
BREAKS: dict[str, Callable[[], Any]] = {
    "regex": backtrack,
    "loop": spin,
    "deaf": backtrack_deaf,
    "sleep": lambda: time.sleep(600),
    "os._exit": lambda: os._exit(3),
    "segfault": lambda: ctypes.string_at(0),
    "closes everything": lambda: os.closerange(0, 1000),
}
KINDS = {**FINE, **RAISES, **BREAKS}


def kinds(count: int, seed: int) -> list[str]:
    """As many, half of them good ones."""
    chance = random.Random(SEED + seed)  # the same ones each time
    bad = [*RAISES, *BREAKS]
    return [
        chance.choice([*FINE] if chance.random() < SHARE_OF_FINE else bad) for _ in range(count)
    ]


def ending_of(place: str, kind: str) -> str:
    """How the rollout ends whose `place` (seed, tool or verify) does `kind`."""
    if kind in FINE or (place == "tool" and kind in RAISES):
        return "scored"
    return "verifier_error" if place == "verify" else "environment_error"
